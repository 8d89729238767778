"""The Service of a refused or paused model stays the one that was applied last."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.rollout.releases import Release
from moorage_operator.decide.rollout.standing import Standing, standing_service
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.resources.service import make_service
from moorage_operator.values.objects import ChildObserved
from moorage_operator.values.observed import Observed, Refusal, RevisionRecord
from moorage_operator.values.plan import Plan
from moorage_operator.values.revisions import Revisions
from support.operator_values import (
    CONFIG,
    condition,
    deployment,
    model,
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

BLUE_GREEN = {"strategy": "BlueGreen"}
PORTS = {"http": 9000, "grpc": 9001}
UNNAMED = {"spec": {"containers": [{"name": "runtime", "ports": [{"containerPort": 9000}]}]}}


def service_of(found: Plan) -> dict[str, Any]:
    (service,) = [each for each in found.objects if each["kind"] == "Service"]
    return service


def applied(service: dict[str, Any]) -> ChildObserved:
    return ChildObserved("uid-s", applied_hash(service))


def refused(of: InferenceModel) -> InferenceModel:
    """The model with an edit that is not valid, and that differs in what a Service shows."""
    return model(
        generation=9,
        replicas=-1,
        runtime={"image": "other:1", "ports": {"http": 7000, "grpc": 7001}},
        rollout={"strategy": of.rollout.strategy.value},
    )


def history(*of: InferenceModel) -> dict[str, RevisionRecord | None]:
    return {revision(each): record(each) for each in of}


@pytest.mark.parametrize(
    "good",
    [
        model(),
        model(runtime={"image": "good:1", "ports": PORTS}),
        model(rollout=BLUE_GREEN),
        model(podTemplate=UNNAMED, runtime={"image": "good:1", "ports": PORTS}),
    ],
)
@pytest.mark.parametrize("paused", [False, True])
def test_a_refused_spec_keeps_the_service_that_was_applied_last(
    good: InferenceModel, paused: bool
) -> None:
    before = planned(good, serving(good))
    service = service_of(before)
    seen = serving(good, status=before.status, history=history(good))
    seen = replace(seen, children={**seen.children, ("Service", "digits"): applied(service)})

    found = planned(replace(refused(good), paused=paused), seen)

    assert found.objects == (() if paused else (service,))
    assert found.keeps_others
    assert verdict(found) == ("True", "ServingPreviousRevision")


def test_a_service_from_an_unknown_spec_is_not_touched() -> None:
    good = model()
    seen = serving(good, status=planned(good, serving(good)).status, history=history(good))
    seen = replace(
        seen, children={**seen.children, ("Service", "digits"): ChildObserved("s", "x")}
    )

    assert planned(refused(good), seen).objects == ()


def rolling(good: InferenceModel, new: InferenceModel, *pods: Any, **facts: Any) -> Observed:
    """A rollout from one revision to another that does not serve yet."""
    before = planned(good, serving(good)).status
    children = {("Deployment", "digits"): deployment(revision=revision(good))}
    if new.rollout.strategy.is_per_revision:
        own = names.deployment_of("digits", revision(new))
        children[("Deployment", own)] = deployment(uid="uid-o", revision=revision(new))
    seen = observed(*pods, status=before, history=history(good, new), **facts)
    seen = replace(seen, children=children)
    begun = planned(new, seen)
    service = service_of(begun)
    return replace(
        seen, status=begun.status, children={**children, ("Service", "digits"): applied(service)}
    )


GOOD = model(runtime={"image": "good:1"}, rollout=BLUE_GREEN)
NEW = model(generation=2, runtime={"image": "new:1", "ports": PORTS}, rollout=BLUE_GREEN)


def test_ready_is_judged_by_the_revision_that_the_service_selects() -> None:
    fresh = pod("new", NEW)
    seen = rolling(GOOD, NEW, unready("old", GOOD), fresh, probes=said(fresh))

    found = planned(refused(NEW), seen)

    assert service_of(found)["spec"]["selector"]["moorage.dev/revision"] == revision(GOOD)
    assert verdict(found)[0] == "False"
    assert f"the Service selects revision {revision(GOOD)}" in condition(found, "Ready")["message"]


def test_ready_of_a_paused_model_is_judged_by_the_revision_that_the_service_selects() -> None:
    old, fresh = unready("old", GOOD), pod("new", NEW)
    before = planned(GOOD, serving(GOOD))
    seen = observed(old, fresh, probes=said(fresh), status=before.status, history=history(NEW))
    main = deployment(revision=revision(GOOD))
    service = applied(service_of(before))
    children = {("Deployment", "digits"): main, ("Service", "digits"): service}

    found = planned(replace(GOOD, paused=True), replace(seen, children=children))

    assert verdict(found)[0] == "False"
    assert f"the Service selects revision {revision(GOOD)}" in condition(found, "Ready")["message"]


def without_service(seen: Observed) -> Observed:
    children = {key: each for key, each in seen.children.items() if key[0] != "Service"}
    return replace(seen, children=children)


@pytest.mark.parametrize("strategy", ["BlueGreen", "RollingUpdate"])
@pytest.mark.parametrize("extra", [{}, {"podTemplate": UNNAMED}])
def test_a_deleted_service_of_a_refused_spec_is_created_as_it_was(
    strategy: str, extra: dict[str, Any]
) -> None:
    rollout = {"strategy": strategy}
    good = model(runtime={"image": "good:1"}, rollout=rollout)
    new = model(generation=2, runtime={"image": "new:1", "ports": PORTS}, rollout=rollout, **extra)
    old, fresh = pod("old", good), unready("new", new)
    seen = rolling(good, new, old, fresh, probes=said(old))
    before = service_of(planned(refused(new), seen))

    found = planned(refused(new), without_service(seen))

    assert service_of(found) == before
    assert verdict(found) == ("True", "ServingPreviousRevision")
    first = before["spec"]["ports"][0]
    by_port = {"BlueGreen": 8000, "RollingUpdate": 9000 if extra else 8000}
    assert (first["port"], first["targetPort"] == "http") == (by_port[strategy], not extra)


@pytest.mark.parametrize(
    ("extra", "is_ready"),
    [
        ({}, False),
        ({"transient": True, "missing": True}, False),
        ({"transient": True}, True),  # not reported, because the retry usually succeeds
        ({"applied_hash": "of another spec"}, True),
        ({"reason": "BeingDeleted"}, True),  # it is gone now, and created next
    ],
)
def test_a_model_whose_service_cannot_be_created_is_not_ready(
    extra: dict[str, Any], *, is_ready: bool
) -> None:
    seen = serving(GOOD)
    seen = without_service(replace(seen, status=planned(GOOD, seen).status))
    service = service_of(planned(GOOD, seen))
    hash_ = service["metadata"]["annotations"]["moorage.dev/applied-hash"]
    refusal = Refusal("Service", "digits", hash_, 403, "Forbidden", "a webhook says no")

    seen = replace(seen, refusals=(replace(refusal, **extra),))
    found = planned(GOOD, seen, writes_services=False)

    assert verdict(found)[0] == str(is_ready)
    told = "the Service does not exist; ApplyRefused: the API server refuses the Service"
    assert (told in condition(found, "Ready")["message"]) == (extra == {})


def test_a_model_whose_existing_service_is_refused_stays_ready() -> None:
    seen = serving(GOOD)
    begun = planned(GOOD, seen)
    service = service_of(begun)
    hash_ = service["metadata"]["annotations"]["moorage.dev/applied-hash"]
    refusal = Refusal("Service", "digits", hash_, 403, "Forbidden", "a webhook says no")
    children = {**seen.children, ("Service", "digits"): applied(service)}

    found = planned(
        GOOD, replace(seen, status=begun.status, children=children, refusals=(refusal,))
    )

    assert verdict(found)[0] == "True"


def test_a_deleted_service_of_a_first_revision_is_created_as_it_was() -> None:
    first = model(runtime={"image": "new:1", "ports": PORTS})
    waiting = observed(unready("p", first))
    begun = planned(first, waiting)
    seen = replace(waiting, status=begun.status, history=history(first))

    assert service_of(planned(refused(first), seen)) == service_of(begun)


def test_a_deleted_service_selects_all_pods_if_the_last_good_deployment_is_gone() -> None:
    third = model(generation=3, runtime={"image": "third:1"}, rollout=BLUE_GREEN)
    seen = without_service(rolling(GOOD, NEW, pod("new", NEW)))
    left = [deployment(revision=revision(each)) for each in (NEW, third)]
    children = {("Deployment", each.revision): each for each in left}

    found = service_of(planned(refused(NEW), replace(seen, children=children)))

    assert found["spec"]["selector"] == labels.selector("digits")


def test_a_deleted_service_selects_all_pods_of_the_only_deployment() -> None:
    seen = without_service(rolling(GOOD, NEW, pod("old", GOOD)))
    main = {("Deployment", "digits"): seen.children[("Deployment", "digits")]}
    release = Release(revision(GOOD), GOOD, make_pod_template(GOOD, CONFIG), "digits")
    revisions = Revisions(last_good=revision(GOOD))

    found = standing_service(GOOD, replace(seen, children=main), revisions, [release])

    assert found == Standing("", make_service(GOOD, by_name=True))


def test_a_service_is_not_created_without_a_deployment_or_a_known_revision() -> None:
    seen = rolling(GOOD, NEW, pod("old", GOOD))
    children = {key: each for key, each in seen.children.items() if key[0] == "Deployment"}

    assert planned(refused(NEW), replace(seen, children={})).objects == ()
    unknown = replace(seen, children=children, history=dict.fromkeys(seen.history))
    assert planned(refused(NEW), unknown).objects == ()
    assert planned(refused(NEW), observed(pod("p", GOOD))).objects == ()


def test_a_refused_repair_is_tried_again() -> None:
    good = model()
    before = planned(good, serving(good))
    service = service_of(before)
    refusal = Refusal(
        "Service", "digits", applied_hash(service), 403, "Forbidden", "no", retry_seconds=9
    )
    seen = serving(good, status=before.status, history=history(good))
    seen = replace(
        seen,
        children={**seen.children, ("Service", "digits"): applied(service)},
        refusals=(refusal,),
    )

    assert planned(refused(good), seen).requeue_after == 9
