"""Canary: the share of requests of a new revision, promotion and rollback."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.resources.owned import applied_hash
from moorage_operator.store import parse_objects
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.objects import (
    ChildObserved,
    DeploymentCondition,
    RouteObserved,
    RouteParent,
)
from moorage_operator.values.observed import Observed
from moorage_operator.values.plan import Plan
from support.operator_values import (
    NOW,
    condition,
    deployment,
    model,
    no,
    planned,
    pod,
    record,
    revision,
    said,
    unready,
    verdict,
)

STEPS = [{"weight": 20, "pauseSeconds": 60}, {"weight": 50}]
ROUTE = {"parentRefs": [{"name": "web"}]}
SECTION = {"steps": STEPS, "keepSeconds": 30}
CANARY = {"strategy": "Canary", "canary": SECTION}
KINDS = frozenset({"HTTPRoute"})


def spec(
    generation: int, image: str, route: dict[str, Any] = ROUTE, **rollout: Any
) -> InferenceModel:
    return model(
        generation=generation,
        runtime={"image": image},
        route=route,
        rollout={**CANARY, **rollout},
    )


def promoting(promote: str) -> InferenceModel:
    """The new spec with a promotion."""
    return spec(2, "new:1", promote=promote)


GOOD, NEW, THIRD = spec(1, "good:1"), spec(2, "new:1"), spec(3, "third:1")
OLD, CAN = revision(GOOD), revision(NEW)
HISTORY = {revision(each): record(each) for each in (GOOD, NEW, THIRD)}
PLAIN = {("Deployment", "digits"): deployment(revision=OLD)}
OWN = names.deployment_of("digits", CAN)
BOTH = {**PLAIN, ("Deployment", OWN): deployment(revision=CAN)}
SERVICE_OF_OLD, SERVICE_OF_CAN = (names.service_of("digits", each) for each in (OLD, CAN))


def verdict_of(type_: str, status: bool | None, text: str = "") -> DeploymentCondition:
    return DeploymentCondition(type_, status, "R", text)


TAKEN = (verdict_of("Accepted", status=True), verdict_of("ResolvedRefs", status=True))


def route_in(plan: Plan) -> dict[str, Any]:
    return next((item for item in plan.objects if item["kind"] == "HTTPRoute"), {})


def weights(plan: Plan) -> dict[str, int]:
    """The share of each Service, which must be the same in both rules of the route."""
    shares = [
        {ref["name"]: ref["weight"] for ref in rule["backendRefs"]}
        for rule in route_in(plan)["spec"]["rules"]
    ]
    assert len(shares) == 2
    assert shares[0] == shares[1]
    return shares[0]


class World:
    """The pods and the status between reconciles, with a Gateway that accepts every route."""

    def __init__(self, of: InferenceModel, *pods: Any, **facts: Any) -> None:
        self.of = of
        self.seen = Observed(
            pods=pods,
            children=facts.pop("children", BOTH),
            available_kinds=facts.pop("available_kinds", KINDS),
            probes=facts.pop("probes", None) or answers(*pods),
            history=HISTORY,
            status=facts.pop("status", None) or served(),
        )
        self.now = NOW
        assert not facts

    def look(self, seconds: float = 0, *, gateway: Any = TAKEN) -> Plan:
        """A later reconcile, with the Gateway's conditions for the planned route."""
        self.now += timedelta(seconds=seconds)
        plan = planned(self.of, self.seen, self.now)
        planned_now = route_in(plan)
        services = {
            ("Service", item["metadata"]["name"]): ChildObserved("u", applied_hash(item))
            for item in plan.objects
            if item["kind"] == "Service"
        }
        children = {**self.seen.children, **services}
        if planned_now and gateway is not None:
            parent = RouteParent("web", "ns", "", 1, gateway)
            route = RouteObserved("u", applied_hash(planned_now), (), 1, (parent,))
            children["HTTPRoute", "digits"] = route
        seen = dataclasses.replace(self.seen, children=children)
        plan = planned(self.of, seen, self.now)
        self.seen = dataclasses.replace(seen, status=plan.status)
        return plan

    def pods(self, *pods: Any, **probes: Any) -> None:
        """Replace the pods."""
        found = probes or answers(*pods)
        self.seen = dataclasses.replace(self.seen, pods=pods, probes=found)


