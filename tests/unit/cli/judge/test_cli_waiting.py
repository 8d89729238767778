"""What `moorage wait` waits for, and what ends it early."""

from typing import Any

import pytest

from moorage_cli.judge.model_view import view
from moorage_cli.judge.waiting import FAILED_REASONS, Outcome, outcome_of
from moorage_operator.api.conditions import Reason
from moorage_operator.api.reasons import Trait, has

SERVES, FAILED, PENDING = Outcome.SERVES, Outcome.FAILED, Outcome.PENDING


def outcome(*conditions: tuple[str, str, str], observed: int = 2, of: int = 2) -> Outcome:
    """The outcome for conditions (type, status, reason) of a generation."""
    items: list[dict[str, Any]] = [
        {"type": type_, "status": status, "reason": reason, "observedGeneration": of}
        for type_, status, reason in conditions
    ]
    metadata = {"name": "iris", "namespace": "ns", "generation": 2}
    status = {"observedGeneration": observed, "conditions": items}
    return outcome_of(view({"metadata": metadata, "spec": {}, "status": status}))


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
        ([REFUSED, READY, ("UpToDate", "False", "RollingOut"), STALLED], FAILED),
        ([REFUSED, READY, ("UpToDate", "False", "RollingOut")], PENDING),
    ],
)
def test_only_the_applied_spec_that_serves_ends_the_wait_with_success(
    conditions: list[tuple[str, str, str]], expected: Outcome
) -> None:
    assert outcome(*conditions) is expected


def test_a_status_of_an_earlier_spec_says_nothing() -> None:
    assert outcome(READY, DONE, observed=1) is PENDING
    assert outcome(READY, DONE, of=1) is PENDING


def test_the_reasons_of_a_failed_rollout_are_those_of_the_operator() -> None:
    ended = {str(reason) for reason in Reason if has(reason, Trait.ENDED)}

    assert ended | {str(Reason.PAUSED)} == FAILED_REASONS
