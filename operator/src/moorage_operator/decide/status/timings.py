"""`status.timings`: the phases until the first replica of a revision served; pure.

    created --scheduled--> on a node --artifact--> init containers done --started--> runs
        --modelReady--> ready                                       total: all of it

All times are those that Kubernetes recorded, in whole seconds, so the result does not depend on
when it is computed. The timings of a revision are written once.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.values.objects import PodObserved

__all__ = ["make_timings"]


def make_timings(
    revision: str, replicas: Sequence[Replica], previous: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the timings of the revision, or those of an earlier one until it serves.

    After a rollback, `revision` still names the one that was given up, while the current replicas
    have another.
    """
    before = cast("Mapping[str, Any]", previous.get("timings") or {})
    if before.get("revision") == revision:
        return dict(before)
    served = [
        (replica.pod.ready_since, replica.pod)
        for replica in replicas
        if replica.current and replica.pod.revision == revision
        if replica.serving and replica.pod.ready_since
    ]
    if not revision or not served:
        return dict(before)
    ready, pod = min(served, key=lambda each: (each[0], each[1].name))
    return {"revision": revision, "pod": pod.name, **_durations(pod, ready)}


def _durations(pod: PodObserved, ready: datetime) -> dict[str, int]:
    """Return the milliseconds between milestones; those without a time are skipped."""
    milestones = {
        "scheduled": pod.scheduled.since,
        "artifact": pod.initialized_since if pod.init else None,
        "started": pod.runtime.running_since,
        "modelReady": ready,
    }
    durations: dict[str, int] = {}
    last = pod.created
    for name, moment in milestones.items():
        if moment is not None:
            durations[name] = _milliseconds(last, moment)
            last = max(last, moment)
    return {**durations, "total": _milliseconds(pod.created, ready)}


def _milliseconds(begin: datetime, end: datetime) -> int:
    # The clocks of two machines may differ.
    return max(0, round((end - begin).total_seconds() * 1000))