def answers(*pods: Any) -> dict[str, Any]:
    return {uid: result for each in pods if each.ready for uid, result in said(each).items()}


def served() -> dict[str, Any]:
    """The status of the good revision."""
    one = pod("old", GOOD)
    seen = Observed(
        pods=(one,), children=PLAIN, probes=said(one), history=HISTORY, available_kinds=KINDS
    )
    return planned(GOOD, seen).status


def under_way() -> World:
    """A canary that advances to its first step."""
    world = World(NEW, pod("old", GOOD), pod("new", NEW))
    for _ in range(4):
        plan = world.look()
    assert weights(plan) == {SERVICE_OF_OLD: 80, SERVICE_OF_CAN: 20}
    return world


def progress(plan: Plan) -> dict[str, Any]:
    return plan.status["revisions"].get("canary", {})


def selected(plan: Plan) -> str:
    service = next(item for item in plan.objects if item["metadata"]["name"] == "digits")
    return service["spec"]["selector"]["moorage.dev/revision"]


def budget_in(plan: Plan) -> dict[str, str]:
    """The labels that the disruption budget selects by."""
    (budget,) = [item for item in plan.objects if item["kind"] == "PodDisruptionBudget"]
    return budget["spec"]["selector"]["matchLabels"]


def deployments(plan: Plan) -> set[str]:
    return {item["metadata"]["name"] for item in plan.objects if item["kind"] == "Deployment"}


def message(plan: Plan, type_: str = "UpToDate") -> str:
    return condition(plan, type_)["message"]


def test_a_first_revision_gets_all_requests() -> None:
    plan = World(GOOD, pod("old", GOOD), children=PLAIN).look()

    assert weights(plan) == {SERVICE_OF_OLD: 100}
    assert "canary" not in plan.status["revisions"]
    assert verdict(plan, "RouteAccepted") == ("True", "GatewayAccepted")


def test_the_route_names_its_gateways_and_hosts_and_has_a_rule_for_grpc() -> None:
    parents = [{"name": "web", "namespace": "gateways", "sectionName": "https"}, {"name": "own"}]
    of = spec(1, "good:1", route={"parentRefs": parents, "hostnames": ["iris.example.com"]})

    route = route_in(planned(of, Observed(available_kinds=KINDS)))

    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert route["spec"]["parentRefs"] == parents
    assert route["spec"]["hostnames"] == ["iris.example.com"]
    of_grpc, of_http = route["spec"]["rules"]
    assert of_grpc["matches"][0]["headers"][0]["value"] == "application/grpc"
    assert [each["port"] for each in of_grpc["backendRefs"]] == [8001]
    assert [each["port"] for each in of_http["backendRefs"]] == [8000]
    assert route["metadata"]["ownerReferences"][0]["name"] == "digits"


def test_a_new_revision_gets_no_requests_before_it_serves() -> None:
    world = World(NEW, pod("old", GOOD), unready("new", NEW))

    for _ in range(3):
        plan = world.look()

    assert weights(plan) == {SERVICE_OF_OLD: 100}
    assert deployments(plan) == {"digits", OWN}
    assert progress(plan) == {"revision": CAN, "step": 0, "weight": 0}
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")
    assert f"canary {CAN} receives 0 percent" in message(plan)


