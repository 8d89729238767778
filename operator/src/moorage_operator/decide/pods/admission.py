"""Decides whether a replica gets traffic: its model is ready and passes enforced checks; pure.

    replicas --> **admission** --> readiness_gates --> condition on the pod --> kubelet --> Service

A new replica is admitted once all enforced checks have passed. A serving replica is removed only
on a definite failure, never because a result is missing: a smoke test that is still running, or a
new replica with different tensors, must not empty a Service.
"""

from collections.abc import Iterable

from moorage_operator.api.conditions import Finding
from moorage_operator.api.reasons import Trait, has
from moorage_operator.values.answers import ProbeResult
from moorage_operator.values.objects import PodObserved

__all__ = ["has_ready_server", "is_admitted", "stays_in"]


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


def has_ready_server(
    pod: PodObserved, result: ProbeResult | None, *, is_same_container: bool
) -> bool:
    """Whether a server with other models gets their traffic while this model is not ready.

    Args:
        pod: The replica's pod.
        result: The answers of the server, if there are any.
        is_same_container: Whether the previous status describes the container that runs now.
    """
    if result is None:  # the operator may have restarted
        return is_same_container and stays_in(pod)
    verdict = result.ready.verdict
    return stays_in(pod) if verdict is None else verdict
