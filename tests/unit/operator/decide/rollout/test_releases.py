"""BlueGreen: the Deployments of revisions, the selector of the Service, retired revisions."""

import dataclasses
from datetime import timedelta

import pytest

from moorage_operator.api import names
from moorage_operator.decide.plan import unread
from moorage_operator.decide.rollout.releases import is_kept
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import ChildObserved
from moorage_operator.values.observed import Observed, RevisionRecord
from moorage_operator.values.plan import Plan
from moorage_operator.values.revisions import Retirement, Revisions
from support.operator_values import (
    CONFIG,
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
    serving,
    unready,
    verdict,
)

WEB = {"parentRefs": [{"name": "web"}]}
BLUE_GREEN = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 60}}
GOOD = model(rollout=BLUE_GREEN)
NEW = model(generation=2, runtime={"image": "new:1"}, rollout=BLUE_GREEN)
THIRD = model(generation=3, runtime={"image": "new:2"}, rollout=BLUE_GREEN)
HISTORY = {revision(each): record(each) for each in (GOOD, NEW, THIRD)}
OWN = names.deployment_of("digits", revision(NEW))
MIXED = {"maxSurge": 0, "maxUnavailable": "100%"}


def seen(*pods, status: dict, deployments: dict) -> Observed:
    probes = {uid: result for each in pods if each.ready for uid, result in said(each).items()}
    return Observed(children=deployments, pods=pods, probes=probes, history=HISTORY, status=status)


def served() -> dict:
    return planned(GOOD, serving(GOOD)).status


def deployments(plan: Plan) -> dict[str, str]:
    """The revision of every planned Deployment, by name; none is paused."""
    assert not any(item.get("spec", {}).get("paused") for item in plan.objects)
    return {
        item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"][
            "moorage.dev/revision"
        ]
        for item in plan.objects
        if item["kind"] == "Deployment"
    }


def selected(plan: Plan) -> str:
    (service,) = [item for item in plan.objects if item["kind"] == "Service"]
    return service["spec"]["selector"].get("moorage.dev/revision", "")


PLAIN = {("Deployment", "digits"): deployment(revision=revision(GOOD))}
BOTH = {**PLAIN, ("Deployment", OWN): deployment(revision=revision(NEW))}


def test_a_first_revision_has_the_plain_deployment():
    plan = planned(GOOD, Observed())

    assert deployments(plan) == {"digits": revision(GOOD)}
    assert selected(plan) == revision(GOOD)
    assert plan.history == frozenset()


def test_a_new_revision_starts_next_to_the_selected_one():
    plan = planned(NEW, seen(pod("old", GOOD), status=served(), deployments=PLAIN))

    assert deployments(plan) == {"digits": revision(GOOD), OWN: revision(NEW)}
    assert selected(plan) == revision(GOOD)
    own = next(item for item in plan.objects if item["metadata"]["name"] == OWN)
    assert own["spec"]["selector"]["matchLabels"]["moorage.dev/revision"] == revision(NEW)
    assert plan.history == {revision(GOOD)}
    without_pods = planned(NEW, seen(status=served(), deployments=PLAIN))
    assert without_pods.history == {revision(GOOD)}
    assert not plan.keeps_others


def test_the_service_is_switched_when_all_new_replicas_serve():
    two = model(replicas=2, generation=2, runtime={"image": "new:1"}, rollout=BLUE_GREEN)
    old, one = pod("old", GOOD), pod("new-1", NEW)
    half = seen(old, one, unready("new-2", NEW), status=served(), deployments=BOTH)
    whole = seen(old, one, pod("new-2", NEW), status=served(), deployments=BOTH)

    before = planned(two, half)
    after = planned(two, whole)
    switched = planned(two, dataclasses.replace(whole, status=after.status))

    assert before.status["revisions"]["lastGood"] == revision(GOOD)
    assert selected(before) == selected(after) == revision(GOOD)
    assert selected(switched) == revision(NEW)
    assert verdict(after, "UpToDate") == ("False", "RollingOut")
    assert after.status["revisions"]["retiring"]["revision"] == revision(GOOD)
    assert verdict(switched, "UpToDate") == ("False", "RollingOut")
    known = dataclasses.replace(whole, status=after.status)
    written = planned(two, carried_out(known, switched))
    assert verdict(written, "UpToDate") == ("True", "RolloutComplete")


