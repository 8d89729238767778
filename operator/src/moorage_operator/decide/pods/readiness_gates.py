"""Decides the readiness gates of pods whose probes cannot check everything; pure.

    replicas --> **readiness_gates** --> write.statuses --> kubelet: pod Ready --> Service

A probe that only checks for an open port passes while the model loads, and no probe checks a
contract. Such a pod has a readiness gate, which the operator opens. `resources.probes` decides
which pods have a gate, `admission` which gates open.
"""

from collections.abc import Sequence
from datetime import datetime

from moorage_operator.api.conditions import timestamp
from moorage_operator.values.plan import PodGate

from .replicas import Replica

__all__ = ["make_gates"]

OPEN, SHUT, REFUSED = "ModelReady", "ModelNotReady", "NotAdmitted"
SERVER = "ServerReady"


def make_gates(replicas: Sequence[Replica], now: datetime) -> tuple[PodGate, ...]:
    """Return the gates that have to change; a gate that was never written is closed.

    Args:
        replicas: All replicas of a model. Those of an earlier revision whose spec is unknown are
            left unchanged.
        now: The current time, aware; dates a change.
    """
    asked = [replica for replica in replicas if replica.current or replica.asked]
    gated = [replica for replica in asked if replica.pod.gated]
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
        return OPEN if replica.model_ready else SERVER
    return REFUSED if replica.model_ready else SHUT
