"""The conditions Reconciling and Stalled, for tools that use kstatus; pure.

Each is present only while it is true, and never both. Tools such as helm and Flux wait while a
model is Reconciling and fail when it is Stalled.

Source: kstatus, "Standard conditions" (sigs.k8s.io/cli-utils/pkg/kstatus).
"""

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.reasons import Trait, has

__all__ = ["reconciling_or_stalled"]


def reconciling_or_stalled(up_to_date: Condition, blamed: Finding | None) -> tuple[Condition, ...]:
    """Return the condition that is true, if any.

    Args:
        up_to_date: The condition UpToDate.
        blamed: The first cause against the spec.
    """
    finding = up_to_date.finding
    if has(finding.reason, Trait.ENDED) or finding.reason is Reason.PAUSED:
        return (Condition(ConditionType.STALLED, status=True, finding=finding),)
    if blamed and has(blamed.reason, Trait.STALLED):
        return (Condition(ConditionType.STALLED, status=True, finding=blamed),)
    if blamed and blamed.reason is Reason.APPLY_FAILED:
        return (Condition(ConditionType.RECONCILING, status=True, finding=blamed),)
    if up_to_date.status or finding.reason is Reason.OPERATOR_UPDATE_PENDING:
        return ()
    return (Condition(ConditionType.RECONCILING, status=True, finding=finding),)