def test_a_canary_advances_by_time_and_approval_and_is_promoted() -> None:
    world = World(NEW, pod("old", GOOD), pod("new", NEW))
    first = world.look()
    assert progress(first)["step"] == 1
    assert weights(first) == {SERVICE_OF_OLD: 100}  # remembered first, carried out next

    taken = world.look()
    assert weights(taken) == {SERVICE_OF_OLD: 80, SERVICE_OF_CAN: 20}
    assert progress(taken)["since"]
    assert "20 percent of the requests, step 1 of 2" in message(taken)
    early = world.look(59)
    assert early.requeue_after == pytest.approx(1)
    assert progress(early)["step"] == 1
    assert "retiring" not in early.status["revisions"]
    assert "until 2026-03-04T05:07:07Z" in message(early)
    assert verdict(early) == ("True", "ServingPreviousRevision")

    assert progress(world.look(1))["step"] == 2
    assert weights(world.look()) == {SERVICE_OF_OLD: 50, SERVICE_OF_CAN: 50}
    waiting = world.look(86400)
    assert verdict(waiting, "UpToDate") == ("False", "AwaitingApproval")
    assert f"spec.rollout.promote to {CAN}/2" in message(waiting)
    assert waiting.requeue_after is None

    world.of = promoting(f"{CAN}/1")
    assert progress(world.look())["step"] == 2  # another step's approval
    world.of = promoting(f"{CAN}/2")
    assert progress(world.look())["step"] == 3
    whole = world.look()
    assert weights(whole) == {SERVICE_OF_CAN: 100}
    assert (selected(whole), verdict(whole, "UpToDate")[0]) == (OLD, "False")

    promoted = world.look()
    assert promoted.status["revisions"]["lastGood"] == CAN
    assert "canary" not in promoted.status["revisions"]
    after = world.look()
    assert (selected(after), weights(after)) == (CAN, {SERVICE_OF_CAN: 100})
    assert deployments(after) == {"digits", OWN}
    assert verdict(after, "UpToDate") == ("True", "RolloutComplete")
    assert deployments(world.look(30)) == {OWN}


def test_a_pause_that_a_clock_dated_in_the_future_begins_again() -> None:
    world = under_way()
    assert progress(world.look())["since"] == "2026-03-04T05:06:07Z"

    back = world.look(-86400)

    assert progress(back) == {**progress(world.look()), "since": "2026-03-03T05:06:07Z"}
    assert world.look(59).requeue_after == pytest.approx(1)
    assert progress(world.look(1))["step"] == 2


def test_a_budget_covers_a_canary_while_it_gets_requests() -> None:
    world = under_way()
    world.of = dataclasses.replace(world.of, replicas=2)

    covered = [budget_in(world.look())]
    world.pods(pod("old", GOOD), unready("new", NEW))
    covered.append(budget_in(world.look()))

    assert [each.get("moorage.dev/revision") for each in covered] == [None, revision(GOOD)]


def test_approving_the_revision_approves_all_its_steps() -> None:
    world = World(promoting(CAN), pod("old", GOOD), pod("new", NEW))
    shares = [weights(world.look()) for _ in range(9)]

    assert {SERVICE_OF_OLD: 80, SERVICE_OF_CAN: 20} in shares
    assert {SERVICE_OF_OLD: 50, SERVICE_OF_CAN: 50} in shares
    assert shares[-1] == {SERVICE_OF_CAN: 100}


def test_a_pause_begins_when_the_gateway_accepts_the_weight() -> None:
    world = World(NEW, pod("old", GOOD), pod("new", NEW))
    world.look()

    silent = [world.look(600, gateway=()) for _ in range(3)][-1]

    assert progress(silent)["step"] == 1
    assert "since" not in progress(silent)
    assert verdict(silent, "RouteAccepted") == ("Unknown", "AwaitingGateway")
    assert "waiting: Gateway ns/web" in message(silent)
    assert progress(world.look(1))["since"] == "2026-03-04T05:36:08Z"


