"""Scales the model of some histories by a load that changes, and checks its sizes."""

import random
from collections.abc import Iterator
from typing import Any

from simulation.stored import Object, Write, owners_of
from simulation.world import World

SHARE = 0.1
"""The share of histories in which a load decides the size."""

SCALED_SHARE = 0.75
"""The share of specs in them with an autoscaler."""

STEP_SHARE = 0.5
"""The share of steps in them that are followed by another load."""

LOADS = (0.5, 1.5, 2.6, 3.5, 8.0)
"""None is within the tolerance of a size that it needs."""

BOUNDS: tuple[dict[str, Any], ...] = (
    {"maxReplicas": 4},
    {"minReplicas": 2, "maxReplicas": 3},
    {"minReplicas": 2, "maxReplicas": 5},
)
STABLE_SECONDS = (0, 0, 20, 300)


class Load:
    """The load of one history, from random numbers of its own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"scaling {seed}")
        self._does_happen = self._chance.random() < SHARE

    def scaled(self, spec: Object) -> Object:
        """Return the spec, perhaps with an autoscaler."""
        chance = self._chance
        if not self._does_happen or chance.random() > SCALED_SHARE:
            return spec
        after = {"scaleDownAfterSeconds": chance.choice(STABLE_SECONDS)}
        return {**spec, "scaling": {**chance.choice(BOUNDS), **after}}

    def after_step(self) -> None:
        """Change the load, perhaps."""
        if self._does_happen and self._chance.random() < STEP_SHARE:
            load = self._chance.choice(LOADS)
            self._world.note(f"step: the load needs {load} replicas")
            self._world.controllers.autoscalers.load = load


class Sizes:
    """Checks the sizes that an operator sets.

    Attributes:
        _sizes: The sizes of a Deployment since the last change by others, by its uid.
        _foreign: The uids of Deployments whose size others have set last.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._sizes: dict[str, list[int]] = {}
        self._foreign: set[str] = set()

    def follow(self, write: Write) -> Iterator[str]:
        """Return what is wrong with a write; an operator that gets old lists may repeat one."""
        body = write.after
        if body is None or self._world.weather.old_lists:
            return
        is_ours = write.who.startswith("operator")
        if write.plural == "deployments" and not write.part:
            yield from self._repeated(write, body, is_ours=is_ours)
        elif write.plural == "inferencemodels" and not write.part:
            self._sizes.clear()  # an edit of the model may need any size
        elif write.plural == "inferencemodels" and is_ours and not self._world.weather.requests:
            yield from self._unbounded(body)

    def _repeated(self, write: Write, body: Object, *, is_ours: bool) -> Iterator[str]:
        """No two sizes take turns although nobody else writes.

        The operator may once write the size of a spec that was replaced a moment before.
        """
        uid, size = body["metadata"]["uid"], body["spec"]["replicas"]
        if not is_ours:
            self._sizes[uid] = [size]
            self._foreign.add(uid)
            return
        self._foreign.discard(uid)
        known = self._sizes.setdefault(uid, [])
        if known[-1:] != [size]:
            known.append(size)
            if size in known[1:-1]:
                yield f"{write.who} sets the size of {write.key[1]} again and again: {known}"

    def _unbounded(self, model: Object) -> Iterator[str]:
        """A model that is up to date has a size within its bounds, unless others set it.

        The operator reports a new revision before it writes the children.
        """
        spec, status, metadata = model["spec"], model["status"], model["metadata"]
        is_on = spec.get("scaling") and spec["replicas"] and not spec.get("suspend")
        is_seen = status.get("observedGeneration") == metadata["generation"] and any(
            (each["type"], each["status"]) == ("UpToDate", "True") for each in status["conditions"]
        )
        if not is_on or spec.get("paused") or not is_seen:
            return
        wanted = size_of(spec)
        for body in self._world.api.all("deployments", metadata["namespace"]):
            size, owned = body["spec"]["replicas"], metadata["uid"] in owners_of(body)
            if owned and size not in {0, wanted} and body["metadata"]["uid"] not in self._foreign:
                yield f"{body['metadata']['name']} has {size} replicas, not {wanted}"


def size_of(spec: Object) -> int:
    """The size that a spec asks for, within the bounds of its autoscaler."""
    size, scaling = spec["replicas"], spec.get("scaling")
    if scaling and size:
        return max(scaling.get("minReplicas", 1), min(size, scaling["maxReplicas"]))
    return size


def unscaled(world: World, model: Object) -> Iterator[str]:
    """Return how the sizes differ from those that the model and its bounds ask for."""
    name, spec = model["metadata"]["name"], model["spec"]
    if world.controllers.autoscalers.waits(model):
        yield f"{name}: the autoscaler has not set its size yet"
        return
    if spec.get("suspend"):
        return
    size, uid = size_of(spec), model["metadata"]["uid"]
    for body in world.api.all("deployments", model["metadata"]["namespace"]):
        if uid in owners_of(body) and body["spec"]["replicas"] not in {0, size}:
            yield f"{body['metadata']['name']}: {body['spec']['replicas']} replicas, not {size}"
