"""An InferenceRuntime that is edited, deleted and created again in some histories.

The models keep their images, so that the runtime decides about their pods but not whether they
serve: specs name the runtime and set an image of their own.
"""

import random
from typing import Any

from simulation.network import AFTER, BEFORE, Ambush
from simulation.stored import Object
from simulation.world import USER, World

SHARE = 0.06
"""The share of histories with a runtime."""

NAMED_SHARE = 0.7
"""The share of specs in them that name it."""

STEP_SHARE = 0.5
"""The share of steps in them that are followed by a change of the runtime."""

AMBUSH_SHARE = 0.5
"""The share of these changes that happen in the middle of a write."""

NAME = "server"
KEY = ("", NAME)
RUNTIMES = "inferenceruntimes"

CONTENTS: tuple[Object, ...] = (
    {},
    {"env": [{"name": "LEVEL", "value": "1"}]},
    {"env": [{"name": "LEVEL", "value": "2"}]},
    {"podTemplate": {"metadata": {"labels": {"tier": "b"}}}},
    {"health": {"startupTimeoutSeconds": 400}},
)
INVALID: Object = {"health": {"startupTimeoutSeconds": -1}}
POLICIES = ("Automatic", "OnModelEdit")


def do_happen(seed: int) -> bool:
    """Whether the history of a seed has a runtime."""
    return random.Random(f"shared runtimes {seed}").random() < SHARE


class Runtimes:
    """The runtime of one history, from random numbers of its own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"shared runtime {seed}")
        self._do_happen = do_happen(seed)
        if self._do_happen:
            self._put(self._content())

    def named(self, spec: Object) -> Object:
        """Return the spec, perhaps with the name of the runtime."""
        if not self._do_happen or self._chance.random() > NAMED_SHARE:
            return spec
        return {**spec, "runtime": {**spec["runtime"], "name": NAME}}

    def after_step(self) -> None:
        """Change the runtime now or in the middle of a write, perhaps."""
        world, chance = self._world, self._chance
        if not self._do_happen or chance.random() > STEP_SHARE:
            return
        if world.weather.ambush is None and chance.random() < AMBUSH_SHARE:
            moment = chance.choice((BEFORE, AFTER))
            world.weather.ambush = Ambush(chance.randrange(1, 4), moment, self._change)
        else:
            self._change()

    def finish(self) -> None:
        """Leave a valid runtime that all models follow."""
        if self._do_happen:
            self._put({**self._chance.choice(CONTENTS), "updatePolicy": "Automatic"})

    def _change(self) -> None:
        do = self._chance.choice(("edit", "edit", "delete", "replace", "break"))
        if do in {"delete", "replace"} and self._world.api.get(RUNTIMES, KEY):
            self._world.note("user: deletes the runtime")
            self._world.api.delete(RUNTIMES, KEY, {}, USER)
        if do != "delete":
            self._put(INVALID if do == "break" else self._content())

    def _content(self) -> Object:
        policy = {"updatePolicy": self._chance.choice(POLICIES)}
        return {**self._chance.choice(CONTENTS), **policy}

    def _put(self, spec: Object) -> None:
        self._world.note(f"user: writes the runtime {spec}")
        write_runtime(self._world, spec)


def write_runtime(world: World, spec: Object) -> None:
    """Create the runtime, or change its spec."""
    if world.api.get(RUNTIMES, KEY):
        world.api.edit(RUNTIMES, KEY, lambda body: body.update(spec=spec), USER)
        return
    body: dict[str, Any] = {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceRuntime",
        "metadata": {"name": NAME, "namespace": ""},
        "spec": spec,
    }
    world.api.create(RUNTIMES, body, USER)


def runtime_of(world: World) -> Object | None:
    """Return the spec of the runtime, None if there is none."""
    found = world.api.get(RUNTIMES, KEY)
    return found["spec"] if found else None