def test_a_budget_leaves_out_replicas_that_get_no_requests():
    """A budget for both Deployments would allow no eviction until all new replicas are ready."""
    two = model(replicas=2, generation=2, runtime={"image": "new:1"}, rollout=BLUE_GREEN)
    world = seen(
        *(pod("old-1", GOOD), pod("old-2", GOOD)),
        *(unready("new-1", NEW), unready("new-2", NEW)),
        status=served(),
        deployments=BOTH,
    )

    plan = planned(two, world)

    (budget,) = [item for item in plan.objects if item["kind"] == "PodDisruptionBudget"]
    (service,) = [item for item in plan.objects if item["kind"] == "Service"]
    assert budget["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert selected(plan) == revision(GOOD)


def carried_out(world: Observed, plan: Plan) -> Observed:
    """The world once the Service is as planned."""
    (service,) = [item for item in plan.objects if item["kind"] == "Service"]
    child = ChildObserved("u", applied_hash(service))
    return dataclasses.replace(world, children={**world.children, ("Service", "digits"): child})


def test_a_replaced_revision_is_kept_for_a_while_and_then_deleted():
    world = seen(pod("old", GOOD), pod("new", NEW), status=served(), deployments=BOTH)
    switched = dataclasses.replace(world, status=planned(NEW, world).status)
    waiting = planned(NEW, switched, NOW + timedelta(days=1))
    assert "time" not in waiting.status["revisions"]["retiring"]
    assert deployments(waiting) == {"digits": revision(GOOD), OWN: revision(NEW)}
    switched = carried_out(switched, waiting)
    switched = dataclasses.replace(switched, status=planned(NEW, switched).status)

    early = planned(NEW, switched, NOW + timedelta(seconds=59))
    late = planned(NEW, switched, NOW + timedelta(seconds=60))

    assert deployments(early) == {"digits": revision(GOOD), OWN: revision(NEW)}
    assert early.requeue_after == pytest.approx(1)
    assert deployments(late) == {OWN: revision(NEW)}
    assert "retiring" not in late.status["revisions"]


def test_a_revision_that_a_clock_retired_in_the_future_is_kept_from_now_on() -> None:
    world = replaced()
    back = NOW - timedelta(days=1)

    again = planned(NEW, world, back)
    early, late = (
        planned(NEW, dataclasses.replace(world, status=again.status), back + timedelta(seconds=s))
        for s in (59, 60)
    )

    assert again.status["revisions"]["retiring"]["time"] == "2026-03-03T05:06:07Z"
    assert early.requeue_after == pytest.approx(1)
    assert deployments(late) == {OWN: revision(NEW)}


def replaced() -> Observed:
    """NEW has replaced GOOD, whose pod is kept for a while."""
    world = seen(pod("old", GOOD), pod("new", NEW), status=served(), deployments=BOTH)
    for _ in range(3):
        plan = planned(NEW, world)
        world = carried_out(dataclasses.replace(world, status=plan.status), plan)
    assert world.status["revisions"]["retiring"]["time"]
    return world


@pytest.mark.parametrize(("seconds", "is_read"), [(59, True), (60, False)])
def test_the_record_of_a_replaced_revision_is_read_while_it_is_kept(seconds: int, is_read: bool):
    world = dataclasses.replace(replaced(), history={})
    world = dataclasses.replace(world, pods=world.pods[1:])
    late = NOW + timedelta(seconds=seconds)

    found = unread(NEW, world, make_pod_template(NEW, CONFIG), now=late)

    assert found == ({revision(GOOD)} if is_read else set())


@pytest.mark.parametrize(
    ("spec", "reason", "more"),
    [
        ({}, "Pending", "0 of 1 pods of this revision have been created"),
        ({"replicas": "many"}, "InvalidSpec", "spec.replicas: "),
        ({"paused": True}, "Paused", "0 of 1 pods of this revision have been created; "),
    ],
    ids=["valid", "with a problem", "paused"],
)
def test_pods_that_the_service_no_longer_selects_do_not_make_a_model_ready(
    spec: dict, reason: str, more: str
):
    now = model(generation=3, runtime={"image": "new:1"}, rollout=BLUE_GREEN, **spec)
    world = replaced()
    assert verdict(planned(now, world))[0] == "True"
    (old, _) = world.pods

    plan = planned(now, dataclasses.replace(world, pods=(old,)))

    assert verdict(plan) == ("False", reason)
    assert condition(plan, "Ready")["message"].startswith(
        f"the Service selects revision {revision(NEW)}, of which no pod serves; {reason}: {more}"
    )
    assert reason in {each.reason for each in plan.events}
    types = [each["type"] for each in plan.status["conditions"]]
    assert len(set(types)) == len(types)


@pytest.mark.parametrize("count", [1, 2])
def test_pods_that_the_service_does_not_select_yet_do_not_make_a_model_ready(count: int):
    two = model(replicas=2, generation=2, runtime={"image": "new:1"}, rollout=BLUE_GREEN)
    pods = [pod(f"new-{number}", NEW) for number in range(count)]

    plan = planned(two, seen(*pods, status=served(), deployments=BOTH))

    assert selected(plan) == revision(GOOD)
    assert verdict(plan) == ("False", "Pending")
    why = "; Pending: 1 of 2 pods of this revision have been created" if count == 1 else ""
    assert condition(plan, "Ready")["message"] == (
        f"the Service selects revision {revision(GOOD)}, of which no pod serves{why}"
    )


def test_a_model_that_is_not_ready_keeps_its_own_reason():
    new = unready("new", NEW)
    world = seen(new, status=served(), deployments=BOTH)

    plan = planned(NEW, dataclasses.replace(world, probes=said(new, no(AnswerReason.LOADING))))

    assert selected(plan) == revision(GOOD)
    assert verdict(plan) == ("False", "ModelLoading")
    assert "the Service selects" not in condition(plan, "Ready")["message"]


def test_a_revision_that_serves_is_selected_even_if_the_selected_one_has_ended():
    world = seen(pod("new", NEW), status=served(), deployments=BOTH)
    first = planned(NEW, world)

    second = planned(NEW, dataclasses.replace(world, status=first.status))

    assert selected(second) == revision(NEW)
    assert verdict(second) == ("True", "Serving")


def test_an_earlier_spec_applied_again_reuses_its_deployment():
    world = seen(pod("old", GOOD), pod("new", NEW), status=served(), deployments=BOTH)
    switched = planned(NEW, world).status
    back = dataclasses.replace(GOOD, generation=3)

    first = planned(back, dataclasses.replace(world, status=switched))
    second = planned(back, dataclasses.replace(world, status=first.status))

    assert deployments(first) == {"digits": revision(GOOD), OWN: revision(NEW)}
    assert selected(second) == revision(GOOD)
    assert second.status["revisions"]["retiring"]["revision"] == revision(NEW)


def test_a_retiring_revision_that_is_applied_again_no_longer_retires():
    world = replaced()
    assert world.status["revisions"]["retiring"]["revision"] == revision(GOOD)
    old, new = world.pods
    starts = dataclasses.replace(old, ready=False)
    back = dataclasses.replace(GOOD, generation=3)

    plan = planned(back, dataclasses.replace(world, pods=(starts, new)))

    assert plan.status["revisions"]["lastGood"] == revision(NEW)
    assert "retiring" not in plan.status["revisions"]


def test_a_paused_model_records_no_switch_to_a_revision_that_serves():
    world = seen(pod("old", GOOD), pod("new", NEW), status=served(), deployments=BOTH)

    going = planned(NEW, world)
    paused = planned(dataclasses.replace(NEW, paused=True), world)

    assert going.status["revisions"]["lastGood"] == revision(NEW)
    assert paused.status["revisions"]["lastGood"] == revision(GOOD)


def test_a_revision_that_is_given_up_loses_its_deployment():
    rejected = {"revision": revision(NEW), "reason": "ModelLoadFailed", "message": "m",
                "time": "2026-03-04T05:06:07Z"}  # fmt: skip
    trying = seen(pod("old", GOOD), status=served(), deployments=PLAIN)
    status = planned(NEW, trying).status
    status = {**status, "revisions": {**status["revisions"], "rejected": rejected}}

    plan = planned(NEW, seen(pod("old", GOOD), status=status, deployments=BOTH))

    assert deployments(plan) == {"digits": revision(GOOD)}
    assert selected(plan) == revision(GOOD)


@pytest.mark.parametrize("kept", [None, dataclasses.replace(record(GOOD), spec=b"{")])
def test_an_unknown_deployment_is_kept(kept: RevisionRecord | None):
    world = seen(pod("old", GOOD), status=served(), deployments=PLAIN)

    plan = planned(NEW, dataclasses.replace(world, history={revision(GOOD): kept}))

    assert deployments(plan) == {OWN: revision(NEW)}
    assert plan.keeps_others
    paused = dataclasses.replace(NEW, paused=True)
    held = planned(paused, dataclasses.replace(world, history={revision(GOOD): None}))
    assert f'create Deployment "{OWN}"' in condition(held, "Paused")["message"]
    assert "delete Deployment" not in condition(held, "Paused")["message"]


def test_pods_stay_in_a_deployment_that_is_being_updated():
    rolling = {("Deployment", "digits"): deployment(revision=revision(NEW))}

    plan = planned(THIRD, seen(pod("old", GOOD), status=served(), deployments=rolling))

    assert deployments(plan) == {"digits": revision(THIRD)}
    assert selected(plan) == ""


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_the_service_of_one_deployment_selects_all_pods(strategy: str):
    of = model(rollout={"strategy": strategy})

    assert selected(planned(of, Observed())) == ""
    assert deployments(planned(of, Observed())) == {"digits": revision(of)}


def test_a_change_to_recreate_ends_the_earlier_revision_first():
    now = model(generation=3, runtime={"image": "new:1"}, rollout={"strategy": "Recreate"})

    plan = planned(now, seen(pod("old", GOOD), status=served(), deployments=BOTH))

    assert deployments(plan) == {OWN: revision(NEW)}
    assert selected(plan) == ""


RECREATE = model(generation=2, runtime={"image": "new:1"}, rollout={"strategy": "Recreate"})
NEXT = {"template_hash": "77aa", "replica_set": "digits-77aa"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (NEXT, {"type": "RollingUpdate", "rollingUpdate": MIXED}),
        ({}, {"type": "Recreate"}),
        ({**NEXT, "deleting": True}, {"type": "Recreate"}),
        ({**NEXT, "phase": "Failed"}, {"type": "Recreate"}),
        ({**NEXT, "phase": "Succeeded"}, {"type": "Recreate"}),
        ({**NEXT, "replica_set": "another-77aa"}, {"type": "Recreate"}),
    ],
)
def test_recreate_first_ends_a_rolling_update_that_is_in_progress(facts: dict, expected: dict):
    pods = (pod("old", GOOD), pod("new", NEW, **facts))
    deployed = {("Deployment", "digits"): deployment(revision=revision(NEW))}

    plan = planned(RECREATE, seen(*pods, status=served(), deployments=deployed))

    (made,) = [item for item in plan.objects if item["kind"] == "Deployment"]
    assert made["spec"]["strategy"] == expected


