"""Ready is true only if the Service exists and selects a pod that serves; pure.

    Judgement, selected revision --> behind_service --> Judgement

With a Deployment per revision, the Service selects one of them. Pods of another revision may serve
as well, such as those of a canary or of a replaced revision that is kept for a while. But the
Service sends no requests to them.
"""

from collections.abc import Sequence
from dataclasses import replace

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.decide.pods.replicas import Replica

from .conditions import Judgement

__all__ = ["behind_service"]


def behind_service(
    judgement: Judgement, replicas: Sequence[Replica], selected: str, *, lacks_service: bool
) -> Judgement:
    """Return the judgement with Ready as the clients of the Service see it.

    Args:
        judgement: The judgement of all pods.
        replicas: All replicas.
        selected: The revision that the Service selects; "" for all pods of the model.
        lacks_service: Whether the Service does not exist and cannot be created.
    """
    ready = judgement.ready
    serves = any(each.serving and each.pod.revision == selected for each in replicas)
    if lacks_service:
        sentence = "the Service does not exist"
    elif selected and not serves:
        sentence = f"the Service selects revision {selected}, of which no pod serves"
    else:
        return judgement
    if not ready.status:
        return judgement
    why = judgement.blamed
    if why:
        sentence += f"; {why.reason}: {why.message}"
    finding = Finding(why.reason if why else Reason.PENDING, sentence)
    ready = replace(ready, status=False, finding=finding)
    conditions = tuple(ready if each.type is ready.type else each for each in judgement.conditions)
    return replace(judgement, conditions=conditions, ready=ready)
