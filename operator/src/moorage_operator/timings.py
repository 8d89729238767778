"""`status.timings`: where the time went until a revision's first replica served; pure.

    created --scheduled--> on a node --artifact--> init containers done --started--> runs
        --modelReady--> ready                                       total: all of it

All moments are the cluster's own, in whole seconds as Kubernetes writes them, so the numbers are
the same whoever makes them and whenever. They are written once for a revision.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from .replicas import Replica
from .watched import PodObserved

__all__ = ["make_timings"]


def make_timings(
    revision: str, replicas: Sequence[Replica], previous: Mapping[str, Any]
) -> dict[str, Any]:
    """The timings of the revision, or those of an earlier one until it serves; {} before any."""
    before = cast("Mapping[str, Any]", previous.get("timings") or {})
    if before.get("revision") == revision:
        return dict(before)
    served = [
        (replica.pod.ready_since, replica.pod)
        for replica in replicas
        if replica.current and replica.serving and replica.pod.ready_since
    ]
    if not revision or not served:
        return dict(before)
    ready, pod = min(served, key=lambda each: (each[0], each[1].name))
    return {"revision": revision, "pod": pod.name, **_durations(pod, ready)}


def _durations(pod: PodObserved, ready: datetime) -> dict[str, int]:
    """Milliseconds from milestone to milestone; one without its moment goes to the next."""
    milestones = {
        "scheduled": pod.scheduled.since,
        "artifact": pod.initialized_since if pod.init else None,
        "started": pod.runtime.running_since,
        "modelReady": ready,
    }
    told: dict[str, int] = {}
    last = pod.created
    for name, moment in milestones.items():
        if moment is not None:
            told[name] = _milliseconds(last, moment)
            last = max(last, moment)
    return {**told, "total": _milliseconds(pod.created, ready)}


def _milliseconds(begin: datetime, end: datetime) -> int:
    # Moments of two machines may be in the wrong order by a second.
    return max(0, round((end - begin).total_seconds() * 1000))
