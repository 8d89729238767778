"""API servers whose watches are behind, such as one of several with a busy watch cache.

    change --> lag of the watch --> event        list, get, write --> always the latest state

Each watch has a lag of its own, and another one once it is reopened, perhaps at another server.
It never goes back: a watch continues after its resourceVersion. Lists and reads without a
resourceVersion are consistent, and the operator makes no others.

Source: Kubernetes API concepts, "Semantics for get and list" and "Semantics for watch".
"""

import random

from simulation.pods import key_of
from simulation.runtimes import CONTENTS, runtime_of, write_runtime
from simulation.world import NAMESPACE, USER, World

SHARE = 0.08
"""The share of histories with such API servers."""

LEADERS_SHARE = 0.3
"""The same for two processes: a new leader may know less than the one before."""

SECONDS = (0.0, 0.5, 4.0, 20.0)

HANDOVER_SHARE = 0.4
"""The share of steps in them that are followed by an edit and an orderly end of the leader."""

RUNTIME_SHARE = 0.5
"""The share of these edits that change the runtime, if there is one, and not the size."""

SIZES = (1, 2, 3)

PAUSES = (0.05, 0.5, 3.0)
RESTART_SECONDS = 2.0


class Lags:
    """The lags of one history, from random numbers of their own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"lags {seed}")
        self._runtimes = random.Random(f"lags of runtimes {seed}")
        share = LEADERS_SHARE if world.leaders > 1 else SHARE
        self.do_happen = self._chance.random() < share
        if self.do_happen:
            world.weather.lags = self._seconds

    def _seconds(self) -> float:
        """Return the lag of a watch that is opened now."""
        return self._chance.choice(SECONDS)

    def after_step(self) -> None:
        """Edit something and end the leader, perhaps; it releases its lease as in an upgrade."""
        world, chance = self._world, self._chance
        if world.leaders == 1 or not self.do_happen or chance.random() > HANDOVER_SHARE:
            return
        size = chance.choice(SIZES)
        if runtime_of(world) is not None and self._runtimes.random() < RUNTIME_SHARE:
            self._edit_runtime()
        else:
            self._edit_size(size)
        world.run(chance.choice(PAUSES) * (0.5 + chance.random()))
        for lease in world.api.all("leases"):
            world.kill(world.leading, RESTART_SECONDS)
            free = lambda body: body["spec"].update(holderIdentity="")  # noqa: E731 -- passed on
            world.api.edit("leases", key_of(lease), free, USER)

    def _edit_size(self, size: int) -> None:
        world = self._world
        world.note(f"step: edit to {size} replicas, then an orderly end of the leader")
        for model in world.api.all("inferencemodels", NAMESPACE):
            edit = lambda body: body["spec"].update(replicas=size)  # noqa: E731 -- passed on
            world.api.edit("inferencemodels", key_of(model), edit, USER)

    def _edit_runtime(self) -> None:
        self._world.note("step: edit of the runtime, then an orderly end of the leader")
        content = {**self._runtimes.choice(CONTENTS), "updatePolicy": "Automatic"}
        write_runtime(self._world, content)
