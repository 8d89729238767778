"""Random lives of a model: no bad version ever takes away what serves, and all comes to rest.

A small Deployment controller, a kubelet and a gateway around the real plan. The controller keeps
Kubernetes' promise for maxUnavailable 0: it removes a ready pod only when more than enough are.
The gateway sends requests by the route that it saw last, which may be an earlier one.
"""

import dataclasses
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moorage_operator.api.conditions import timestamp
from moorage_operator.api.config import OperatorConfig
from moorage_operator.decide import plan as planning
from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import (
    ChildKey,
    ChildObserved,
    DeploymentCondition,
    PodObserved,
    RouteObserved,
    RouteParent,
)
from moorage_operator.values.observed import Observed, RevisionRecord
from moorage_operator.values.plan import Plan
from support.operator_values import (
    CONFIG,
    DIGITS,
    NOW,
    deployment,
    model,
    no,
    pod,
    running,
    said,
    verdict,
)

NEWER = OperatorConfig(runtime_image="moorage/runtime:newer")
ENFORCED = {"policy": "Enforce", "inputs": [{"name": "image"}]}
OTHER_TENSORS = dataclasses.replace(DIGITS, inputs=())

# What each image does once its container runs.
LOADS, HANGS, FAILS, DIFFERS = "loads", "hangs", "fails", "differs"
TAKEN = tuple(DeploymentCondition(type_, status=True) for type_ in ("Accepted", "ResolvedRefs"))
ROUTE = {"parentRefs": [{"name": "web"}]}
SECTION = {
    "steps": [{"weight": 20, "pauseSeconds": 600}, {"weight": 50}],
}
NATURES = {f"{nature}:{n}": nature for nature in (LOADS, HANGS, FAILS, DIFFERS) for n in (1, 2)}


