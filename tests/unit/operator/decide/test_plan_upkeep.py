"""plan(): deletion, revisions to read, polls, retries, and the objects beside the workload."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.plan import plan, unread
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import DeploymentCondition, PodObserved
from moorage_operator.values.observed import Observed, Reference, ReferenceKind, Refusal
from moorage_operator.values.plan import Plan, PollPace
from support.operator_values import (
    CONFIG,
    DIGITS,
    NOW,
    YES,
    deployment,
    model,
    no,
    observed,
    planned,
    pod,
    record,
    revision,
    running,
    said,
    serving,
    silence,
    unready,
    verdict,
    with_service,
)

GOOD = model()
STATUS = planned(GOOD, serving(GOOD)).status
EDITED = model(generation=2, runtime={"image": "new:1"})
INVALID = model(generation=2, replicas=-1)


def unread_of(of: InferenceModel, seen: Observed) -> frozenset[str]:
    return unread(of, seen, make_pod_template(of, CONFIG), now=NOW)


# ---------------------------------------------------------------------- revisions to read


@pytest.mark.parametrize("of", [EDITED, INVALID])
def test_nothing_is_planned_before_the_revision_that_served_is_read(of: InferenceModel) -> None:
    seen = serving(GOOD, status=STATUS)

    before = plan(of, seen, now=NOW, config=CONFIG)

    assert before == Plan((), STATUS, keeps_others=True, history=frozenset({revision(GOOD)}))
    assert unread_of(of, seen) == {revision(GOOD)}
    for found in (record(GOOD), None):
        known = replace(seen, history={revision(GOOD): found})
        assert unread_of(of, known) == frozenset()
        assert plan(of, known, now=NOW, config=CONFIG).history == {revision(GOOD)}


@pytest.mark.parametrize("of", [GOOD, INVALID])
@pytest.mark.parametrize(
    ("facts", "is_read"),
    [
        ({}, True),
        ({"ready": False}, False),
        ({"deleting": True}, False),
        ({"revision": ""}, False),
        ({"replica_set": "other-5d8c"}, False),
    ],
)
def test_the_revision_of_a_ready_pod_is_read_unless_it_has_served(
    of: InferenceModel, facts: dict[str, Any], is_read: bool
) -> None:
    stray = pod("stray", "strange", **facts)
    served = {revision(GOOD): record(GOOD)}
    seen = observed(pod("p", GOOD), stray, status=STATUS, history=served)

    assert unread_of(of, seen) == ({"strange"} if is_read else frozenset())


def test_the_server_of_a_ready_pod_that_never_served_is_asked_by_its_own_spec() -> None:
    never = model(generation=2, runtime={"image": "never:1", "ports": {"http": 9}})
    stray = pod("stray", never)
    history = {revision(GOOD): record(GOOD), revision(never): record(never)}
    seen = observed(pod("p", GOOD), stray, status=STATUS, history=history)

    for of in (GOOD, INVALID):
        found = planned(of, seen)
        ports = {each.pod_uid: each.way.port for each in found.targets}
        assert ports == {"uid-p": 8000, "uid-stray": 9}


def test_a_pod_of_another_owner_is_not_asked() -> None:
    stray = pod("stray", GOOD, replica_set="other-5d8c")

    found = planned(GOOD, observed(pod("p", GOOD), stray, status=STATUS))

    assert [each.pod_uid for each in found.targets] == ["uid-p"]


# ---------------------------------------------------------------------- polls


def answered(of: InferenceModel, answer: Any, **facts: Any) -> Observed:
    of_pod = unready("p", of, gated=of.enforces, runtime=running())
    return observed(of_pod, probes=said(of_pod, answer, **facts))


ENFORCED = model(contract={"policy": "Enforce", "inputs": [{"name": "image"}]})
QUOTA = DeploymentCondition("ReplicaFailure", status=True, message="exceeded quota")
SECURITY = DeploymentCondition("ReplicaFailure", status=True, message="violates PodSecurity")


@pytest.mark.parametrize(
    ("of", "seen", "pace"),
    [
        (GOOD, serving(GOOD), PollPace.STABLE),
        (GOOD, Observed(), PollPace.SETTLING),
        (GOOD, answered(GOOD, no(AnswerReason.LOADING)), PollPace.SETTLING),
        (GOOD, answered(GOOD, silence(AnswerReason.TIMED_OUT)), PollPace.SETTLING),
        (GOOD, answered(GOOD, no(AnswerReason.LOAD_FAILED)), PollPace.FAILING),
        (ENFORCED, answered(ENFORCED, YES, model=replace(DIGITS, inputs=())), PollPace.STABLE),
        (GOOD, observed(deployment=deployment(conditions=(QUOTA,))), PollPace.SETTLING),
        (GOOD, observed(deployment=deployment(conditions=(SECURITY,))), PollPace.SETTLING),
        (INVALID, Observed(), PollPace.SETTLING),
    ],
)
def test_polls_are_rare_once_nothing_is_expected_to_change(
    of: InferenceModel, seen: Observed, pace: PollPace
) -> None:
    assert planned(of, seen).poll is pace


@pytest.mark.parametrize("of", [GOOD, INVALID])
def test_the_interval_of_polls_is_that_of_the_spec(of: InferenceModel) -> None:
    health = replace(of.health, poll_interval_seconds=7)

    assert planned(replace(of, health=health), serving(GOOD)).poll_interval_seconds == 7.0


# ---------------------------------------------------------------------- what clients reach


def told(of_pod: PodObserved, platform: str, **facts: Any) -> dict[str, Any]:
    return said(of_pod, model=replace(DIGITS, platform=platform), **facts)


@pytest.mark.parametrize("of", [EDITED, INVALID])
def test_the_metadata_is_that_of_the_revision_that_serves(of: InferenceModel) -> None:
    old, new = pod("old", GOOD), unready("new", EDITED, runtime=running())
    probes = {**told(old, "old"), **told(new, "new")}
    history = {revision(GOOD): record(GOOD)}

    found = planned(of, observed(new, old, probes=probes, status=STATUS, history=history))

    assert found.status["model"]["platform"] == "old"


def test_the_metadata_is_that_of_the_new_revision_once_it_serves_alone() -> None:
    old, new = pod("old", GOOD, ready=False, runtime=running(ready=False)), pod("new", EDITED)
    probes = {**told(old, "old"), **told(new, "new")}
    history = {revision(GOOD): record(GOOD)}

    found = planned(EDITED, observed(new, old, probes=probes, status=STATUS, history=history))

    assert found.status["model"]["platform"] == "new"


@pytest.mark.parametrize("ready", [True, False])
def test_with_an_invalid_spec_the_endpoints_are_those_of_the_spec_that_ran(ready: bool) -> None:
    ran = model(model={"name": "iris"}, runtime={"ports": {"http": 9000}})
    one = pod("p", ran, ready=ready)
    status = planned(ran, serving(ran)).status
    answers = said(one) if ready else told(one, "loads", model_ready=no(AnswerReason.LOADING))
    seen = observed(one, probes=answers, status=status, history={revision(ran): record(ran)})

    found = planned(INVALID, seen).status

    url = found["endpoints"][0]["url"]
    assert url == "http://digits.ns.svc.cluster.local:9000/v2/models/iris/infer"
    assert found["model"]["platform"] == ("onnx_onnxv1" if ready else "loads")


@pytest.mark.parametrize("facts", [{"paused": True}, {"replicas": -1}])
def test_the_service_of_a_rolling_update_selects_the_pods_of_every_revision(
    facts: dict[str, Any],
) -> None:
    of = model(generation=2, runtime={"image": "new:1"}, **facts)
    new = pod("new", EDITED)
    history = {revision(each): record(each) for each in (GOOD, EDITED)}
    seen = observed(new, probes=said(new), status=STATUS, history=history)

    assert verdict(planned(of, with_service(seen, of)))[0] == "True"


# ---------------------------------------------------------------------- retries


def refusal(of: InferenceModel, kind: str, seconds: float | None) -> Refusal:
    (child,) = [each for each in planned(of, Observed()).objects if each["kind"] == kind]
    annotations = child["metadata"]["annotations"]
    made = Refusal(kind, "digits", annotations["moorage.dev/applied-hash"], 403, "Forbidden", "no")
    return made if seconds is None else replace(made, retry_seconds=seconds)


def test_the_earliest_retry_of_a_planned_child_counts() -> None:
    refusals = (refusal(GOOD, "Service", 9), refusal(GOOD, "Deployment", 4))
    outdated = replace(refusal(EDITED, "Deployment", 1), applied_hash="old")

    assert planned(GOOD, serving(GOOD, refusals=refusals)).requeue_after == 4
    assert planned(GOOD, serving(GOOD, refusals=(outdated,))).requeue_after is None
    assert planned(GOOD, serving(GOOD, refusals=(*refusals, outdated))).requeue_after == 4
    assert planned(INVALID, serving(GOOD, refusals=refusals)).requeue_after is None


# ---------------------------------------------------------------------- objects


def kinds(of: InferenceModel, seen: Observed) -> list[str]:
    return [each["kind"] for each in planned(of, seen).objects]


def test_the_revision_that_served_is_kept_while_another_one_starts() -> None:
    seen = serving(GOOD, status=STATUS)
    known = replace(seen, history={revision(GOOD): record(GOOD)})

    assert kinds(EDITED, known) == ["Service", "ControllerRevision", "Deployment"]
    kept = planned(EDITED, known).objects[1]
    assert kept["metadata"]["name"] == f"digits-{revision(GOOD)}"
    assert kinds(EDITED, seen) == ["Service", "Deployment"]
    assert kinds(GOOD, known) == ["Service", "Deployment"]


CPU = {"type": "CPU", "target": 70}
QUERY = {"type": "Prometheus", "target": 1, "serverAddress": "http://p", "query": "q"}


@pytest.mark.parametrize(
    ("metric", "installed", "expected"),
    [
        (CPU, frozenset(), "HorizontalPodAutoscaler"),
        (QUERY, frozenset(), ""),
        (QUERY, frozenset({"ScaledObject"}), "ScaledObject"),
    ],
)
def test_an_autoscaler_of_keda_is_written_only_if_its_kind_is_installed(
    metric: dict[str, Any], installed: frozenset[str], expected: str
) -> None:
    of = model(scaling={"maxReplicas": 2, "metrics": [metric]})

    found = kinds(of, serving(of, available_kinds=installed))

    beside = [expected, "PodDisruptionBudget"] if expected else ["PodDisruptionBudget"]
    assert found == ["Service", "Deployment", *beside]


def test_the_objects_that_the_pods_refer_to_are_looked_up() -> None:
    expected = {Reference(ReferenceKind.CONFIG_MAP, "digits-files")}

    assert planned(GOOD, Observed()).references == expected
    assert planned(INVALID, Observed()).references == frozenset()


def test_a_refused_spec_that_ran_is_asked_until_its_pods_serve() -> None:
    failed = deployment(conditions=(SECURITY,))
    one = pod("p", GOOD)

    serves = planned(GOOD, observed(one, probes=said(one), deployment=failed))
    loads = planned(
        GOOD, observed(one, probes=said(one, no(AnswerReason.LOADING)), deployment=failed)
    )

    assert verdict(serves) == ("True", "Serving")
    assert serves.poll is PollPace.STABLE
    assert loads.poll is PollPace.SETTLING


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("of", [GOOD, INVALID])
def test_other_children_are_deleted_only_for_a_valid_spec_that_is_not_paused(
    of: InferenceModel, paused: bool
) -> None:
    found = planned(replace(of, paused=paused), serving(GOOD, status=STATUS))

    assert found.keeps_others is (paused or bool(of.problems))
    assert found.leaves_children is paused
    assert bool(found.objects) is not found.keeps_others


def test_a_paused_model_is_not_reconciled_again_to_write_its_children() -> None:
    refusals = (refusal(GOOD, "Service", 9),)
    of = replace(GOOD, paused=True)

    assert planned(of, serving(GOOD, refusals=refusals)).requeue_after is None
