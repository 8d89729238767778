"""The history of a seed: actions of users, faults and time, and the properties that must hold.

seed --> steps under faults --> calm --> end state == a fresh model's --> idle --> deleted
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.admission import Admission
from simulation.clock import timestamp
from simulation.extras import Extra
from simulation.finalizers import Finalizers
from simulation.holds import Holds
from simulation.kinds import Kinds, do_change
from simulation.kubelets import crash
from simulation.lags import Lags
from simulation.losses import Losses
from simulation.namespaces import Namespaces
from simulation.network import AFTER, BEFORE, Ambush
from simulation.pods import key_of
from simulation.properties import (
    FAULT_SECONDS,
    LENT_SECONDS,
    LOST_SECONDS,
    MOMENT_SECONDS,
    OURS,
    Watchdog,
    is_served,
    left_behind,
    strange,
    unsettled,
    verdicts,
    write_model,
)
from simulation.routes import GATEWAY_SHARE, Routes
from simulation.runtimes import Runtimes, do_happen
from simulation.scaling import Load
from simulation.servers import IMAGES, SERVING
from simulation.specs import with_fields
from simulation.stored import Object, labels_of
from simulation.tampers import TAMPERS, HandEdits, carefully, disown
from simulation.webhooks import Webhooks
from simulation.world import NAMESPACE, USER, World

NAME = "iris"
DELETING = ("False", "Deleting")
TOLD_SECONDS = 5.0
"""Within this time without faults, a status says that its model is being deleted."""

SETTLE_SECONDS = 900.0
"""A history ends after this time: the longest backoff of a retry is five minutes."""

LOOK_SECONDS = 2.0
QUIET_SECONDS = 60.0
IDLE_SECONDS = 1800.0
IDLE_SHARE = 0.02
GONE_SECONDS = 60.0

SELECTOR = ",".join(f"{name}={value}" for name, value in OURS.items())
LOANS = (0.02, 0.3, 150.0, 150.0)
"""For how many seconds another installation serves the model."""

PAUSES = (0.0, 0.02, 0.3, 1.0, 3.0, 12.0, 40.0)

STRATEGIES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"strategy": "Recreate"},
    {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 10}},
    {"onFailure": "Pause"},
)

APPROVED: Object = {"steps": [{"weight": 30}, {"weight": 70, "pauseSeconds": 1}]}
"""A canary whose first step lasts until `rollout.promote` names it."""

CANARIES: tuple[dict[str, Any], ...] = (
    {"steps": [{"weight": 50, "pauseSeconds": 3}], "keepSeconds": 10},
    {"steps": [{"weight": 20, "pauseSeconds": 0}, {"weight": 60, "pauseSeconds": 8}]},
    APPROVED,
)

PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"protocol": "OpenAI"},
    {"protocol": "None", "paths": {"ready": "/readyz"}},
)

SMOKE_TEST = {
    "name": "serves",
    "request": {"path": "/serves", "body": {}},
    "expect": [{"jsonPath": "served", "value": True}],
}

ROUTED_SHARE = 0.7
"""The share of specs in them with a route, of which half are canaries."""

SHARES = {
    "edit": 30,
    "delete": 6,
    "replace": 4,
    "suspend": 5,
    "pause": 8,
    "restart": 4,
    "abort": 4,
    "promote": 4,
    "tamper": 12,
    "delete child": 7,
    "delete pod": 10,
    "crash container": 6,
    "evict pod": 5,
    "kill operator": 12,
    "cut operator": 6,
    "freeze operator": 4,
    "compact": 6,
}


LEADER_SHARES = {**SHARES, "cut operator": 25, "freeze operator": 50}
"""The same for two processes: leader election matters."""

LENDING_SHARE = 0.2
"""The share of histories in which labels move the model to another installation and back."""

LEND_SHARE = 0.4
"""The share of steps in them that are followed by this."""

AMBUSH_SHARE = 0.3
"""The share of steps that happen in the middle of a write."""

LEADER_AMBUSH_SHARE = 0.6
"""The same for two processes."""


@dataclass
class Outcome:
    """The result of a seed."""

    seed: int
    failures: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    writes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def play(seed: int) -> Outcome:
    """Play the history of a seed."""
    chance = random.Random(f"history {seed}")
    lending = random.Random(f"lending {seed}")
    selector = SELECTOR if lending.random() < LENDING_SHARE else ""
    leaders = 2 if chance.random() < 0.25 else 1
    routes = Routes(seed, has_gateways=chance.random() < GATEWAY_SHARE)
    world = World(
        seed,
        leaders=leaders,
        has_runtimes=do_happen(seed),
        selector=selector,
        routes=routes.kinds,
        changes_kinds=do_change(seed),
    )
    watchdog = Watchdog(world)
    outcome = Outcome(seed, history=world.history)
    try:
        fields = random.Random(f"fields {seed}")
        losses, load = Losses(world, watchdog, seed), Load(world, seed)
        lags, runtimes = Lags(world, seed), Runtimes(world, seed)
        webhooks, finalizers = Webhooks(world, seed), Finalizers(world, seed)
        kinds, namespaces = Kinds(world, seed), Namespaces(world, seed)
        others = losses, load, HandEdits(world, seed), Admission(world, seed)
        player = _Player(
            world,
            watchdog,
            chance,
            fields,
            lending,
            losses,
            load,
            routes,
            runtimes,
            Holds(world, NAME, seed),
            finalizers,
            kinds,
            namespaces,
            (*others, lags, runtimes, webhooks, finalizers, kinds, namespaces),
        )
        player.play(outcome)
    finally:
        outcome.writes, outcome.seconds = watchdog.writes, world.loop.time()
        world.close()
    outcome.failures = [*watchdog.failures, *world.troubles, *outcome.failures]
    return outcome


@dataclass
class _Player:
    _world: World
    _watchdog: Watchdog
    _chance: random.Random
    _fields: random.Random
    _lending: random.Random
    _losses: Losses
    _load: Load
    _routes: Routes
    _runtimes: Runtimes
    _holds: Holds
    _finalizers: Finalizers
    _kinds: Kinds
    _namespaces: Namespaces
    _extras: Sequence[Extra]

    def play(self, outcome: Outcome) -> None:
        """Play the steps, end all faults, and check the end state."""
        world, chance, watchdog = self._world, self._chance, self._watchdog
        world.weather.requests = chance.choice((0.0, 0.0, 0.03, 0.15))
        world.weather.events = chance.choice((0.0, 0.0, 0.03, 0.15))
        world.weather.old_lists = False
        watchdog.patience = FAULT_SECONDS + LOST_SECONDS * self._losses.do_happen
        is_shared = world.leaders > 1
        shares = LEADER_SHARES if is_shared else SHARES
        ambush_share = LEADER_AMBUSH_SHARE if is_shared else AMBUSH_SHARE
        self._write(self._spec())
        for _ in range(chance.randrange(2, 8)):
            world.run(chance.choice(PAUSES) * (0.5 + chance.random()))
            (do,) = chance.choices(list(shares), list(shares.values()))
            if chance.random() < ambush_share:
                self._prepare(do)
            else:
                self._do(do)
            if world.selector and self._lending.random() < LEND_SHARE:
                self._prepare_to_lend()
            for each in self._extras:
                each.after_step()
        world.run(chance.choice(PAUSES))
        self._namespaces.finish()
        self._holds.release()
        if chance.random() < 0.8:
            self._write(self._spec(SERVING[:2]))
        # The last failure must be repaired without further events.
        world.run(chance.choice(PAUSES))
        self._release()
        self._runtimes.finish()
        self._finalizers.release()
        self._kinds.finish()
        world.note("calm")
        world.clear()
        outcome.failures += self._losses.recover() or self._settle()
        for each in (self._finalizers, self._kinds):
            outcome.failures = outcome.failures or each.check(self._settle)
        if outcome.failures:
            return
        outcome.failures += self._idle()
        outcome.failures += self._end()

    # -------------------------------------------------------------------- the end

    def _settle(self) -> list[str]:
        world = self._world
        deadline = world.loop.time() + SETTLE_SECONDS
        while True:
            world.run(LOOK_SECONDS)
            wrong = self._wrong()
            if not wrong or world.loop.time() > deadline:
                return [f"not settled: {each}" for each in wrong]

    def _wrong(self) -> list[str]:
        world = self._world
        models = world.api.all("inferencemodels")
        wrong = [each for model in models for each in unsettled(world, self._watchdog, model)]
        return wrong or list(strange(world))

    def _idle(self) -> list[str]:
        """Check that an idle operator writes nothing and the end state persists."""
        world, watchdog = self._world, self._watchdog
        deadline = world.loop.time() + SETTLE_SECONDS
        # A container that keeps crashing is not idle.
        while not crash(world.api):
            since = max(watchdog.last_write, deadline - SETTLE_SECONDS)
            if world.loop.time() - since >= QUIET_SECONDS:
                break
            if world.loop.time() > deadline:
                return ["never idle: something is written again and again"]
            world.run(QUIET_SECONDS / 4)
        else:
            world.run(QUIET_SECONDS)
        crashes = crash(world.api)
        watchdog.patience = MOMENT_SECONDS
        world.note("idle")
        if self._chance.random() < IDLE_SHARE:
            writes, unprompted = watchdog.writes, watchdog.unprompted
            world.run(IDLE_SECONDS)
            specs = [each["spec"] for each in world.api.all("inferencemodels")]
            # If a revision that does not serve exceeds its deadline, Kubernetes reports that, and
            # the operator rolls back. It may write as long as the pods of the rollback change.
            served = all(is_served(each) or each.get("suspend") for each in specs)
            idle = watchdog.writes - writes if served else watchdog.unprompted - unprompted
            if idle and not crashes:
                return [f"{idle} writes although nothing happened"]
            if world.loop.time() - watchdog.last_write < IDLE_SECONDS / 3 and not crashes:
                return ["never idle: something is written again and again"]
        return [f"after a while: {each}" for each in self._wrong()]

    def _end(self) -> list[str]:
        """Check that a deleted model leaves nothing behind and nothing is recreated."""
        world = self._world
        held = self._holds.delete()
        world.run(0.9 * held)
        model = world.api.get("inferencemodels", (NAMESPACE, NAME))
        if model and held > TOLD_SECONDS and verdicts(model).get("Ready") != DELETING:
            return [f"{held:.1f} s after its deletion, a model says {verdicts(model)}"]
        world.run(0.1 * held)
        deadline = world.loop.time() + GONE_SECONDS
        while left_behind(world) and world.loop.time() < deadline:
            world.run(LOOK_SECONDS)
        world.run(LOOK_SECONDS)
        return [f"left behind: {each}" for each in left_behind(world)]

    # -------------------------------------------------------------------- steps

    def _prepare(self, do: str) -> None:
        """Schedule a step in the middle of one of the operators' next writes."""
        writes, moment = self._chance.randrange(1, 6), self._chance.choice((BEFORE, AFTER))
        self._world.note(f"prepares: {do} {moment} write {writes}")
        self._world.weather.ambush = Ambush(writes, moment, lambda: self._do(do))

    def _do(self, do: str) -> None:  # noqa: C901, PLR0912 -- one case for each step
        world, chance = self._world, self._chance
        world.note(f"step: {do}")
        match do:
            case "edit":
                self._write(self._spec())
            case "suspend":
                self._write({**self._spec(), "suspend": True})
            case "pause":
                spec = self._present() if chance.random() < 0.5 else self._spec()
                self._write({**spec, "paused": True})
            case "restart":
                self._order(restartedAt=timestamp(self._world.loop.time()))
            case "abort":
                self._order(abort=self._candidate())
            case "promote":
                step = chance.choice(("", "/1", "/2"))
                self._order(promote=f"{self._candidate()}{step}")
            case "delete" | "replace" if self._is_disowned():
                return  # like `delete --cascade=orphan`: the child is meant to stay
            case "delete":
                self._holds.delete()
            case "replace":
                self._holds.delete(at_once=True)
                self._write(self._spec())
            case "kill operator":
                world.weather.old_lists = chance.random() < 0.3
                slot = chance.randrange(world.leaders)
                world.kill(slot, 0.2 + 3 * chance.random())
            case "cut operator":
                slot, seconds = chance.randrange(world.leaders), 2 + 25 * chance.random()
                world.cut(slot, seconds, reset=chance.random() < 0.5)
            case "freeze operator":
                # Usually long enough for another process to become the leader.
                least = 10 if world.leaders > 1 else 1
                world.freeze(world.leading, least + 30 * chance.random())
            case "compact":
                world.api.compacted = world.api.version
            case "tamper":
                self._tamper()
            case "delete child":
                plural = chance.choice(
                    ("deployments", "services", "poddisruptionbudgets", "httproutes")
                )
                plural = self._routes.chosen(plural)
                for body in world.api.all(plural, NAMESPACE):
                    world.api.delete(plural, key_of(body), {}, USER)
            case _:
                pods = world.api.all("pods", NAMESPACE)
                if pods and do == "evict pod":
                    world.controllers.kubelets.evict(chance.choice(pods))
                elif pods and do == "delete pod":
                    world.api.delete("pods", key_of(chance.choice(pods)), {}, USER)
                elif pods:
                    world.controllers.kubelets.restart(chance.choice(pods))

    def _tamper(self) -> None:
        world = self._world
        plural, change = self._chance.choice(TAMPERS)
        models = world.api.all("inferencemodels", NAMESPACE)
        if change is disown and all("deletionTimestamp" in each["metadata"] for each in models):
            return  # like `delete --cascade=orphan`: the child must stay
        plural = self._routes.chosen(plural)
        for body in world.api.all(plural, NAMESPACE):
            world.api.edit(plural, key_of(body), carefully(change), USER)

    def _present(self) -> Object:
        """The spec of the model, or a new one if there is none."""
        model = self._world.api.get("inferencemodels", (NAMESPACE, NAME))
        return model["spec"] if model else self._spec()

    def _candidate(self) -> str:
        model = self._world.api.get("inferencemodels", (NAMESPACE, NAME)) or {}
        revisions = (model.get("status") or {}).get("revisions") or {}
        return str(revisions.get("candidate") or "0123456789")

    def _order(self, **verbs: str) -> None:
        """Edit only these fields of `rollout`."""
        spec = self._present()
        self._write({**spec, "rollout": {**spec.get("rollout", {}), **verbs}})

    def _prepare_to_lend(self) -> None:
        """Move the model to another installation now or in the middle of a write."""
        if self._lending.random() < AMBUSH_SHARE:
            self._lend()
        else:
            moment = self._lending.choice((BEFORE, AFTER))
            self._world.weather.ambush = Ambush(1, moment, self._lend)

    def _lend(self) -> None:
        seconds = self._lending.choice(LOANS)
        self._world.note(f"step: another installation serves the model for {seconds} s")
        self._label({})
        self._world.loop.call_later(seconds, lambda: self._label(OURS))
        for after in (2 * LENT_SECONDS, 2 * FAULT_SECONDS):
            if after < seconds:  # an operator that kept the model would create them again
                self._world.loop.call_later(after, self._delete_services)

    def _delete_services(self) -> None:
        """Delete the Services of a model that another installation serves."""
        model = self._world.api.get("inferencemodels", (NAMESPACE, NAME))
        if model is None or labels_of(model) == OURS:
            return
        for body in self._world.api.all("services", NAMESPACE):
            self._world.api.delete("services", key_of(body), {}, USER)

    def _label(self, labels: Mapping[str, str]) -> None:
        key = (NAMESPACE, NAME)
        model = self._world.api.get("inferencemodels", key)
        if model and labels_of(model) != labels:
            self._world.api.edit(
                "inferencemodels",
                key,
                lambda body: body["metadata"].update(labels=dict(labels)),
                USER,
            )

    def _release(self) -> None:
        """Take the model back, resume it if it is paused, and withdraw an abort.

        A canary that waits for approval would not end, so it gets other steps.
        """
        self._label(OURS)
        if self._world.api.get("inferencemodels", (NAMESPACE, NAME)) is None:
            return
        spec = self._present()
        rollout = {name: each for name, each in spec.get("rollout", {}).items() if name != "abort"}
        if rollout.get("canary") == APPROVED:
            rollout["canary"] = CANARIES[0]
        if spec.get("paused") or rollout != spec.get("rollout", {}):
            rest = {name: each for name, each in spec.items() if name != "paused"}
            self._write({**rest, "rollout": rollout})

    def _write(self, spec: Object) -> None:
        if self._world.api.refusing:
            return  # the namespace does not exist, or ends
        self._world.note(f"user: writes {spec}")
        write_model(self._world, NAME, spec)

    def _is_disowned(self) -> bool:
        """Whether a Deployment has just lost its owner reference."""
        deployments = self._world.api.all("deployments", NAMESPACE)
        return any(not body["metadata"].get("ownerReferences") for body in deployments)

    def _spec(self, images: tuple[str, ...] = tuple(IMAGES)) -> Object:
        chance = self._chance
        weights = [3 if image in SERVING[:2] else 1 for image in images]
        (image,) = chance.choices(images, weights)
        checks: Object = {}
        protocol: Object = {"protocol": "OpenInference"}
        if image != "example/wrong:1" and chance.random() < 0.2:
            protocol = chance.choice(PROTOCOLS)
        elif image == "example/wrong:1" or chance.random() < 0.3:
            tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
            checks = {"contract": {"policy": "Enforce", "inputs": [tensor]}}
        if chance.random() < 0.15:
            policy = chance.choice(("Warn", "Enforce"))
            checks |= {"smokeTests": {"policy": policy, "tests": [SMOKE_TEST]}}
        rollout, route = chance.choice(STRATEGIES), {}
        if self._world.routes and chance.random() < ROUTED_SHARE:
            route = {"route": self._routes.spec()}
            if chance.random() < 0.5:
                rollout = {"strategy": "Canary", "canary": chance.choice(CANARIES)}
        spec = {
            "runtime": {"image": image},
            **protocol,
            "replicas": chance.choice((1, 1, 2, 3)),
            "health": {"periodSeconds": chance.choice((1, 5)), "failureThreshold": 1},
            **checks,
            **route,
            **({"rollout": rollout} if rollout else {}),
        }
        return self._runtimes.named(self._load.scaled(with_fields(self._fields, spec)))
