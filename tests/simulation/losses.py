"""Loses nodes in some histories, and checks what the operator makes of it.

steps: lost for a while --> calm: stay lost --> settled without them --> back or removed
"""

import random

from simulation.nodes import RETURNS
from simulation.properties import LOST_SECONDS, Watchdog, unsettled, verdicts
from simulation.world import World

SHARE = 0.1
"""The share of histories in which nodes are lost."""

STEP_SHARE = 0.3
"""The share of steps in them that are followed by a loss."""

CALM_SHARE = 0.6
"""The share of these histories in which a node is lost while nothing else fails."""

ABSENCES = (3.0, 30.0, 70.0, 200.0)
"""Seconds until a node is back."""

PAUSES = (0.0, 5.0, 60.0)
LOOK_SECONDS = 2.0
LATEST_SECONDS = 900.0
"""For a whole toleration, a slow model and the longest backoff of a retry."""


class Losses:
    """The lost nodes of one history, from random numbers of their own."""

    def __init__(self, world: World, watchdog: Watchdog, seed: int) -> None:
        self._world = world
        self._watchdog = watchdog
        self._chance = random.Random(f"losses {seed}")
        self.do_happen = self._chance.random() < SHARE

    def after_step(self) -> None:
        """Lose a node, perhaps."""
        if self.do_happen and self._chance.random() < STEP_SHARE:
            if name := self._lose():
                after = self._chance.choice(ABSENCES) * (0.5 + self._chance.random())
                self._world.loop.call_later(after, self._restore, name)
            self._world.run(self._chance.choice(PAUSES))

    def recover(self) -> list[str]:
        """Check that the models are served without the lost nodes, and bring these back.

        With strategy Recreate, Kubernetes waits for the last pod, which nobody can confirm ended.
        """
        world, nodes = self._world, self._world.nodes
        if self.do_happen and self._chance.random() < CALM_SHARE:
            self._lose()
        began, wrong = world.loop.time(), [""]
        while nodes.lost and wrong and world.loop.time() - began < LATEST_SECONDS:
            world.run(LOOK_SECONDS)
            if world.loop.time() - began > LOST_SECONDS:
                self._watchdog.look()
            models = world.api.all("inferencemodels")
            wrong = [each for model in models for each in unsettled(world, self._watchdog, model)]
            if any("deletionTimestamp" not in pod["metadata"] for pod in nodes.pods):
                wrong = wrong or ["a pod of a lost node is not deleted yet"]
            strategies = [each["spec"].get("rollout", {}).get("strategy") for each in models]
            if "Recreate" in strategies and not any("not deleted" in each for each in wrong):
                wrong = []
        found = [f"not settled without a node: {each}" for each in wrong if nodes.lost]
        for name in sorted(nodes.lost):
            self._restore(name)
        return found

    def _lose(self) -> str:
        self._watchdog.note_serving()
        name = self._world.nodes.lose()
        if name:
            self._world.note(f"step: {name} is lost")
        return name

    def _has_canary(self) -> bool:
        """Whether a canary is under way: it is given up if a container of it restarts."""
        models = self._world.api.all("inferencemodels")
        return any(
            each["spec"].get("rollout", {}).get("strategy") == "Canary"
            and verdicts(each).get("UpToDate", ("", ""))[0] != "True"
            for each in models
        )

    def _reboots(self, how: str) -> bool:
        """Whether a return restarts containers that must not restart."""
        return how == "rebooted" and self._has_canary()

    def _restore(self, name: str) -> None:
        how = self._chance.choice([each for each in RETURNS if not self._reboots(each)])
        if name in self._world.nodes.lost:
            self._world.note(f"step: {name} is {how}")
            self._world.nodes.restore(name, how)