@dataclass
class World:
    """The cluster, as far as a rollout sees it."""

    on_failure: str
    strategy: str = "RollingUpdate"
    image: str = "loads:1"
    replicas: int = 2
    restarted: str = ""
    aborted: str = ""
    paused: bool = False
    generation: int = 1
    config: OperatorConfig = CONFIG
    status: dict[str, Any] = field(default_factory=dict)
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)
    services: dict[str, dict[str, Any]] = field(default_factory=dict)
    route: dict[str, Any] = field(default_factory=dict)
    route_generation: int = 0
    seen_generation: int = 0
    programmed: dict[str, int] = field(default_factory=dict)
    has_gateway_api: bool = True
    promoted: str = ""
    crashed: set[str] = field(default_factory=set)
    records: dict[str, RevisionRecord] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    pods: dict[str, PodObserved] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    minutes: int = 0
    served: bool = False
    _made: int = 0

    # ---------------------------------------------------------------- the operator

    def reconcile(self) -> Plan:
        """One reconcile, with its reads and writes."""
        verbs = {
            "promote": self.promoted,
            "abort": self.aborted,
            "restartedAt": self.restarted,
        }
        of = model(
            generation=self.generation,
            replicas=self.replicas,
            paused=self.paused,
            runtime={"image": self.image},
            contract=ENFORCED,
            route=ROUTE,
            rollout={
                "strategy": self.strategy,
                "onFailure": self.on_failure,
                "canary": SECTION,
                **{name: value for name, value in verbs.items() if value},
            },
        )
        plan = self._plan(of)
        if self.paused:
            self._check_paused(plan)
        else:
            self._apply(plan)
            plan = self._plan(of)
        for gate in plan.gates:
            known = self.pods[gate.pod]
            self.pods[gate.pod] = dataclasses.replace(known, gate_open=gate.is_open)
        self._look_at_gates()
        self.status = plan.status
        self.served |= verdict(plan) == ("True", "Serving")
        return plan

    def _check_paused(self, plan: Plan) -> None:
        """Nothing is written, and no revision is given up, promoted or retired."""
        assert plan.leaves_children
        assert plan.objects == ()
        # these depend on the spec
        own = {"current", "specHash", "candidate", "rejected", "unproven"}
        before, after = (
            {name: value for name, value in status.get("revisions", {}).items() if name not in own}
            for status in (self.status, plan.status)
        )
        assert after == before
        assert "Paused" in {each["type"] for each in plan.status["conditions"]}

    def _plan(self, of: Any) -> Plan:
        now = NOW + timedelta(minutes=self.minutes)
        history: dict[str, RevisionRecord | None] = {}
        while True:
            seen = dataclasses.replace(self._observed(), history=history)
            plan = planning.plan(of, seen, now=now, config=self.config)
            unread = plan.history - history.keys()
            if not unread:
                return plan
            history |= {revision: self.records.get(revision) for revision in unread}

    def _observed(self) -> Observed:
        probes = {}
        for each in self.pods.values():
            if each.runtime.running_since:
                probes |= self._answers(each)
        late = (DeploymentCondition("Progressing", None, "ProgressDeadlineExceeded"),)
        children: dict[ChildKey, Any] = {
            ("Deployment", name): deployment(
                revision=revision_in(item), conditions=late if name in self.stuck else ()
            )
            for name, item in self.deployments.items()
        }
        for name, item in self.services.items():
            children["Service", name] = ChildObserved(f"uid-{name}", applied_hash(item))
        if self.route:
            taken = RouteParent("web", "ns", "", self.seen_generation, TAKEN)
            children["HTTPRoute", "digits"] = RouteObserved(
                "uid-route", applied_hash(self.route), (), self.route_generation, (taken,)
            )
        return Observed(
            children=children,
            available_kinds=frozenset({"HTTPRoute"} if self.has_gateway_api else ()),
            pods=tuple(sorted(self.pods.values(), key=lambda each: each.name)),
            probes=probes,
            status=self.status,
        )

    def _answers(self, of: PodObserved) -> dict[str, Any]:
        nature = NATURES[self.images[of.revision]]
        if nature == FAILS:
            return said(of, no(AnswerReason.LOAD_FAILED, "bad magic"))
        if nature == HANGS:
            return said(of, no(AnswerReason.LOADING))
        return said(of, model=DIGITS if nature == LOADS else OTHER_TENSORS)

    def _apply(self, plan: Plan) -> None:
        wanted = {
            item["metadata"]["name"]: item for item in plan.objects if item["kind"] == "Deployment"
        }
        for name, item in wanted.items():
            before = self.deployments.get(name)
            if before is None or revision_in(before) != revision_in(item):
                self.stuck.discard(name)
            template = item["spec"]["template"]
            spec = item["metadata"]["annotations"]["moorage.dev/spec"]
            self.images[revision_in(item)] = template["spec"]["containers"][0]["image"]
            self.records.setdefault(
                revision_in(item), RevisionRecord(msgspec.json.encode(template), spec.encode())
            )
        self._apply_routing(plan)
        kept = self.deployments if plan.keeps_others else {}
        self.deployments = {**kept, **wanted}
        owners = {each.name.rpartition("-pod-")[0] for each in self.pods.values()}
        for gone in owners - self.deployments.keys():
            self.pods = {n: p for n, p in self.pods.items() if n.rpartition("-pod-")[0] != gone}

    def _apply_routing(self, plan: Plan) -> None:
        services = {
            item["metadata"]["name"]: item for item in plan.objects if item["kind"] == "Service"
        }
        self.services = {**(self.services if plan.keeps_others else {}), **services}
        routes = [item for item in plan.objects if item["kind"] == "HTTPRoute"]
        if routes and (not self.route or applied_hash(routes[0]) != applied_hash(self.route)):
            self.route_generation += 1
        self.route = routes[0] if routes else {}

    # ---------------------------------------------------------------- the cluster

    def control(self) -> None:
        """One step of the Deployment controller for each Deployment."""
        for name, item in self.deployments.items():
            self._control(name, item)

    def _control(self, name: str, item: dict[str, Any]) -> None:
        wanted, revision = item["spec"]["replicas"], revision_in(item)
        mine = [each for each in self.pods.values() if each.name.rpartition("-pod-")[0] == name]
        new = [each for each in mine if each.revision == revision]
        old = [each for each in mine if each.revision != revision]
        ready = sum(each.ready for each in mine)
        paused = item["spec"].get("paused", False)
        for each in old if not paused else []:
            if not each.ready or ready > wanted:
                del self.pods[each.name]
                return
        for each in sorted(new, key=lambda each: each.ready):
            if len(new) > wanted and (not each.ready or ready > wanted):
                del self.pods[each.name]
                return
        may_grow = not paused or not old
        if may_grow and len(new) < wanted and len(mine) < wanted + 1:
            self._made += 1
            made = f"{name}-pod-{self._made:03}"
            self.pods[made] = pod(
                made,
                revision,
                ready=False,
                gated=True,
                runtime=running(container_id=f"c-{made}", ready=False),
            )

    def run(self) -> None:
        """Containers with a loaded model become ready for their kubelet.

        That takes longer than a gateway takes to see a route.
        """
        self.take_up()
        for name, each in self.pods.items():
            if NATURES[self.images[each.revision]] in {LOADS, DIFFERS}:
                ready = dataclasses.replace(each.runtime, ready=True)
                self.pods[name] = dataclasses.replace(each, runtime=ready)
        self._look_at_gates()

    def _look_at_gates(self) -> None:
        for name, each in self.pods.items():
            ready = each.runtime.ready and each.gate_open is True
            if ready and not each.ready:
                self.stuck.discard(name.rpartition("-pod-")[0])  # that is progress
            since = NOW if ready else None
            self.pods[name] = dataclasses.replace(each, ready=ready, ready_since=since)

    def wait(self) -> None:
        """Advance the time: the gateway updates, and stuck rollouts exceed their deadline."""
        self.take_up()
        self.minutes += 20
        for name, item in self.deployments.items():
            mine = [
                each for each in self.pods.values() if each.name.rpartition("-pod-")[0] == name
            ]
            current = [each for each in mine if each.revision == revision_in(item)]
            if all(each.ready for each in current):
                self.stuck.discard(name)
            else:
                self.stuck.add(name)

    def take_up(self) -> None:
        """The gateway sees the current route."""
        self.seen_generation = self.route_generation
        refs = self.route["spec"]["rules"][1]["backendRefs"] if self.route else []
        self.programmed = {each["name"]: each["weight"] for each in refs}

    def crash(self) -> None:
        """A pod of the canary stops being ready."""
        canary = self.status.get("revisions", {}).get("canary", {})
        mine = [each for each in self.pods.values() if each.revision == canary.get("revision")]
        for each in [each for each in mine if each.ready][:1]:
            stopped = dataclasses.replace(each.runtime, ready=False)
            self.pods[each.name] = dataclasses.replace(each, runtime=stopped, ready=False)
            self.crashed.add(each.revision)

    def settle(self) -> None:
        """Resume the model and run all parts until nothing changes."""
        self.resume()
        for _ in range(100):
            before = self.picture()
            self.reconcile()
            self.control()
            self.run()
            self.approve()
            self.wait()
            assert not (self.served and self.unserved())
            if before == self.picture():
                return
        raise AssertionError("it does not come to rest")

    def picture(self) -> Any:
        """State that must not change once everything has settled."""
        return self.status, self.deployments, dict(self.pods), set(self.stuck), self.programmed

    def unserved(self) -> list[str]:
        """Services that receive requests from the gateway without a ready pod.

        If a canary has just failed, its share fails until the gateway has seen the next route.
        """
        behind: dict[str, list[PodObserved]] = {}
        for name, item in self.services.items():
            revision = item["spec"]["selector"].get("moorage.dev/revision")
            pods = self.pods.values()
            behind[name] = [each for each in pods if each.revision == revision or not revision]
        return [
            name
            for name in self.programmed
            if not any(each.ready for each in behind.get(name, ()))
            and not {each.revision for each in behind.get(name, ())} & self.crashed
        ]

    # ---------------------------------------------------------------- the user

    def edit(self, image: str) -> None:
        self.image = image
        self.generation += 1

    def scale(self, replicas: int) -> None:
        self.replicas = replicas
        self.generation += 1

    def change(self, strategy: str) -> None:
        self.strategy = strategy
        self.generation += 1

    def approve(self) -> None:
        """Approve the current step of the canary."""
        canary = self.status.get("revisions", {}).get("canary", {})
        promoted = f"{canary['revision']}/{canary['step']}" if canary.get("step") else ""
        self.generation += promoted != self.promoted
        self.promoted = promoted

    def abort(self) -> None:
        """Abort the current candidate."""
        self.aborted = self.status["revisions"].get("candidate", "")
        self.generation += 1

    def pause(self) -> None:
        self.generation += not self.paused
        self.paused = True

    def resume(self) -> None:
        self.generation += self.paused
        self.paused = False

    def restart(self) -> None:
        self.restarted = timestamp(NOW + timedelta(seconds=self.generation))
        self.generation += 1

    def upgrade(self) -> None:
        self.config = NEWER if self.config is CONFIG else CONFIG

    @property
    def ready(self) -> int:
        """Pods that the Service sends requests to."""
        selector = self.services["digits"]["spec"]["selector"]
        revision = selector.get("moorage.dev/revision")
        return sum(each.ready for each in self.pods.values() if revision in {None, each.revision})