REFUSALS = {
    "not accepted": (verdict_of("Accepted", status=False, text="not allowed by listeners"),),
    "without its Services": (
        verdict_of("Accepted", status=True),
        verdict_of("ResolvedRefs", status=False, text="not allowed by listeners"),
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_refused_route_is_quoted_and_holds_the_canary(refusal: Any) -> None:
    world = World(NEW, pod("old", GOOD), pod("new", NEW))

    plans = [world.look(600, gateway=refusal) for _ in range(3)]

    assert verdict(plans[-1], "RouteAccepted") == ("False", "GatewayRefused")
    assert "not allowed by listeners" in message(plans[-1], "RouteAccepted")
    assert "not allowed by listeners" in message(plans[-1])
    assert progress(plans[-1])["step"] == 0


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ((RouteParent("web", "ns", "", 1, TAKEN),), ("True", "GatewayAccepted")),
        ((RouteParent("web", "ns", "", 0, TAKEN),), ("Unknown", "AwaitingGateway")),
        ((RouteParent("web", "other", "", 1, TAKEN),), ("Unknown", "AwaitingGateway")),
        ((RouteParent("web", "ns", "http", 1, TAKEN),), ("Unknown", "AwaitingGateway")),
        ((RouteParent("web", "ns", "", 1, TAKEN[:1]),), ("Unknown", "AwaitingGateway")),
        (
            (
                RouteParent("web", "ns", "", 1, (verdict_of("Accepted", status=False),)),
                RouteParent("web", "ns", "", 1, TAKEN),
            ),
            ("True", "GatewayAccepted"),
        ),
    ],
)
def test_conditions_of_other_gateways_are_ignored(
    parents: tuple[RouteParent, ...], expected: tuple[str, str]
) -> None:
    seen = World(GOOD, pod("old", GOOD), children=PLAIN).seen
    hash_ = applied_hash(route_in(planned(GOOD, seen)))
    route = RouteObserved("u", hash_, (), 1, parents)
    children = {**PLAIN, ("HTTPRoute", "digits"): route}

    plan = planned(GOOD, dataclasses.replace(seen, children=children))

    assert verdict(plan, "RouteAccepted") == expected
    assert verdict(plan) == ("True", "Serving")


def test_conditions_of_an_earlier_route_are_ignored() -> None:
    world = World(GOOD, pod("old", GOOD), children=PLAIN)
    taken = RouteParent("web", "ns", "", 1, TAKEN)
    earlier = RouteObserved("u", "another hash", (), 1, (taken,))
    children = {**PLAIN, ("HTTPRoute", "digits"): earlier}

    plan = planned(GOOD, dataclasses.replace(world.seen, children=children))

    assert verdict(plan, "RouteAccepted") == ("Unknown", "AwaitingGateway")


def test_both_of_two_gateways_have_to_accept_the_route() -> None:
    of = spec(1, "good:1", route={"parentRefs": [{"name": "web"}, {"name": "b"}]})
    world = World(of, pod("old", GOOD), children=PLAIN)

    plan = world.look()

    assert verdict(plan, "RouteAccepted") == ("Unknown", "AwaitingGateway")
    assert "Gateway ns/b" in message(plan, "RouteAccepted")


def test_a_replica_that_stops_serving_ends_the_canary_at_once() -> None:
    world = under_way()
    world.pods(pod("old", GOOD), pod("new", NEW, ready=False, unready_message="unready"))

    failing = world.look()
    rejected = failing.status["revisions"]["rejected"]
    assert weights(failing) == {SERVICE_OF_OLD: 100}
    assert rejected["revision"] == CAN
    assert "at step 1: " in rejected["message"]
    assert failing.status["revisions"]["retiring"]["revision"] == CAN

    back = world.look()
    assert weights(back) == {SERVICE_OF_OLD: 100}
    assert deployments(back) == {"digits", OWN}  # requests may be on their way to it
    assert verdict(back, "UpToDate") == ("False", "RolledBack")
    assert deployments(world.look(30)) == {"digits"}


