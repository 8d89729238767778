"""Whether the replicas have the planned pod template."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.decide.status.template import TemplateState, template_state
from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.observed import Observed, Refusal
from support.operator_values import (
    condition,
    deployment,
    model,
    observed,
    planned,
    pod,
    serving,
    verdict,
    with_service,
)

MODEL = model(
    runtime={"image": "good:1", "env": [{"name": "A", "value": "1"}]},
    nodeSelector={"kubernetes.io/arch": "amd64"},
)
OBJECTS = planned(MODEL, observed()).objects
PLANNED, UNKNOWN, OTHER = TemplateState
CONTAINER = "spec.template.spec.containers[runtime]"


def replicas(*sets: str) -> list[Replica]:
    """Serving replicas of the current revision, by their ReplicaSets."""
    pods = [replace(pod(f"p{at}", MODEL), replica_set=each) for at, each in enumerate(sets)]
    return [
        Replica(each, current=True, serving=True, model_ready=True, admitted=True) for each in pods
    ]


def state(*sets: str, refusals: tuple[Refusal, ...] = (), **facts: Any) -> TemplateState:
    found = replicas(*sets)
    pods = [each.pod for each in found]
    seen = observed(*pods, deployment=deployment(**facts), refusals=refusals)
    return template_state(OBJECTS, seen, found)


@pytest.mark.parametrize(
    ("generation", "seen", "uniform", "sets", "expected"),
    [
        (1, 0, True, ("a",), PLANNED),  # the pods prove it before the controller reports it
        (1, 0, True, ("a", "a"), PLANNED),
        (1, 0, True, (), UNKNOWN),
        (1, 1, True, (), PLANNED),
        (1, 1, True, ("a", "b"), UNKNOWN),  # an edit that the watch has not shown yet
        (2, 1, True, ("a",), UNKNOWN),
        (2, 2, True, ("a",), PLANNED),
        (2, 3, True, ("a",), PLANNED),
        (2, 2, False, ("a",), UNKNOWN),
        (2, 2, True, (), PLANNED),
    ],
)
def test_the_template_is_known_from_the_pods_or_from_the_controller(
    generation: int, seen: int, uniform: bool, sets: tuple[str, ...], expected: TemplateState
) -> None:
    found = state(*sets, generation=generation, observed_generation=seen, is_uniform=uniform)

    assert found is expected


@pytest.mark.parametrize(("seen", "expected"), [(1, UNKNOWN), (2, OTHER)])
def test_pods_that_the_controller_still_replaces_have_another_template(
    seen: int, expected: TemplateState
) -> None:
    facts = {"generation": 2, "is_uniform": False, "is_mixed": True}

    assert state("a", observed_generation=seen, **facts) is expected


def test_without_a_deployment_the_template_is_unknown() -> None:
    assert template_state(OBJECTS, Observed(), replicas("a")) is UNKNOWN


@pytest.mark.parametrize(
    ("phase", "replica_set", "expected"),
    [
        ("Failed", "digits-side-1", PLANNED),
        ("Running", "digits-side-1", UNKNOWN),
        ("Failed", "digits-1", UNKNOWN),  # of an edit that the watch has not shown yet
    ],
)
def test_a_failed_pod_of_another_deployment_shows_nothing(
    phase: str, replica_set: str, expected: TemplateState
) -> None:
    (replica,) = replicas("digits-2")
    evicted = replace(
        pod("evicted", MODEL), replica_set=replica_set, template_hash="1", phase=phase
    )
    seen = observed(replica.pod, evicted, deployment=deployment(generation=1))

    assert template_state(OBJECTS, seen, [replica]) is expected


def test_a_failed_pod_of_another_planned_deployment_shows_nothing() -> None:
    (replica,) = replicas("digits-2")
    evicted = replace(
        pod("evicted", MODEL), replica_set="digits-side-1", template_hash="1", phase="Failed"
    )
    main = next(each for each in OBJECTS if each["kind"] == "Deployment")
    side = {**main, "metadata": {**main["metadata"], "name": "digits-side"}}
    seen = observed(replica.pod, evicted, deployment=deployment(generation=1))

    assert template_state([*OBJECTS, side], seen, [replica]) is PLANNED


@pytest.mark.parametrize(("revision", "expected"), [("", UNKNOWN), ("other", PLANNED)])
def test_a_pod_that_is_being_deleted_shows_another_template_of_the_revision(
    revision: str, expected: TemplateState
) -> None:
    found = replicas("a")
    own = found[0].pod
    leaving = replace(own, replica_set="b", deleting=True, revision=revision or own.revision)

    assert template_state(OBJECTS, observed(own, leaving), found) is expected


@pytest.mark.parametrize(("deleting", "expected"), [(True, PLANNED), (False, UNKNOWN)])
def test_a_pod_that_is_being_deleted_on_a_lost_node_shows_nothing(
    deleting: bool, expected: TemplateState
) -> None:
    found = replicas("a")
    lost = replace(found[0].pod, replica_set="b", ready=False, deleting=deleting)
    assert lost.is_lost

    assert template_state(OBJECTS, observed(found[0].pod, lost), found) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{CONTAINER}.image", OTHER),
        (f"{CONTAINER}.env[A].value", OTHER),
        (f"{CONTAINER}.env[A]", OTHER),
        ("spec.template.spec.nodeSelector.kubernetes.io/arch", OTHER),
        # added beside what the operator sets, which it leaves alone
        (f"{CONTAINER}.env[B]", PLANNED),
        (f"{CONTAINER}.imagined", PLANNED),
        (f"{CONTAINER}.image.imagined", PLANNED),
        ("spec.template.spec.containers[beside].image", PLANNED),
        ("spec.template.spec.nodeSelector.kubernetes.io/os", PLANNED),
        ("spec.template.spec.hostname", PLANNED),
        # not of the template
        ("spec.replicas", PLANNED),
    ],
)
def test_a_planned_field_that_others_own_was_edited(path: str, expected: TemplateState) -> None:
    assert state("a", foreign=((path, "kubectl-edit"),)) is expected


def test_a_deployment_that_was_refused_may_have_been_edited() -> None:
    body = next(each for each in OBJECTS if each["kind"] == "Deployment")
    failed = Refusal("Deployment", "digits", applied_hash(body), 500, "", "", transient=True)
    earlier = replace(failed, applied_hash="of an earlier plan")

    assert state("a", refusals=(failed,)) is UNKNOWN
    assert state("a", refusals=(earlier,)) is PLANNED


def test_an_edited_deployment_of_a_paused_model_is_not_up_to_date() -> None:
    status = planned(MODEL, serving(MODEL)).status
    edited = deployment(foreign=((f"{CONTAINER}.image", "kubectl-edit"),), generation=2)
    paused = model(
        paused=True,
        runtime={"image": "good:1", "env": [{"name": "A", "value": "1"}]},
        nodeSelector={"kubernetes.io/arch": "amd64"},
    )

    plan = planned(paused, with_service(serving(MODEL, status=status, deployment=edited), MODEL))

    assert verdict(plan, "Ready") == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("False", "Paused")
    assert f"{CONTAINER}.image by 'kubectl-edit'" in condition(plan, "UpToDate")["message"]
