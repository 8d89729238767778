"""Decides the condition ProtocolMatched, and `status.protocol`; pure.

A declared protocol matches when a server answers in it, whatever the answer. `Auto` matches once a
server has answered in any protocol. A missing answer is not a mismatch. With `None` there is no
protocol to match, and no condition.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from moorage_operator.api.conditions import (
    Condition,
    ConditionType,
    Finding,
    Reason,
    find_condition,
)
from moorage_operator.api.reasons import Trait, has
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol
from moorage_operator.decide.pods.replicas import Replica, worst
from moorage_operator.resources import endpoints
from moorage_operator.values.answers import ANSWERED, Spoken
from moorage_operator.values.observed import Observed

__all__ = ["detected", "is_unshown", "protocol_matched", "protocol_status"]


def protocol_matched(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> Condition:
    """Decide the condition ProtocolMatched."""
    type_ = ConditionType.PROTOCOL_MATCHED
    current = [replica for replica in replicas if replica.current]
    against = worst(
        replica.model
        for replica in current
        if replica.model and has(replica.model.reason, Trait.PROTOCOL)
    )
    if against:
        return Condition(type_, status=False, finding=against)
    known = _spoken(current) or _as_before(model, observed, current)
    if known:
        how = f"{known['detected']} over {model.transport}"
        finding = Finding(Reason.PROTOCOL_ANSWERED, f"the server answers as {how}")
        return Condition(type_, status=True, finding=finding)
    waiting = Finding(Reason.AWAITING_ANSWER, "no server has answered yet")
    if is_unshown(model, replicas):
        path = model.paths.model_ready
        sentence = f"the server answers at {path}, but this does not prove its protocol"
        waiting = Finding(Reason.AWAITING_ANSWER, sentence)
    return Condition(type_, status=None, finding=waiting)


def is_unshown(model: InferenceModel, replicas: Sequence[Replica]) -> bool:
    """Whether the model is ready at a custom path, but no server has proved its protocol.

    The spec defines readiness by this path, so the model may serve without a known protocol.
    """
    if not endpoints.asks_own_path(model):
        return False
    current = [replica for replica in replicas if replica.current]
    ready = any(replica.model_ready for replica in current)
    return ready and not _spoken(current) and not _is_foreign(current)


def protocol_status(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> dict[str, str]:
    """Render `status.protocol`: the declared and the detected protocol, and the evidence."""
    declared = {"declared": str(model.protocol)}
    if model.protocol is Protocol.NONE:
        return declared
    current = [replica for replica in replicas if replica.current]
    found = _proven(_spoken(current), _previous(model, observed.status))
    unasked = all(replica.result is None for replica in current)
    if not found and (unasked or not _is_foreign(current)):
        found = _previous(model, observed.status)
    return {**declared, **found}


def detected(status: Mapping[str, str]) -> Protocol | None:
    """Return the detected protocol of `status.protocol`, None if there is none."""
    return next((each for each in Protocol if each == status.get("detected")), None)


def _spoken(current: Sequence[Replica]) -> dict[str, str]:
    """Return the protocol of the first replica, serving ones first; {} without an answer."""
    ordered = sorted(current, key=lambda replica: not replica.serving)
    found: list[Spoken] = [
        replica.result.spoken for replica in ordered if replica.result and replica.result.spoken
    ]
    return {"detected": found[0].protocol, "evidence": found[0].evidence} if found else {}


def _proven(found: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    """Keep the previous evidence until there is new evidence.

    Otherwise a restarted operator would first write a status with less evidence.
    """
    same = bool(found) and found["detected"] == before.get("detected")
    return before if same and found["evidence"] == ANSWERED and before["evidence"] else found


def _previous(model: InferenceModel, status: Mapping[str, Any]) -> dict[str, str]:
    """Return the detected protocol of the previous status, for the same declaration."""
    before = cast("Mapping[str, str]", status.get("protocol") or {})
    if before.get("declared") != model.protocol or not before.get("detected"):
        return {}
    return {"detected": before["detected"], "evidence": before.get("evidence", "")}


def _as_before(
    model: InferenceModel, observed: Observed, current: Sequence[Replica]
) -> dict[str, str]:
    """Return what is known before the first answer after a start of the operator or a server."""
    before = _previous(model, observed.status)
    if any(replica.model_ready for replica in current):
        unknown = model.protocol is Protocol.AUTO or endpoints.asks_own_path(model)
        declared = {} if unknown else {"detected": str(model.protocol)}
        return before or declared
    written = find_condition(observed.status, ConditionType.PROTOCOL_MATCHED)
    is_valid = (
        written.get("status") == "True"
        and written.get("observedGeneration") == model.generation
        and any(replica.pod.runtime.running_since for replica in current)
    )
    return before if is_valid else {}


def _is_foreign(current: Sequence[Replica]) -> bool:
    return any(
        replica.model is not None and has(replica.model.reason, Trait.PROTOCOL)
        for replica in current
    )
