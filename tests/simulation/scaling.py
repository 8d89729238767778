"""Scales the model of some histories by a load that changes, and checks its sizes."""

import random
from collections.abc import Iterator
from typing import Any

from simulation.api_server import Object, Write, owners_of
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
    """Finds sizes that an operator sets, changes and sets again, although nobody else wrote.

    Attributes:
        _sizes: The sizes of a Deployment since the last change by others, by its uid.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, list[int]] = {}

    def follow(self, write: Write) -> str:
        """Return what is wrong with a write."""
        body = write.after or write.before or {}
        uid = body["metadata"]["uid"]
        if write.plural == "inferencemodels" and not write.part:
            self._sizes.clear()  # an edit of the model may need any size
        if write.plural != "deployments" or write.part or write.after is None:
            return ""
        size = write.after["spec"]["replicas"]
        if not write.who.startswith("operator"):
            self._sizes[uid] = [size]
            return ""
        known = self._sizes.setdefault(uid, [])
        if known[-1:] == [size]:
            return ""
        known.append(size)
        if size in known[:-1]:
            return f"{write.who} sets the size of {write.key[1]} again and again: {known}"
        return ""


def unscaled(world: World, model: Object) -> Iterator[str]:
    """Return how the sizes differ from those that the model and its bounds ask for."""
    name, spec, scaling = model["metadata"]["name"], model["spec"], model["spec"].get("scaling")
    if world.controllers.autoscalers.waits(model):
        yield f"{name}: the autoscaler has not set its size yet"
        return
    if spec.get("suspend"):
        return
    size = spec["replicas"]
    if scaling and size:
        size = max(scaling.get("minReplicas", 1), min(size, scaling["maxReplicas"]))
    uid = model["metadata"]["uid"]
    for body in world.api.all("deployments", model["metadata"]["namespace"]):
        if uid in owners_of(body) and body["spec"]["replicas"] not in {0, size}:
            yield f"{body['metadata']['name']}: {body['spec']['replicas']} replicas, not {size}"
