"""What `moorage wait` waits for, and what ends it early."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage_cli.judge.model_view import view
from moorage_cli.judge.waiting import DEFINITE_REASONS, FAILED_REASONS, Outcome, outcome_of
from moorage_operator.api.conditions import Reason
from moorage_operator.api.reasons import Trait, has
from moorage_operator.api.v1alpha1 import Health

SERVES, FAILED, PENDING = Outcome.SERVES, Outcome.FAILED, Outcome.PENDING


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def outcome(
    *conditions: tuple[str, str, str],
    observed: int = 2,
    of: int = 2,
    lasted: float = 0.0,
    spec: dict[str, Any] | None = None,
) -> Outcome:
    """The outcome for conditions (type, status, reason) of a generation."""
    since = (NOW - timedelta(seconds=lasted)).isoformat()
    items: list[dict[str, Any]] = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "observedGeneration": of,
            "lastTransitionTime": since,
        }
        for type_, status, reason in conditions
    ]
    metadata = {"name": "iris", "namespace": "ns", "generation": 2}
    status = {"observedGeneration": observed, "conditions": items}
    return outcome_of(view({"metadata": metadata, "spec": spec or {}, "status": status}), NOW)


READY = ("Ready", "True", "Serving")
EARLIER = ("Ready", "True", "ServingPreviousRevision")
DONE = ("UpToDate", "True", "RolloutComplete")
REFUSED = ("Accepted", "False", "InvalidSpec")
STALLED = ("Stalled", "True", "InvalidSpec")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], PENDING),
        ([READY], PENDING),
        ([READY, DONE], SERVES),
        ([READY, ("UpToDate", "False", "OperatorUpdatePending")], SERVES),
        ([("Ready", "False", "Pending"), ("UpToDate", "False", "OperatorUpdatePending")], PENDING),
        ([EARLIER, ("UpToDate", "False", "RollingOut")], PENDING),
        ([EARLIER, ("UpToDate", "False", "AwaitingApproval")], PENDING),
        ([EARLIER, ("UpToDate", "False", "RolledBack")], FAILED),
        ([EARLIER, ("UpToDate", "False", "Paused")], FAILED),
        ([("Ready", "False", "Pending"), DONE], PENDING),
        ([("Ready", "False", "Suspended"), DONE], FAILED),
        ([("Ready", "False", "ScaledToZero"), DONE], PENDING),
        ([("Ready", "False", "Deleting")], FAILED),
        ([REFUSED, READY, ("UpToDate", "False", "RollingOut"), STALLED], FAILED),
        ([REFUSED, READY, ("UpToDate", "False", "RollingOut")], PENDING),
    ],
)
def test_only_the_applied_spec_that_serves_ends_the_wait_with_success(
    conditions: list[tuple[str, str, str]], expected: Outcome
) -> None:
    assert outcome(*conditions) is expected


def hopeless(reason: str, ready: str = "False") -> tuple[tuple[str, str, str], ...]:
    """The conditions of a spec that does not serve for a reason that only an edit removes."""
    return (
        ("Ready", ready, reason),
        ("UpToDate", "False", "RollingOut"),
        ("Stalled", "True", reason),
    )


@pytest.mark.parametrize("reason", sorted(DEFINITE_REASONS))
def test_a_definite_reason_that_lasts_ends_the_wait_of_a_first_revision(reason: str) -> None:
    assert outcome(*hopeless(reason), lasted=14.9) is PENDING
    assert outcome(*hopeless(reason), lasted=15) is FAILED


@pytest.mark.parametrize(
    "reason",
    ["ModelNotFound", "ProtocolMismatch", "SecretNotFound", "ArtifactDownloadFailed",
     "ImagePullBackOff", "CrashLoopBackOff"],
)  # fmt: skip
def test_a_reason_that_can_resolve_by_itself_does_not_end_the_wait(reason: str) -> None:
    assert outcome(*hopeless(reason), lasted=3600) is PENDING


def test_while_an_earlier_revision_serves_the_operator_decides_when_a_rollout_has_failed() -> None:
    assert outcome(*hopeless("ModelLoadFailed", ready="True"), lasted=3600) is PENDING


def test_a_model_that_does_not_load_and_is_not_stalled_is_waited_for() -> None:
    conditions = hopeless("ModelLoadFailed")[:2]

    assert outcome(*conditions, lasted=3600) is PENDING
    assert outcome(*conditions, ("Stalled", "False", "ModelLoadFailed"), lasted=3600) is PENDING


def test_a_failure_has_to_last_as_long_as_for_the_operator() -> None:
    health = {"periodSeconds": 2, "failureThreshold": 4}
    model = view({"metadata": {}, "spec": {"health": health}})

    assert model.patience_seconds == 8
    assert outcome(*hopeless("InputMissing"), lasted=8, spec={"health": health}) is FAILED
    default = Health()
    assert view({"metadata": {}}).patience_seconds == (
        default.period_seconds * default.failure_threshold
    )


def test_a_status_of_an_earlier_spec_says_nothing() -> None:
    assert outcome(READY, DONE, observed=1) is PENDING
    assert outcome(READY, DONE, of=1) is PENDING


def test_the_reasons_of_a_failed_rollout_are_those_of_the_operator() -> None:
    ended = {str(reason) for reason in Reason if has(reason, Trait.ENDED)}

    assert ended | {str(Reason.PAUSED)} == FAILED_REASONS


def test_the_definite_reasons_are_those_of_the_operator() -> None:
    assert {str(reason) for reason in Reason if has(reason, Trait.FAILURE)} == DEFINITE_REASONS
