"""`moorage wait`: whether the applied spec serves, has failed, or is still on its way; pure.

Conditions of an earlier generation of the spec say nothing about this one.
"""

from enum import Enum

from moorage_cli.judge.model_view import ModelView

__all__ = ["FAILED_REASONS", "Outcome", "outcome_of"]

FAILED_REASONS = frozenset(
    {"RolledBack", "RolloutPaused", "RolloutAborted", "ProgressDeadlineExceeded", "Paused"}
)
"""Reasons of UpToDate with which a rollout does not continue until somebody edits the spec."""

SERVED_REASONS = frozenset({"OperatorUpdatePending"})
"""Reasons of UpToDate with which the applied spec serves, although UpToDate is false."""

IDLE_REASONS = frozenset({"Suspended"})
"""Reasons of Ready with which no replica starts until somebody edits the spec."""


class Outcome(Enum):
    """The state of a rollout."""

    SERVES = "serves"
    FAILED = "failed"
    PENDING = "pending"


def outcome_of(model: ModelView) -> Outcome:
    """The outcome of the rollout of the current spec.

    A spec or an object that the API server refuses has failed as well, because waiting does not
    help. Other obstacles, such as a model that the server does not know yet, can still resolve.
    """
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
    if up_to_date.reason in FAILED_REASONS or is_refused or model.ready.reason in IDLE_REASONS:
        return Outcome.FAILED
    return Outcome.PENDING