def revision_in(item: dict[str, Any]) -> str:
    return item["spec"]["template"]["metadata"]["labels"]["moorage.dev/revision"]


STEPS = st.one_of(
    st.sampled_from(["reconcile", "control", "run", "wait", "take_up", "approve"]).map(
        lambda name: (name, ())
    ),
    st.sampled_from(["restart", "upgrade", "crash", "abort", "pause", "resume"]).map(
        lambda name: (name, ())
    ),
    st.sampled_from(sorted(NATURES)).map(lambda image: ("edit", (image,))),
    st.integers(1, 3).map(lambda replicas: ("scale", (replicas,))),
    st.sampled_from(["RollingUpdate", "BlueGreen", "Canary"]).map(
        lambda name: ("change", (name,))
    ),
)


@settings(max_examples=60, deadline=None)
@given(
    on_failure=st.sampled_from(["Rollback", "Pause"]),
    strategy=st.sampled_from(["RollingUpdate", "BlueGreen", "Canary"]),
    steps=st.lists(STEPS, max_size=40),
)
@example(
    "Rollback",
    "RollingUpdate",
    [(name, ()) for name in ("restart", "reconcile", "restart", "pause", "reconcile")],
)
def test_any_sequence_of_specs_keeps_serving_and_converges(on_failure, strategy, steps):
    world = World(on_failure, strategy)
    world.settle()
    assert (world.served, world.ready) == (True, 2)

    least = 1
    for name, arguments in steps:
        getattr(world, name)(*arguments)
        assert world.ready >= least
        assert world.unserved() == []
        if name == "reconcile":
            assert verdict_of(world)[0] == "True"
    world.settle()

    assert_at_rest(world)


