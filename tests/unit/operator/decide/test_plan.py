"""plan(): serving revisions are polled, gated and reported while the spec differs from them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.observed import Observed, Refusal
from moorage_operator.values.plan import Plan, PollPace
from support.operator_values import (
    NOW,
    condition,
    deployment,
    model,
    no,
    observed,
    planned,
    pod,
    record,
    revision,
    said,
    serving,
    unready,
    verdict,
)

GOOD = model(replicas=2)


def status_of(of: Any) -> dict[str, Any]:
    return planned(of, serving(of, of.replicas)).status


def conditions(of: Plan) -> set[str]:
    return {each["type"] for each in of.status["conditions"]}


def child(of: Plan, kind: str) -> dict[str, Any]:
    (found,) = [each for each in of.objects if each["kind"] == kind]
    return found


# ---------------------------------------------------------------------- an invalid spec

GATED = model(transport="GRPC", runtime={"image": "other:1"})
INVALID = model(
    generation=2, transport="GRPC", runtime={"image": "other:1"}, health={"newField": 1}
)


def invalid(*pods: Any, **facts: Any) -> Observed:
    history = {revision(GATED): record(GATED)}
    return observed(*pods, status=status_of(GATED), history=history, **facts)


def test_an_invalid_spec_is_planned_by_the_last_valid_one():
    newcomer = unready("new", GATED, gated=True, runtime=replace(pod("x", GATED).runtime))

    waiting = planned(INVALID, invalid(newcomer))
    answered = planned(INVALID, invalid(newcomer, probes=said(newcomer)))

    (target,) = waiting.targets
    assert (target.pod_uid, target.model_name, target.way.transport) == (
        "uid-new",
        "digits",
        "GRPC",
    )
    assert waiting.gates == ()
    assert [(gate.pod, gate.is_open) for gate in answered.gates] == [("new", True)]
    assert [each["kind"] for each in answered.objects] == ["Service"]
    assert answered.keeps_others
    assert verdict(answered, "Accepted") == ("False", "InvalidSpec")
    assert "spec.health.newField" in condition(answered, "Accepted")["message"]


def test_with_an_invalid_spec_ready_depends_on_the_servers():
    one = pod("p", GATED, gated=True, gate_open=True)

    serves = planned(INVALID, invalid(one, probes=said(one)))
    fails = planned(INVALID, invalid(one, probes=said(one, no(AnswerReason.LOADING))))

    assert verdict(serves) == ("True", "ServingPreviousRevision")
    assert serves.status["model"]["name"] == "digits"
    assert serves.status["revisions"] == status_of(GATED)["revisions"]
    assert serves.poll is PollPace.STABLE
    assert [(gate.pod, gate.is_open) for gate in fails.gates] == [("p", False)]
    assert verdict(fails)[0] == "False"
    assert fails.poll is PollPace.SETTLING


def test_with_an_invalid_spec_the_history_is_read_first():
    seen = replace(invalid(pod("p", GATED)), history={})
    unread = replace(seen, history={revision(GATED): None})

    plan = planned(INVALID, unread)

    assert plan.history == {revision(GATED)}
    assert plan.targets == ()
    assert verdict(plan) == ("True", "ServingPreviousRevision")


# ---------------------------------------------------------------------- who is a replica


@pytest.mark.parametrize("replica_set", ["", "stranger-5d8c", "digits-other"])
def test_a_pod_with_a_replicas_labels_and_another_owner_is_ignored(replica_set: str):
    of = model()
    stranger = replace(pod("s", of), replica_set=replica_set)

    plan = planned(of, observed(stranger, probes=said(stranger)))

    assert plan.status["replicas"] == 0
    assert plan.targets == ()
    assert verdict(plan) == ("False", "Pending")


# ---------------------------------------------------------------------- lost and left pods


def test_a_lost_replica_is_not_a_rollout():
    alone = pod("p0", GOOD)

    plan = planned(GOOD, observed(alone, probes=said(alone), status=status_of(GOOD)))
    none = planned(GOOD, observed(status=status_of(GOOD)))

    for each in (plan, none):
        assert verdict(each, "UpToDate") == ("True", "RolloutComplete")
        assert not conditions(each) & {"Reconciling", "Stalled"}
    assert verdict(plan) == ("True", "Serving")
    assert verdict(none) == ("False", "Pending")
    assert "1 of 2 replicas exist" in condition(plan, "UpToDate")["message"]


def test_another_template_or_size_is_a_rollout():
    two, edited = serving(GOOD, 2, status=status_of(GOOD)), {"generation": 2}

    wider = planned(model(replicas=3, **edited), two)
    other = planned(model(replicas=2, runtime={"image": "new:1"}, **edited), two)

    assert verdict(wider, "UpToDate") == ("False", "RollingOut")
    assert verdict(other, "UpToDate") == ("False", "RollingOut")


def test_remaining_pods_of_a_retired_revision_do_not_affect_up_to_date():
    rollout = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 60}}
    old = model(rollout=rollout)
    new = model(generation=2, rollout=rollout, runtime={"image": "new:1"})
    pods = pod("old", old), pod("new", new, created=NOW)
    answers = {**said(pods[0]), **said(pods[1])}
    began = {"revision": revision(old), "time": "2026-03-04T05:06:07Z"}
    complete = planned(new, observed(pods[1], probes=answers, status={})).status
    complete["revisions"]["retiring"] = began
    seen = observed(*pods, probes=answers, deployment=deployment(revision=revision(new)))
    history = {revision(each): record(each) for each in (old, new)}
    seen = replace(seen, history=history)

    kept = planned(new, replace(seen, status=complete))
    late = NOW + timedelta(seconds=61)
    over = planned(new, replace(seen, status=kept.status), late)
    left = planned(new, replace(seen, status=over.status), late)

    assert "retiring" not in left.status["revisions"]
    assert [verdict(each, "UpToDate")[0] for each in (kept, over, left)] == ["True"] * 3


def test_children_of_a_deleted_namesake_are_awaited():
    planned_hash = child(planned(GOOD, Observed()), "Service")["metadata"]["annotations"]
    message = "waiting for the garbage collector to delete Service 'digits'"
    refusal = Refusal(
        "Service",
        "digits",
        planned_hash["moorage.dev/applied-hash"],
        409,
        "AwaitingDeletion",
        message,
    )

    plan = planned(GOOD, Observed(refusals=(refusal,)))

    assert verdict(plan, "Accepted") == ("False", "AwaitingDeletion")
    assert condition(plan, "Accepted")["message"] == message
    assert "Stalled" not in conditions(plan)
    assert plan.events == ()
    assert plan.requeue_after is not None


# ---------------------------------------------------------------------- names and ports

MOVED = model(
    replicas=2,
    generation=2,
    model={"name": "digits-2"},
    runtime={"ports": {"http": 9000, "grpc": 9001}},
)


def moving(*pods: Any, of: Any = MOVED, **facts: Any) -> Observed:
    probes = {uid: result for each in pods if each.ready for uid, result in said(each).items()}
    return observed(
        *pods,
        probes=probes,
        status=status_of(GOOD),
        history={revision(GOOD): record(GOOD)},
        deployment=deployment(revision=revision(of)),
        **facts,
    )


def ports(of: Plan) -> list[tuple[int, int | str]]:
    return [(each["port"], each["targetPort"]) for each in child(of, "Service")["spec"]["ports"]]


def test_the_service_targets_ports_by_name():
    assert ports(planned(GOOD, Observed())) == [(8000, "http"), (8001, "grpc")]


def test_the_service_exposes_the_earlier_ports_until_the_new_revision_serves():
    old = pod("old", GOOD)
    both = moving(old, unready("new", MOVED))
    come = moving(pod("new", MOVED), pod("new-2", MOVED))

    during = planned(MOVED, both)
    served = planned(MOVED, come)
    after = planned(MOVED, replace(come, status=served.status))

    assert ports(during) == [(8000, "http"), (8001, "grpc")]
    assert {target.pod_uid: target.way.port for target in during.targets} == {
        "uid-old": 8000,
        "uid-new": 9000,
    }
    assert ports(after) == [(9000, "http"), (9001, "grpc")]


def test_endpoints_and_model_are_those_of_the_revision_that_serves():
    during = planned(MOVED, moving(pod("old", GOOD), unready("new", MOVED)))
    come = moving(pod("new", MOVED), pod("new-2", MOVED))
    served = planned(MOVED, come)
    after = planned(MOVED, replace(come, status=served.status))

    urls = [each["url"] for each in during.status["endpoints"]]
    assert "http://digits.ns.svc.cluster.local:8000/v2/models/digits/infer" in urls
    assert during.status["model"]["name"] == "digits"
    urls = [each["url"] for each in after.status["endpoints"]]
    assert "http://digits.ns.svc.cluster.local:9000/v2/models/digits-2/infer" in urls
    assert after.status["model"]["name"] == "digits-2"


@pytest.mark.parametrize("rollout", [{"onFailure": "Pause"}, {"onFailure": "Rollback"}])
def test_a_failed_revision_with_other_ports_keeps_clients_connected(rollout: dict[str, str]):
    of = replace(MOVED, rollout=model(rollout=rollout).rollout)
    bad = unready("new", of)
    stuck = moving(pod("old", GOOD), bad, of=of)
    stuck = replace(
        stuck, probes={**stuck.probes, **said(bad, no(AnswerReason.LOAD_FAILED, "no"))}
    )
    late = NOW + timedelta(minutes=5)
    status = planned(of, stuck).status
    given_up = planned(of, replace(stuck, status=status), late).status
    assert "rejected" in given_up["revisions"]

    plan = planned(of, replace(stuck, status=given_up), late)

    assert ports(plan) == [(8000, "http"), (8001, "grpc")]
    assert plan.status["model"]["name"] == "digits"


@pytest.mark.parametrize(
    "containers",
    [
        [{"name": "runtime", "ports": None}],
        [{"name": "runtime", "ports": [{"containerPort": 8000, "protocol": "TCP"}]}],
        [{"name": "runtime", "ports": "none"}],
        "none",
    ],
)
def test_a_pod_template_without_port_names_is_targeted_by_number(containers: Any):
    of = model(podTemplate={"spec": {"containers": containers}})

    assert ports(planned(of, Observed())) == [(8000, 8000), (8001, 8001)]


def test_the_network_policy_allows_the_ports_of_both_revisions():
    access = model(networkPolicy={"from": [{"podSelector": {}}]}).network_policy
    of = replace(MOVED, network_policy=access)

    plan = planned(of, moving(pod("old", GOOD), unready("new", MOVED)))

    rules = child(plan, "NetworkPolicy")["spec"]["ingress"]
    assert [each["port"] for each in rules[1]["ports"]] == [9000, 9001, 8000, 8001]


# ---------------------------------------------------------------------- what is enforced

TENSOR = {"name": "image", "datatype": "FP32"}
SENT = {**TENSOR, "shape": [1], "data": [1.0]}


def enforced(test: dict[str, Any]) -> dict[str, Any]:
    return {"policy": "Enforce", "tests": [test]}


SOUND = model(replicas=2, contract={"policy": "Enforce", "inputs": [TENSOR]})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"contract": {"policy": "Enforce", "inputs": [TENSOR]}},
            {"contract": {"policy": "Enforce", "inputs": [{**TENSOR, "datatype": "FP64"}]}},
        ),
        (
            {"smokeTests": enforced({"name": "a", "inputs": [SENT]})},
            {"smokeTests": enforced({"name": "b", "inputs": [SENT]})},
        ),
    ],
)
def test_an_edit_of_an_enforced_check_is_a_new_revision(before: Any, after: Any):
    warned = {"contract": {**before.get("contract", {}), "policy": "Warn"}}
    edited = {"contract": {**after.get("contract", {}), "policy": "Warn"}}

    assert revision(model(**before)) != revision(model(**after))
    assert revision(model(**before)) == revision(model(generation=2, **before))
    assert revision(model(**warned)) == revision(model(**edited))


def test_an_edit_of_an_enforced_contract_closes_no_gate_of_serving_pods():
    wrong = {**TENSOR, "datatype": "FP64"}
    edited = model(replicas=2, generation=2, contract={"policy": "Enforce", "inputs": [wrong]})
    pods = [pod(name, SOUND, gated=True, gate_open=True) for name in "ab"]
    newcomer = unready("c", edited, gated=True, runtime=pods[0].runtime)
    answers = {uid: result for each in (*pods, newcomer) for uid, result in said(each).items()}
    status = planned(SOUND, observed(*pods, probes=answers)).status
    seen = observed(
        *pods,
        newcomer,
        probes=answers,
        status=status,
        history={revision(SOUND): record(SOUND)},
        deployment=deployment(revision=revision(edited)),
    )

    plan = planned(edited, seen)

    assert plan.gates == ()
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "MetadataMatched") == ("False", "DatatypeMismatch")
    assert plan.status["replicaSummary"] == "2/2"


def test_the_targets_of_a_model_refer_to_its_tests() -> None:
    test = {
        "name": "one",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}],
    }
    of = model(replicas=2, smokeTests={"tests": [test]})
    assert of.smoke_tests.tests

    targets = planned(of, serving(of, 2)).targets

    assert len(targets) == 2
    assert all(each.smoke and each.smoke.tests is of.smoke_tests.tests for each in targets)
