"""The namespace of the models ends in some histories, and comes back with the same name.

Terminating: creations get 403 --> contents deleted, kind by kind --> gone: 404 --> created again

Source: pkg/controller/namespace (namespaced_resources_deleter.go), admission plugin
NamespaceLifecycle.
"""

import random

from simulation.controllers import COLLECTED
from simulation.pods import KUBERNETES, key_of
from simulation.world import NAMESPACE, World

SHARE = 0.04
"""The share of histories in which this happens."""

STEP_SHARE = 0.3
"""The share of steps in them after which the namespace ends."""

CONTENTS = ("inferencemodels", *COLLECTED)
KIND_SECONDS = 2.0
"""Each kind is deleted within this time."""

LOOK_SECONDS = 1.0
ABSENCES = (0.0, 3.0, 30.0)


class Namespaces:
    """The end of the namespace in one history, from random numbers of its own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"namespaces {seed}")
        self._does_happen = self._chance.random() < SHARE

    def after_step(self) -> None:
        """End the namespace, perhaps."""
        world, chance = self._world, self._chance
        if not self._does_happen or chance.random() > STEP_SHARE or world.api.refusing:
            return
        world.note("user: deletes the namespace")
        world.api.refusing = "Terminating"
        for plural in CONTENTS:
            world.loop.call_later(chance.random() * KIND_SECONDS, self._delete, plural)
        world.loop.call_later(KIND_SECONDS, self._look)
        world.run(chance.choice(ABSENCES))

    def finish(self) -> None:
        """Have the namespace, after its end."""
        if self._world.api.refusing:
            self._world.run(KIND_SECONDS)
            for plural in CONTENTS:
                self._delete(plural, now=True)
            self._return()

    def _delete(self, plural: str, *, now: bool = False) -> None:
        api = self._world.api
        if api.refusing:
            for body in api.all(plural, NAMESPACE):
                if now or "deletionTimestamp" not in body["metadata"]:
                    api.delete(plural, key_of(body), {}, KUBERNETES, now=now)

    def _look(self) -> None:
        api = self._world.api
        if api.refusing != "Terminating":
            return
        if any(api.all(plural, NAMESPACE) for plural in CONTENTS):
            for plural in CONTENTS:
                self._delete(plural)
            self._world.loop.call_later(LOOK_SECONDS, self._look)
            return
        self._world.note("the namespace is gone")
        api.refusing = "NotFound"
        self._world.loop.call_later(self._chance.choice(ABSENCES), self._return)

    def _return(self) -> None:
        if self._world.api.refusing:
            self._world.note("user: creates the namespace")
            self._world.api.refusing = ""
