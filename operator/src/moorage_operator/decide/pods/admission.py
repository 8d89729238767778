"""Decides whether a replica gets traffic: its model is ready and passes enforced checks; pure.

    replicas --> **admission** --> readiness_gates --> condition on the pod --> kubelet --> Service

A new replica is admitted once all enforced checks have passed. A serving replica is removed only
on a definite failure, never because a result is missing: a smoke test that is still running, or a
new replica with different tensors, must not empty a Service.
"""

from collections.abc import Iterable

from moorage_operator.api.conditions import Finding
from moorage_operator.api.reasons import Trait, has
from moorage_operator.values.objects import PodObserved

__all__ = ["is_admitted", "stays_in"]


def is_admitted(pod: PodObserved, enforced: Iterable[Finding]) -> bool:
    """Whether a replica with a ready model may receive traffic.

    Args:
        pod: The replica's pod.
        enforced: Findings of an enforced contract and enforced smoke tests.
    """
    found = list(enforced)
    if not all(has(finding.reason, Trait.UNDECIDED) for finding in found):
        return False
    return bool(pod.gate_open) if found else True


def stays_in(pod: PodObserved) -> bool:
    """Whether a replica that does not answer the operator keeps its traffic.

    A missing answer does not count as a failure, because only the operator's network may be
    broken. The kubelet's probe decides instead.
    """
    return bool(pod.gate_open) and pod.runtime.ready
