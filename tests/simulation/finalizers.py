"""Finalizers of other controllers on the operator's children, which keep deleted ones for a while.

child --> deleted by a user, the operator or the garbage collector --> deletionTimestamp
                                                --> finalizer removed, later --> gone
"""

import random
from collections.abc import Callable, Sequence

from simulation.pods import key_of
from simulation.properties import verdicts
from simulation.stored import Object
from simulation.world import NAMESPACE, USER, World

SHARE = 0.08
"""The share of histories with finalizers."""

STEP_SHARE = 0.4
"""The share of steps in them after which children get one."""

DELETED_SHARE = 0.6
"""The share of these children that a user deletes at once."""

KINDS = (
    "deployments",
    "services",
    "httproutes",
    "horizontalpodautoscalers",
    "ingresses",
    "controllerrevisions",
)
SECONDS = (2.0, 20.0, 120.0)

REPORTED_SECONDS = 70.0
"""By then a status says that the model waits for a deletion; a write may hang before."""

LOOK_SECONDS = 2.0
WAITING = ("False", "AwaitingDeletion")


class Finalizers:
    """The finalizers of one history, from random numbers of their own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"finalizers {seed}")
        self._does_happen = self._chance.random() < SHARE

    def after_step(self) -> None:
        """Add finalizers to the children of a kind, perhaps, and delete these."""
        world, chance = self._world, self._chance
        if not self._does_happen or chance.random() > STEP_SHARE:
            return
        kind, seconds = chance.choice(KINDS), chance.choice(SECONDS) * (0.5 + chance.random())
        does_delete = chance.random() < DELETED_SHARE
        world.note(f"step: {kind} get a finalizer for {seconds:.1f} s")
        found = self._hold(kind)
        for body in found if does_delete else ():
            world.api.delete(kind, key_of(body), {}, USER)
        uids = {body["metadata"]["uid"] for body in found}
        world.loop.call_later(seconds, self._release, uids)

    def release(self) -> None:
        """Remove all finalizers."""
        self._release({*self._world.api.held})

    def _release(self, uids: set[str]) -> None:
        api = self._world.api
        uids &= api.held
        api.held -= uids
        for kind in KINDS:
            for body in api.all(kind):
                metadata = body["metadata"]
                if metadata["uid"] in uids and "deletionTimestamp" in metadata:
                    api.delete(kind, key_of(body), {}, USER, now=True)

    def check(self, settle: Callable[[], list[str]]) -> list[str]:
        """Hold a deleted Service while nothing else happens: the status says so, until it ends."""
        world = self._world
        if not self._does_happen:
            return []
        world.note("step: the Service is deleted and has a finalizer")
        held = self._hold("services")
        for body in held:
            world.api.delete("services", key_of(body), {}, USER)
        models = [key_of(body) for body in world.api.all("inferencemodels")]
        if not {*models} <= {key_of(body) for body in held}:
            self.release()  # the Service was gone, and its deletion cannot be shown
            return settle()
        deadline, wrong = world.loop.time() + REPORTED_SECONDS, [""]
        while wrong and world.loop.time() < deadline:
            world.run(LOOK_SECONDS)
            found = [verdicts(each) for each in world.api.all("inferencemodels")]
            wrong = [
                f"a Service is held, but: {each}" for each in found if each["Accepted"] != WAITING
            ]
        self.release()
        return wrong or settle()

    def _hold(self, kind: str) -> Sequence[Object]:
        """Add a finalizer to all children of a kind, and return them."""
        found = self._world.api.all(kind, NAMESPACE)
        self._world.api.held |= {body["metadata"]["uid"] for body in found}
        return found