@pytest.mark.parametrize("seconds", [10, 60])
def test_a_revision_that_lost_its_requests_is_kept_for_the_seconds_of_its_strategy(seconds: int):
    retiring = Revisions(last_good="new", retiring=Retirement("old", "2026-03-04T05:06:07Z"))
    section = {"keepSeconds": seconds}
    blue_green = model(rollout={"strategy": "BlueGreen", "blueGreen": section})
    canary = {"strategy": "Canary", "canary": section}

    assert is_kept(blue_green, retiring, NOW) == seconds
    assert is_kept(model(route=WEB, rollout=canary), retiring, NOW) == seconds
    # Without a route the Service has been switched already.
    assert is_kept(model(rollout=canary), retiring, NOW) is None


def test_the_service_exposes_the_ports_of_the_selected_revision():
    moved = model(
        generation=2,
        runtime={"image": "new:1", "ports": {"http": 9000}},
        rollout=BLUE_GREEN,
    )

    plan = planned(moved, seen(pod("old", GOOD), status=served(), deployments=PLAIN))

    (service,) = [item for item in plan.objects if item["kind"] == "Service"]
    assert service["spec"]["ports"][0]["port"] == 8000


def test_an_earlier_revision_is_polled_and_gated_by_its_own_spec():
    gated = model(
        rollout=BLUE_GREEN, contract={"policy": "Enforce", "inputs": [{"name": "image"}]}
    )
    old = pod("old", gated, gated=True, ready=False)
    status = planned(gated, serving(gated)).status
    world = Observed(
        children={("Deployment", "digits"): deployment(revision=revision(gated))},
        pods=(old,),
        probes=said(old),
        history={revision(gated): record(gated)},
        status=status,
    )

    plan = planned(NEW, world)

    assert [target.pod_uid for target in plan.targets] == [old.uid]
    assert [(gate.pod, gate.is_open) for gate in plan.gates] == [("old", True)]


def test_a_long_name_is_shortened_with_a_hash():
    long = "m" * 63

    assert len(names.deployment_of(long, "0123456789")) == 63
    assert names.deployment_of(long, "0123456789") != names.deployment_of(long, "9876543210")
