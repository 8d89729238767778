"""The kinds of the Gateway API come and go in some histories with routes.

CRD removed --> its objects are deleted, watches end, requests get 404 --> CRD installed again
"""

import random
from collections.abc import Callable
from functools import partial

from simulation.clock import Handle
from simulation.network import AFTER, BEFORE, Ambush
from simulation.pods import KUBERNETES
from simulation.properties import verdicts
from simulation.routes import PLURALS
from simulation.stored import Object, Write
from simulation.world import World

SHARE = 0.3
"""The share of histories with routes in which this happens."""

STEP_SHARE = 0.4
"""The share of steps in them that are followed by this."""

AMBUSH_SHARE = 0.5
"""The share of removals that happen in the middle of a write."""

SECONDS = (0.5, 5.0, 30.0, 120.0)

SEEN_SECONDS = 60.0
"""By then the operator knows that a kind was installed or removed: it looks every 20 s."""

MISSING = ("False", "GatewayAPIMissing")


def do_change(seed: int) -> bool:
    """Whether the optional kinds of a seed come and go, if it has some."""
    return random.Random(f"kinds {seed}").random() < SHARE


class Kinds:
    """The removals of one history, from random numbers of their own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"removed kinds {seed}")
        self._do_change = bool(world.routes) and do_change(seed)
        self._changed = -SEEN_SECONDS  # when a kind was last removed or installed
        self._missed: list[str] = []
        self._returns: list[Handle] = []
        if self._do_change:
            world.api.followers.append(self._follow)

    def after_step(self) -> None:
        """Remove a kind for a while, perhaps."""
        world, chance = self._world, self._chance
        if not self._do_change or chance.random() > STEP_SHARE:
            return
        plural = PLURALS[chance.choice(world.routes)]
        seconds = chance.choice(SECONDS) * (0.5 + chance.random())
        remove = partial(self._remove, plural, seconds)
        if world.weather.ambush is None and chance.random() < AMBUSH_SHARE:
            moment = chance.choice((BEFORE, AFTER))
            world.weather.ambush = Ambush(chance.randrange(1, 4), moment, remove)
        else:
            remove()

    def finish(self) -> None:
        """Install all kinds."""
        for each in self._returns:
            each.cancel()
        for plural in sorted(self._world.api.removed):
            self._install(plural)

    def check(self, settle: Callable[[], list[str]]) -> list[str]:
        """Remove the kinds while nothing else happens: a status says so until they are back."""
        world = self._world
        if not self._do_change:
            return []
        for plural in map(PLURALS.get, world.routes):
            world.api.remove(str(plural), KUBERNETES)
        self._changed = world.loop.time()
        world.note("user: removes all kinds of routes")
        world.run(SEEN_SECONDS)
        models = world.api.all("inferencemodels")
        found = [verdicts(each) for each in models if "parentRefs" in _route(each)]
        wrong = [each for each in found if each["RouteAccepted"] != MISSING]
        self.finish()
        unsaid = [f"no kind of routes is installed, but: {each}" for each in wrong]
        return self._missed or unsaid or settle()

    def _follow(self, write: Write) -> None:
        """Check that no operator takes an installed kind for missing."""
        body = write.after
        is_status = write.plural == "inferencemodels" and write.part
        if not is_status or body is None or self._world.api.removed:
            return
        ago = self._world.loop.time() - self._changed
        if verdicts(body).get("RouteAccepted") == MISSING and ago > SEEN_SECONDS:
            self._missed.append(f"routes are installed, but {write.who} says {MISSING[1]}")

    def _remove(self, plural: str, seconds: float) -> None:
        self._world.note(f"user: removes the kind {plural} for {seconds:.1f} s")
        self._changed = self._world.loop.time()
        self._world.api.remove(plural, KUBERNETES)
        self._returns.append(self._world.loop.call_later(seconds, self._install, plural))

    def _install(self, plural: str) -> None:
        if plural in self._world.api.removed:
            self._world.note(f"user: installs the kind {plural}")
            self._changed = self._world.loop.time()
            self._world.api.removed.discard(plural)


def _route(model: Object) -> Object:
    return model["spec"].get("route", {})
