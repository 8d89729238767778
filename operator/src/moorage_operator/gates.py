"""The readiness gate of pods whose kubelet cannot see whether the model is ready; pure.

    replicas --> gates --> apply: the condition on the pod --> kubelet: pod Ready --> Service

A probe that only sees an open port would let the Service send requests to a model that loads. Such
a pod carries a gate, and the operator opens it once the server itself has answered.
`resources.probes` decides which pods have one.
"""

from collections.abc import Sequence
from datetime import datetime

from .conditions import timestamp
from .replicas import Replica
from .state import PodGate

__all__ = ["make_gates"]

OPEN, SHUT = "ModelReady", "ModelNotReady"


def make_gates(replicas: Sequence[Replica], now: datetime) -> tuple[PodGate, ...]:
    """The gates that have to change; one that was never written is shut.

    Args:
        replicas: All of a model; those of an earlier revision are left as they are, because the
            spec no longer tells what to ask them for.
        now: The present moment, aware; dates a change.
    """
    return tuple(
        PodGate(
            pod=replica.pod.name,
            uid=replica.pod.uid,
            is_open=replica.model_ready,
            reason=OPEN if replica.model_ready else SHUT,
            since=timestamp(now),
        )
        for replica in replicas
        if replica.current
        and replica.pod.gated
        and bool(replica.pod.gate_open) is not replica.model_ready
    )
