"""How a replica's smoke tests ended, and what of it is kept in the status; pure.

    probe.smoke_runner --> ProbeResult.smoke --> **trials** --> replicas --> status
                                status of before -----^

A container is put to the tests once. So that a restarted operator does not ask everything again,
each replica's entry in the status has the digest of the tests and how they ended.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .answers import ProbeResult
from .api.v1alpha1 import InferenceModel
from .conditions import ConditionType, Finding, Reason, find_condition
from .smoke import SmokeOutcome, SmokeVerdict
from .watched import PodObserved

__all__ = ["SMOKE_REASONS", "finding", "outcome", "passed_by_all", "written"]

SMOKE_REASONS = {Reason(verdict) for verdict in SmokeVerdict} | {Reason.RUNNING}


def outcome(
    pod: PodObserved,
    model: InferenceModel,
    result: ProbeResult | None,
    before: Mapping[str, Any],
) -> SmokeOutcome | None:
    """How this container did in the tests of this spec; None: it was not put to them yet.

    Args:
        pod: The replica's pod.
        model: The model with its tests.
        result: What its server answered, where that is known.
        before: The replica's entry in the previous status.
    """
    told = result.smoke if result else None
    if told and told.digest == model.smoke_digest:
        return told
    kept = cast("Mapping[str, Any]", before.get("smokeTests") or {})
    same_container = before.get("restarts") == pod.runtime.restart_count
    if not same_container or kept.get("digest") != model.smoke_digest:
        return None
    verdict = SmokeVerdict(str(kept["reason"]))
    return SmokeOutcome(model.smoke_digest, verdict, str(kept.get("message", "")))


def finding(pod: PodObserved, trial: SmokeOutcome | None) -> Finding | None:
    """What the tests speak against a replica whose model is ready."""
    if trial is None:
        return Finding(Reason.RUNNING, f"pod {pod.name}: its smoke tests have not ended yet")
    if trial.verdict is SmokeVerdict.PASSED:
        return None
    return Finding(Reason(trial.verdict), f"pod {pod.name}: {trial.message}")


def written(trial: SmokeOutcome | None) -> dict[str, Any]:
    """The part of a replica's entry in the status, {} before the tests have ended."""
    if trial is None:
        return {}
    told = {"digest": trial.digest, "reason": str(trial.verdict)}
    return {"smokeTests": {**told, "message": trial.message} if trial.message else told}


def passed_by_all(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What every entry says where the condition is true, those that the status leaves out too."""
    if find_condition(status, ConditionType.SMOKE_TEST_PASSED).get("status") != "True":
        return None
    entries = cast("Sequence[Mapping[str, Any]]", status.get("replicaStatuses") or ())
    return next((entry["smokeTests"] for entry in entries if "smokeTests" in entry), None)
