"""`moorage wait`: whether the applied spec serves, has failed, or is still on its way; pure.

Conditions of an earlier generation of the spec say nothing about this one.
"""

from datetime import datetime
from enum import Enum

from moorage_cli.judge.model_view import ModelView

__all__ = ["DEFINITE_REASONS", "FAILED_REASONS", "Outcome", "outcome_of"]

FAILED_REASONS = frozenset(
    {"RolledBack", "RolloutPaused", "RolloutAborted", "ProgressDeadlineExceeded", "Paused"}
)
"""Reasons of UpToDate with which a rollout does not continue until somebody edits the spec."""

DEFINITE_REASONS = frozenset(
    {
        "DatatypeMismatch", "InputMissing", "InvalidImageName", "LatencyExceeded",
        "ModelLoadFailed", "OutputMismatch", "OutputMissing", "RequestRejected", "ShapeMismatch",
    }
)  # fmt: skip
"""Reasons with which the operator gives up a revision without waiting for the deadline. A first
revision has no other one to return to, so the operator keeps it."""

SERVED_REASONS = frozenset({"OperatorUpdatePending"})
"""Reasons of UpToDate with which the applied spec serves, although UpToDate is false."""

IDLE_REASONS = frozenset({"Suspended"})
"""Reasons of Ready with which no replica starts until somebody edits the spec."""

ENDING_REASONS = frozenset({"Deleting"})
"""Reasons of Ready with which the model will not exist any more."""


class Outcome(Enum):
    """The state of a rollout."""

    SERVES = "serves"
    FAILED = "failed"
    PENDING = "pending"


def outcome_of(model: ModelView, now: datetime) -> Outcome:
    """The outcome of the rollout of the current spec.

    A spec or an object that the API server refuses has failed as well, because waiting does not
    help. So has a model that does not load, once that has lasted as long as the operator waits
    before it gives up a revision. Other obstacles, such as a model that the server does not know
    yet or a Secret that is missing, can still resolve.

    Args:
        model: The model.
        now: The current time, aware.
    """
    if model.is_current and model.ready.reason in ENDING_REASONS:
        return Outcome.FAILED
    up_to_date = model.conditions.get("UpToDate")
    accepted = model.conditions.get("Accepted")
    if not model.is_current or up_to_date is None:
        return Outcome.PENDING
    current = [each for each in (up_to_date, model.ready) if each.generation >= model.generation]
    if len(current) < 2:
        return Outcome.PENDING
    is_rolled_out = up_to_date.holds or up_to_date.reason in SERVED_REASONS
    if is_rolled_out and model.ready.holds:
        return Outcome.SERVES
    is_refused = (
        accepted is not None and accepted.status == "False" and "Stalled" in model.conditions
    )
    is_idle = model.ready.reason in IDLE_REASONS
    if up_to_date.reason in FAILED_REASONS or is_refused or is_idle or _is_hopeless(model, now):
        return Outcome.FAILED
    return Outcome.PENDING


def _is_hopeless(model: ModelView, now: datetime) -> bool:
    """Whether nothing serves for a definite reason that has lasted long enough."""
    stalled = model.conditions.get("Stalled")
    if stalled is None or not stalled.holds or model.ready.holds:
        return False
    if stalled.reason not in DEFINITE_REASONS or stalled.since is None:
        return False
    return (now - stalled.since).total_seconds() >= model.patience_seconds