def test_a_replica_that_the_status_omits_is_judged_by_its_age() -> None:
    world = under_way()
    status = {**world.seen.status, "replicaStatuses": [], "omittedReplicas": 2}
    world.seen = dataclasses.replace(world.seen, status=status)
    world.pods(pod("old", GOOD), pod("new", NEW, ready=False, unready_message="unready"))

    assert world.look().status["revisions"]["rejected"]["revision"] == CAN


def test_a_replica_whose_model_is_not_ready_ends_the_canary() -> None:
    world = under_way()
    new = pod("new", NEW)
    world.pods(
        pod("old", GOOD), new, **(said(pod("old", GOOD)) | said(new, no(AnswerReason.NOT_READY)))
    )

    assert world.look().status["revisions"]["rejected"]["revision"] == CAN


def test_a_paused_canary_keeps_its_pods_without_requests() -> None:
    world = under_way()
    world.of = spec(2, "new:1", onFailure="Pause")
    world.look()
    world.pods(pod("old", GOOD), pod("new", NEW, ready=False, unready_message="unready"))
    world.look()
    world.pods(pod("old", GOOD), pod("new", NEW))

    plans = [world.look(3600) for _ in range(3)]

    assert verdict(plans[-1], "UpToDate") == ("False", "RolloutPaused")
    assert weights(plans[-1]) == {SERVICE_OF_OLD: 100}
    assert deployments(plans[-1]) == {"digits", OWN}
    assert selected(plans[-1]) == OLD


def test_missing_or_new_replicas_hold_the_canary_without_ending_it() -> None:
    world = under_way()
    gone = pod("new", NEW, deleting=True)
    fresh = unready("newer", NEW, created=NOW + timedelta(seconds=30))
    world.pods(pod("old", GOOD), gone, fresh)

    plans = [world.look(300) for _ in range(3)]

    assert weights(plans[-1]) == {SERVICE_OF_OLD: 100}  # no server could answer
    assert progress(plans[-1])["step"] == 1
    assert "rejected" not in plans[-1].status["revisions"]

    world.pods(pod("old", GOOD), pod("newer", NEW, created=NOW + timedelta(seconds=30)))
    assert weights(world.look()) == {SERVICE_OF_OLD: 80, SERVICE_OF_CAN: 20}


def test_an_outage_of_the_operator_ends_no_canary() -> None:
    world = under_way()
    silent = {"consecutive_unknown": 9}
    pods = pod("old", GOOD), pod("new", NEW)
    mute = Answer(verdict=None, reason=AnswerReason.TIMED_OUT)
    world.pods(*pods, **(said(pods[0], mute, **silent) | said(pods[1], mute, **silent)))

    plan = world.look(3600)

    assert "rejected" not in plan.status["revisions"]
    assert progress(plan)["step"] == 1
    assert weights(plan) == {SERVICE_OF_OLD: 80, SERVICE_OF_CAN: 20}


def test_an_edit_at_a_step_keeps_the_former_canary_for_a_while() -> None:
    world = under_way()
    world.of = THIRD

    plans = [world.look() for _ in range(2)]

    third = names.deployment_of("digits", revision(THIRD))
    for plan in plans:
        assert deployments(plan) == {"digits", OWN, third}
        assert weights(plan) == {SERVICE_OF_OLD: 100}
        assert SERVICE_OF_CAN in {item["metadata"]["name"] for item in plan.objects}
    assert plans[0].status["revisions"]["retiring"]["revision"] == CAN
    assert progress(plans[1]) == {"revision": revision(THIRD), "step": 0, "weight": 0}
    assert deployments(world.look(30)) == {"digits", third}


def test_applying_the_good_spec_again_returns_all_requests_to_it() -> None:
    world = under_way()
    world.of = dataclasses.replace(GOOD, generation=3)

    plan = world.look()

    assert weights(plan) == {SERVICE_OF_OLD: 100}
    assert deployments(plan) == {"digits", OWN}
    assert verdict(world.look(), "UpToDate") == ("True", "RolloutComplete")
    assert deployments(world.look(30)) == {"digits"}


