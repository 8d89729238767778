"""When this process saw what in the API server: objects, pods' readiness, models' verdicts.

Each sink is fed by a watch of its own. Times are of one monotonic clock, taken when an event
arrives here, so no clocks are compared; the watches add a millisecond or two to both ends of a
distance.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage_benchmarks.scale.objects import MODEL_LABEL

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said from a moment on: "True" or "False", and why."""

    at: float
    status: str
    reason: str


class Existence:
    """When each object of a kind was first seen, by name."""

    def __init__(self) -> None:
        self.since: dict[str, float] = {}

    def put(self, body: Body, *, listed_at: str = "") -> None:  # noqa: ARG002 -- a sink may ask
        """The object is there."""
        self.since.setdefault(body["metadata"]["name"], time.monotonic())

    def drop(self, uid: str, version: str = "") -> None:
        """Gone objects are not of interest."""

    def end_list(self, namespace: str, version: str) -> None:
        """Nothing depends on a whole list."""


class Models:
    """The verdicts of Ready, by model."""

    def __init__(self) -> None:
        self.verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
        self.ready: set[str] = set()

    def put(self, body: Body, *, listed_at: str = "") -> None:  # noqa: ARG002 -- a sink may ask
        """The model as it is now."""
        name = str(body["metadata"]["name"])
        for condition in (body.get("status") or {}).get("conditions") or []:
            if condition["type"] == "Ready":
                _keep(self.verdicts[name], condition["status"], condition["reason"])
                update = self.ready.add if condition["status"] == "True" else self.ready.discard
                update(name)

    def drop(self, uid: str, version: str = "") -> None:
        """Models are not deleted while they are measured."""

    def end_list(self, namespace: str, version: str) -> None:
        """Nothing depends on a whole list."""

    def forget(self, name: str) -> None:
        """The model was taken away after it was measured."""
        self.verdicts.pop(name, None)
        self.ready.discard(name)


class Pods:
    """The readiness of each model's pods."""

    def __init__(self) -> None:
        self.verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
        self.bodies: dict[str, Body] = {}
        self.of_model: defaultdict[str, set[str]] = defaultdict(set)

    def put(self, body: Body, *, listed_at: str = "") -> None:  # noqa: ARG002 -- a sink may ask
        """The pod as it is now."""
        metadata, status = body["metadata"], body["status"]
        name = metadata["name"]
        kept = {key: status[key] for key in ("containerStatuses", "podIP") if key in status}
        model = metadata["labels"][MODEL_LABEL]
        named = {"name": name, "namespace": metadata["namespace"]}
        self.bodies[name] = {"metadata": named, "status": kept}
        self.of_model[model].add(name)
        for condition in status.get("conditions") or []:
            if condition["type"] == "Ready":
                _keep(self.verdicts[name], condition["status"], _waits_for(status))

    def drop(self, uid: str, version: str = "") -> None:
        """Pods are not deleted while they are measured."""

    def end_list(self, namespace: str, version: str) -> None:
        """Nothing depends on a whole list."""


def _waits_for(status: Mapping[str, Any]) -> str:
    containers = status.get("containerStatuses") or [{}]
    return str(containers[0].get("state", {}).get("waiting", {}).get("reason", ""))


def _keep(verdicts: list[Verdict], status: str, reason: str) -> None:
    """Keep it where it is another verdict than the last."""
    if not verdicts or (verdicts[-1].status, verdicts[-1].reason) != (status, reason):
        verdicts.append(Verdict(time.monotonic(), status, reason))


def latencies(
    causes: Sequence[Verdict], effects: Sequence[Verdict], since: float
) -> tuple[list[float], int]:
    """Seconds from each cause to the effect of the same status, and how many had none. Pure.

    An effect counts when it came before the next cause; where two causes came before it, the
    first was passed over, as level-driven controllers may do.
    """
    found: list[float] = []
    missed = 0
    recent = [cause for cause in causes if cause.at >= since]
    for index, cause in enumerate(recent):
        end = recent[index + 1].at if index + 1 < len(recent) else float("inf")
        times = [e.at for e in effects if e.status == cause.status and cause.at <= e.at < end]
        if times:
            found.append(times[0] - cause.at)
        else:
            missed += 1
    return found, missed
