"""The outcome of a replica's smoke tests, and how the status stores it; pure.

    smoke_runner --> ProbeResult.smoke --> **smoke_verdicts** --> replicas --> status
                                previous status ------^

A container is tested once. Each replica's entry in the status has the digest of the tests and
their outcome, so that a restarted operator does not repeat them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from moorage_operator.api.conditions import (
    ConditionType,
    Finding,
    Reason,
    find_condition,
    timestamp,
)
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.answers import ProbeResult
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict

__all__ = ["finding", "outcome", "passed_with_all", "written"]


def outcome(
    pod: PodObserved,
    model: InferenceModel,
    result: ProbeResult | None,
    before: Mapping[str, Any],
) -> SmokeOutcome | None:
    """Return the outcome of this spec's tests for this container; None if there is none yet.

    Args:
        pod: The replica's pod.
        model: The model with its tests.
        result: The answers of its server, if any.
        before: The replica's entry in the previous status.
    """
    latest = result.smoke if result else None
    if latest and latest.digest == model.smoke_digest:
        return latest
    kept = cast("Mapping[str, Any]", before.get("smokeTests") or {})
    same_container = before.get("restarts") == pod.runtime.restart_count
    # A later version of the operator may have written a verdict that is unknown here.
    verdict = next((each for each in SmokeVerdict if each == kept.get("reason")), None)
    if verdict is None or not same_container or kept.get("digest") != model.smoke_digest:
        return None
    return SmokeOutcome(model.smoke_digest, verdict, str(kept.get("message", "")))


def finding(pod: PodObserved, trial: SmokeOutcome | None) -> Finding | None:
    """Return the problem that the tests found in a replica with a ready model."""
    if trial is None:
        return Finding(Reason.RUNNING, f"pod {pod.name}: its smoke tests have not finished yet")
    if trial.verdict is SmokeVerdict.PASSED:
        return None
    return Finding(Reason(trial.verdict), f"pod {pod.name}: {trial.message}")


def written(trial: SmokeOutcome | None) -> dict[str, Any]:
    """Render the outcome for the status, {} before the tests have finished."""
    if trial is None:
        return {}
    entry = {"digest": trial.digest, "reason": str(trial.verdict)}
    return {"smokeTests": {**entry, "message": trial.message} if trial.message else entry}


def passed_with_all(pod: PodObserved, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the outcome for a pod that the status omits; None if it cannot be inferred.

    The condition becomes true once every ready replica has passed. So a pod that was ready before
    that time and stayed ready has passed. For a pod that became ready later, nothing is known.
    """
    condition = find_condition(status, ConditionType.SMOKE_TEST_PASSED)
    if condition.get("status") != "True" or pod.ready_since is None:
        return None
    if timestamp(pod.ready_since) >= str(condition.get("lastTransitionTime", "")):
        return None
    entries = cast("Sequence[Mapping[str, Any]]", status.get("replicaStatuses") or ())
    return next((entry["smokeTests"] for entry in entries if "smokeTests" in entry), None)
