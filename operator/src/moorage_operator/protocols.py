"""Whether the servers speak the protocol of the spec: the condition, and `status.protocol`; pure.

A declared protocol matches when a server answers in it, whatever it says of the model. `Auto`
matches once a server has answered in any. Nobody's answer is not yet a mismatch.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .answers import ANSWERED, Spoken
from .api.v1alpha1 import InferenceModel, Protocol
from .conditions import Condition, ConditionType, Finding, Reason, find_condition
from .replicas import PROTOCOL_REASONS, Replica, worst
from .state import Observed

__all__ = ["detected", "protocol_matched", "protocol_status"]


def protocol_matched(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> Condition:
    """The condition ProtocolMatched."""
    type_ = ConditionType.PROTOCOL_MATCHED
    current = [replica for replica in replicas if replica.current]
    against = worst(
        replica.model
        for replica in current
        if replica.model and replica.model.reason in PROTOCOL_REASONS
    )
    if against:
        return Condition(type_, status=False, finding=against)
    known = _spoken(current) or _as_before(model, observed, current)
    if known:
        how = f"{known['detected']} over {model.transport}"
        finding = Finding(Reason.PROTOCOL_ANSWERED, f"the server answers as {how}")
        return Condition(type_, status=True, finding=finding)
    waiting = Finding(Reason.AWAITING_ANSWER, "no server has answered yet")
    return Condition(type_, status=None, finding=waiting)


def protocol_status(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> dict[str, str]:
    """`status.protocol`: what the spec declares, what a server was found to speak, and by what."""
    current = [replica for replica in replicas if replica.current]
    told = _proven(_spoken(current), _previous(model, observed.status))
    unasked = all(replica.result is None for replica in current)
    if not told and (unasked or not _is_foreign(current)):
        told = _previous(model, observed.status)
    return {"declared": str(model.protocol), **told}


def detected(status: Mapping[str, str]) -> Protocol | None:
    """The protocol that `status.protocol` says is spoken, None while nobody knows."""
    found = status.get("detected", "")
    return Protocol(found) if found in set(Protocol) else None


def _spoken(current: Sequence[Replica]) -> dict[str, str]:
    """What the first replica speaks, serving ones first; {} before the first answer."""
    ordered = sorted(current, key=lambda replica: not replica.serving)
    found: list[Spoken] = [
        replica.result.spoken for replica in ordered if replica.result and replica.result.spoken
    ]
    return {"detected": found[0].protocol, "evidence": found[0].evidence} if found else {}


def _proven(told: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """What is told, with the evidence that there was while there is none yet.

    Without this a restarted operator would write a poorer status before it writes the same again.
    """
    same = bool(told) and told["detected"] == before.get("detected")
    return before if same and told["evidence"] == ANSWERED and before["evidence"] else told


def _previous(model: InferenceModel, status: Mapping[str, Any]) -> dict[str, str]:
    """What the previous status says of the same declaration."""
    before = cast("Mapping[str, str]", status.get("protocol") or {})
    if before.get("declared") != model.protocol or not before.get("detected"):
        return {}
    return {"detected": before["detected"], "evidence": before.get("evidence", "")}


def _as_before(
    model: InferenceModel, observed: Observed, current: Sequence[Replica]
) -> dict[str, str]:
    """What is known although nobody has answered yet, since the operator or a server started."""
    before = _previous(model, observed.status)
    if any(replica.model_ready for replica in current):
        declared = {} if model.protocol is Protocol.AUTO else {"detected": str(model.protocol)}
        return before or declared
    written = find_condition(observed.status, ConditionType.PROTOCOL_MATCHED)
    stands = (
        written.get("status") == "True"
        and written.get("observedGeneration") == model.generation
        and any(replica.pod.runtime.running_since for replica in current)
    )
    return before if stands else {}


def _is_foreign(current: Sequence[Replica]) -> bool:
    return any(
        replica.model is not None and replica.model.reason in PROTOCOL_REASONS
        for replica in current
    )
