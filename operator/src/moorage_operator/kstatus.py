"""The conditions Reconciling and Stalled, for tools that know no other condition; pure.

Each is there only while it is true, and both never are together: helm, Flux and Argo CD wait while
one says that the spec is on its way, and give up when the other says that it will not get there.

Source: kstatus, "Standard conditions" (sigs.k8s.io/cli-utils/pkg/kstatus).
"""

from .conditions import Condition, ConditionType, Finding, Reason
from .replicas import DEFINITE
from .rollout import DEFINITE_FAILURES

__all__ = ["reconciling_or_stalled"]

# What is against a spec and stays so until somebody edits it or what it names.
STALLED = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.INVALID_POD_TEMPLATE,
        Reason.UNSUPPORTED_SCHEME,
        Reason.FORBIDDEN_BY_QUOTA,
        Reason.NAME_CONFLICT,
        Reason.INVALID_IMAGE_NAME,
        *DEFINITE,
        *DEFINITE_FAILURES,
    }
)
# How a rollout ends that does not get there.
ENDED = frozenset({Reason.PROGRESS_DEADLINE_EXCEEDED, Reason.ROLLED_BACK, Reason.ROLLOUT_PAUSED})


def reconciling_or_stalled(up_to_date: Condition, blamed: Finding | None) -> tuple[Condition, ...]:
    """The one of the two that is true, or neither.

    Args:
        up_to_date: Whether the spec is what serves.
        blamed: What is against it.
    """
    finding = up_to_date.finding
    if up_to_date.status or finding.reason is Reason.OPERATOR_UPDATE_PENDING:
        return ()
    if finding.reason in ENDED:
        return (Condition(ConditionType.STALLED, status=True, finding=finding),)
    if blamed and blamed.reason in STALLED:
        return (Condition(ConditionType.STALLED, status=True, finding=blamed),)
    return (Condition(ConditionType.RECONCILING, status=True, finding=finding),)
