"""Whether the Service may have a replica: its model is ready, and what is enforced holds; pure.

    replicas --> **admission** --> gates: the condition on the pod --> kubelet --> Service

A newcomer is let in once everything that is enforced is known to hold. A replica that is in is
turned out by what is known to be broken, and by nothing that is only not known: an edited test
that still runs, or a newcomer with other tensors, must not empty a Service.
"""

from collections.abc import Iterable

from .conditions import Finding, Reason
from .watched import PodObserved

__all__ = ["is_admitted"]

# Neither held nor broken by this replica.
UNDECIDED = {Reason.AWAITING_METADATA, Reason.REPLICAS_DISAGREE, Reason.RUNNING}


def is_admitted(pod: PodObserved, enforced: Iterable[Finding]) -> bool:
    """Whether a replica whose model is ready may have traffic.

    Args:
        pod: The replica's pod.
        enforced: What an enforced contract and enforced smoke tests have against it.
    """
    reasons = {finding.reason for finding in enforced}
    if reasons - UNDECIDED:
        return False
    return bool(pod.gate_open) if reasons else True
