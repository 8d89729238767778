"""The readiness gates of pods whose kubelet cannot see whether they may have traffic; pure.

    replicas --> gates --> apply: the condition on the pod --> kubelet: pod Ready --> Service

A probe that only sees an open port would let the Service send requests to a model that loads, and
no probe knows of a contract. Such a pod carries a gate, and the operator opens it.
`resources.probes` decides which pods have one, `admission` who may pass.
"""

from collections.abc import Sequence
from datetime import datetime

from .conditions import timestamp
from .planned import PodGate
from .replicas import Replica

__all__ = ["make_gates"]

OPEN, SHUT, REFUSED = "ModelReady", "ModelNotReady", "NotAdmitted"


def make_gates(replicas: Sequence[Replica], now: datetime) -> tuple[PodGate, ...]:
    """The gates that have to change; one that was never written is shut.

    Args:
        replicas: All of a model; those of an earlier revision of which nobody knows what to ask
            them for are left as they are.
        now: The present moment, aware; dates a change.
    """
    asked = [replica for replica in replicas if replica.current or replica.asked]
    gated = [replica for replica in asked if replica.pod.gated]
    if gated and all(map(_is_silent, gated)):
        # Nobody answers: it may well be the operator that is cut off, and a Service without any
        # replica would help no client.
        return ()
    return tuple(
        PodGate(
            pod=replica.pod.name,
            uid=replica.pod.uid,
            is_open=replica.admitted,
            reason=_reason(replica),
            since=timestamp(now),
        )
        for replica in gated
        if bool(replica.pod.gate_open) is not replica.admitted
    )


def _reason(replica: Replica) -> str:
    if replica.admitted:
        return OPEN
    return REFUSED if replica.model_ready else SHUT


def _is_silent(replica: Replica) -> bool:
    """Whether the server was asked and said neither yes nor no."""
    return replica.result is not None and replica.result.model_ready.verdict is None