def test_edited_steps_restart_the_current_step() -> None:
    world = under_way()
    world.of = spec(3, "new:1", canary={**SECTION, "steps": [{"weight": 5}, {"weight": 50}]})

    world.look(30)

    assert weights(world.look()) == {SERVICE_OF_OLD: 95, SERVICE_OF_CAN: 5}


def test_without_the_gateway_api_a_canary_behaves_like_blue_green() -> None:
    world = World(NEW, pod("old", GOOD), pod("new", NEW), available_kinds=frozenset())

    plan = world.look()

    assert not route_in(plan)
    assert verdict(plan, "RouteAccepted") == ("False", "GatewayAPIMissing")
    assert "install the Gateway API" in message(plan, "RouteAccepted")
    assert selected(world.look()) == CAN


def test_a_started_canary_waits_for_a_removed_gateway_api() -> None:
    world = under_way()
    world.seen = dataclasses.replace(world.seen, available_kinds=frozenset(), children=BOTH)

    plans = [world.look(3600) for _ in range(3)]

    assert selected(plans[-1]) == OLD
    assert progress(plans[-1])["step"] == 1


def test_the_route_exists_with_every_strategy() -> None:
    rolling = model(
        generation=1,
        runtime={"image": "good:1"},
        route=ROUTE,
    )
    plan = World(rolling, pod("old", GOOD), children=PLAIN).look()

    assert weights(plan) == {"digits": 100}
    assert SERVICE_OF_OLD in {item["metadata"]["name"] for item in plan.objects}


def test_a_canary_gets_no_requests_before_its_smoke_tests_finish() -> None:
    tests = [
        {"name": "t", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}]}
    ]
    of = model(
        generation=2,
        runtime={"image": "new:1"},
        route=ROUTE,
        rollout=CANARY,
        smokeTests={"tests": tests},
    )
    world = World(of, pod("old", GOOD), pod("new", of))
    world.seen = dataclasses.replace(world.seen, history={**HISTORY, revision(of): record(of)})

    plans = [world.look() for _ in range(3)]

    assert verdict(plans[-1], "SmokeTestPassed") == ("Unknown", "Running")
    assert progress(plans[-1])["step"] == 0


def test_each_step_has_one_event() -> None:
    world = World(NEW, pod("old", GOOD), pod("new", NEW))

    events = [event for _ in range(5) for event in world.look(20).events]

    messages = [event.message for event in events if event.reason == "CanaryStep"]
    assert messages == [
        f"setting the share of canary {CAN} to 20 percent",
        f"setting the share of canary {CAN} to 50 percent",
    ]


def test_a_promotion_of_another_revision_is_reported() -> None:
    world = World(promoting("misspelt"), pod("old", GOOD), pod("new", NEW))
    world.look()
    assert "spec.rollout.promote names misspelt, which is not this canary" in message(world.look())

    world.of = promoting(OLD)  # from an earlier rollout
    assert "promote names" not in message(world.look())


def test_a_route_is_observed_with_its_gateways_conditions() -> None:
    parent_ref = {"name": "web", "sectionName": "http"}
    conditions = [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "observedGeneration": 3},
        {"type": "ResolvedRefs", "status": "False", "reason": "R", "observedGeneration": 2},
    ]
    metadata = {"name": "iris", "namespace": "ns", "uid": "u", "generation": 3}
    status = {"parents": [{"parentRef": parent_ref, "conditions": conditions}]}

    found = parse_objects.route({"metadata": metadata, "status": status})

    (parent,) = found.parents
    assert (parent.name, parent.namespace, parent.section_name) == ("web", "ns", "http")
    assert parent.observed_generation == 2
    assert [each.status for each in parent.conditions] == [True, False]
    assert found.generation == 3