GIVEN_UP = {"RolledBack", "RolloutPaused", "RolloutAborted"}


def verdict_of(world: World) -> tuple[str, str]:
    conditions = {each["type"]: each for each in world.status["conditions"]}
    return conditions["Ready"]["status"], conditions["Ready"]["reason"]


def assert_at_rest(world: World) -> None:
    """A good version serves alone; for a bad one the status has the outcome."""
    conditions = {each["type"]: each for each in world.status["conditions"]}
    up_to_date = conditions["UpToDate"]["reason"]
    running_images = {world.images[each.revision] for each in world.pods.values() if each.ready}
    rejected = world.status["revisions"].get("rejected", {}).get("revision", "")
    assert (up_to_date == "RolloutAborted") == bool(rejected and rejected == world.aborted)
    if up_to_date == "RolloutAborted":
        assert {NATURES[image] for image in running_images} == {LOADS}
        assert world.ready == world.replicas
    elif NATURES[world.image] == LOADS and up_to_date in GIVEN_UP:
        assert rejected in world.crashed
        assert {NATURES[image] for image in running_images} == {LOADS}
    elif NATURES[world.image] == LOADS:
        assert up_to_date in {"RolloutComplete", "OperatorUpdatePending"}
        assert running_images == {world.image}
    elif world.on_failure == "Rollback":
        assert up_to_date == "RolledBack"
        assert {NATURES[image] for image in running_images} == {LOADS}
        assert {NATURES[world.images[each.revision]] for each in world.pods.values()} == {LOADS}
        assert world.ready == world.replicas
    else:
        assert up_to_date == "RolloutPaused"
        assert {NATURES[image] for image in running_images} == {LOADS}
