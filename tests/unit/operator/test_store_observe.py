"""API objects into the store, and what it then tells the plan."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator import labels, observe
from moorage_operator.answers import ProbeResult
from moorage_operator.api import v1alpha1
from moorage_operator.kube.versions import is_newer
from moorage_operator.state import (
    ObjectKey,
    Reference,
    ReferenceKind,
    ReferenceState,
    Refusal,
)
from moorage_operator.store import Store
from moorage_operator.urgency import Urgency
from moorage_operator.watched import (
    ContainerObserved,
    DeploymentCondition,
    DeploymentObserved,
    PodObserved,
    Scheduled,
)

KEY = ObjectKey("ns", "iris")
NOON = "2026-01-01T12:00:00Z"
AT_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LABELS = {"app.kubernetes.io/managed-by": "moorage", "moorage.dev/model": "iris"}


def metadata(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": NOON,
        "labels": LABELS,
        **more,
    }


def model(version: int = 1, uid: str = "uid-iris", **more: Any) -> dict[str, Any]:
    return {"metadata": metadata("iris", version, uid=uid), "spec": {}, **more}


def owned(name: str, version: int = 1, uid: str = "uid-iris") -> dict[str, Any]:
    owner = {"kind": "InferenceModel", "uid": uid, "controller": True}
    return metadata(name, version, ownerReferences=[owner])


class Told:
    def __init__(self) -> None:
        self.keys: list[ObjectKey] = []
        self.pods: list[str] = []
        self.bereaved: list[str] = []
        self.store = Store(
            changed=lambda key, _: self.keys.append(key),
            pod_moved=self.pods.append,
            child_gone=self.bereaved.append,
        )
        self.pods_sink = observe.Pods(self.store)
        self.deployments = observe.Children("Deployment", self.store)
        self.services = observe.Children("Service", self.store)


@pytest.fixture
def told() -> Told:
    made = Told()
    made.store.put_model(model())
    made.keys.clear()
    return made


def overheard() -> tuple[Store, list[Urgency]]:
    """A store, and how urgent its changes were."""
    told: list[Urgency] = []
    store = Store(
        changed=lambda _, urgency: told.append(urgency),
        pod_moved=lambda _: None,
        child_gone=lambda _: None,
    )
    return store, told


@pytest.mark.parametrize(
    ("generation", "urgency"), [(1, Urgency.ROUTINE), (2, Urgency.SPEC), (None, Urgency.SPEC)]
)
def test_a_spec_that_the_status_tells_of_is_no_new_one(
    generation: int | None, urgency: Urgency
) -> None:
    store, told = overheard()
    body = model(status={"observedGeneration": 1})
    if generation:
        body["metadata"]["generation"] = generation

    store.put_model(body)

    assert told == [urgency]


def test_what_our_own_apply_returned_is_no_news_and_neither_is_its_event(told: Told) -> None:
    body = {"metadata": {**owned("iris"), "labels": LABELS}, "spec": {}}

    told.services.keep(body)
    told.services.put(body)

    assert told.keys == []
    assert told.store.child(KEY, "Service", "iris") is not None


def test_a_status_that_is_being_written_is_no_news_when_its_event_comes_first(told: Told) -> None:
    assert told.store.model(KEY)

    with told.store.expecting_status(KEY, {"written": True}):
        told.store.put_model(model(2, status={"written": True}))
        assert told.keys == []
        told.store.put_model(model(3, status={"written": "by somebody else"}))
        assert told.keys == [KEY]
    told.store.put_model(model(4, status={"written": True}))
    assert told.keys == [KEY, KEY]


def test_an_edit_that_comes_with_an_expected_status_is_news(told: Told) -> None:
    assert told.store.model(KEY)

    with told.store.expecting_status(KEY, {"written": True}):
        edited = metadata("iris", 2, generation=2)
        told.store.put_model({"metadata": edited, "spec": {}, "status": {"written": True}})

    assert told.keys == [KEY]


def test_an_edit_that_comes_with_our_own_status_first_is_news(told: Told) -> None:
    record = told.store.model(KEY)
    assert record is not None
    told.store.put_written(record, model(2, status={"written": 1}))
    assert told.keys == []

    edited = metadata("iris", 4, generation=2)
    told.store.put_written(record, {"metadata": edited, "spec": {}, "status": {"written": 2}})
    told.store.put_model({"metadata": metadata("iris", 3, generation=2), "spec": {}})

    assert told.keys == [KEY]
    record = told.store.model(KEY)
    assert record is not None
    assert record.model.generation == 2


def test_a_child_that_is_being_made_is_no_news_when_its_event_comes_first(told: Told) -> None:
    told.keys.clear()
    services = observe.Children("Service", told.store)
    made = {**owned("iris"), "annotations": {"moorage.dev/applied-hash": "h"}}
    other = {**owned("other"), "annotations": {"moorage.dev/applied-hash": "h"}}

    with told.store.expecting_child(KEY, "Service", "iris", "h"):
        services.put({"metadata": made})
        assert told.keys == []
        services.put({"metadata": {**made, "resourceVersion": "2", "annotations": {}}})
        assert told.keys == [KEY]
        services.put({"metadata": other})
        assert told.keys == [KEY, KEY]
    assert told.store.child(KEY, "Service", "iris") is not None


def test_a_model_stays_parsed_while_its_status_alone_changes(told: Told) -> None:
    first = told.store.model(KEY)
    told.store.put_model(model(2, status={"observedGeneration": 1}))
    second = told.store.model(KEY)

    assert first
    assert second
    assert second.model is first.model
    assert (second.resource_version, second.status) == ("2", {"observedGeneration": 1})


@pytest.mark.parametrize(
    "edit",
    [
        {"generation": 2},
        {"deletionTimestamp": NOON},
        {"annotations": {"moorage.dev/rollout-request": "again"}},
        {"annotations": {"moorage.dev/canary-approved": "r"}},
    ],
)
def test_a_model_is_parsed_again_once_more_than_its_status_changes(
    told: Told, edit: dict[str, Any]
) -> None:
    assert told.store.model(KEY)
    body = {"metadata": metadata("iris", 2, **edit), "spec": {"replicas": 3}}
    told.store.put_model(body)

    record = told.store.model(KEY)

    assert record
    assert record.model == v1alpha1.parse(body)


@pytest.mark.parametrize(
    ("status", "urgency"),
    [
        ({"message": "other"}, Urgency.ROUTINE),
        ({"podIP": "10.0.0.1"}, Urgency.READINESS),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, Urgency.READINESS),
        (
            {
                "containerStatuses": [
                    {"name": "runtime", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
                ]
            },
            Urgency.READINESS,
        ),
    ],
)
def test_what_traffic_depends_on_is_more_urgent_than_the_rest(
    status: dict[str, Any], urgency: Urgency
) -> None:
    store, told = overheard()
    pods = observe.Pods(store)
    spec = {"containers": [{"name": "runtime", "image": "i"}]}
    store.put_model(model())
    pods.put({"metadata": metadata("p", labels=LABELS), "spec": spec, "status": {}})

    pods.put({"metadata": metadata("p", 2, labels=LABELS), "spec": spec, "status": status})

    assert told == [Urgency.SPEC, Urgency.ROUTINE, urgency]


@pytest.mark.parametrize(
    ("ready", "urgency"), [("True", Urgency.READINESS), ("False", Urgency.ROUTINE)]
)
def test_a_pod_that_became_ready_while_nobody_watched_is_as_urgent(
    ready: str, urgency: Urgency
) -> None:
    store, told = overheard()
    store.put_model(model())
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    spec = {"containers": [{"name": "runtime", "image": "i"}]}

    observe.Pods(store).put(
        {"metadata": metadata("p", labels=LABELS), "spec": spec, "status": status}
    )

    assert told == [Urgency.SPEC, urgency]


def test_a_model_that_loses_a_child_is_named_for_it_may_be_gone_too(told: Told) -> None:
    told.services.put({"metadata": owned("iris", uid="uid-iris") | {"uid": "s"}, "spec": {}})
    assert told.bereaved == []

    told.services.drop("s", "2")
    told.services.drop("never seen", "2")

    assert told.bereaved == ["uid-iris"]


def test_a_pod_keeps_the_facts_that_status_is_made_from() -> None:
    body = {
        "metadata": metadata(
            "p",
            labels={**LABELS, "pod-template-hash": "h", "moorage.dev/revision": "r"},
            deletionTimestamp=NOON,
        ),
        "spec": {
            "nodeName": "n",
            "initContainers": [{"name": "download", "image": "i"}],
            "containers": [{"name": "side", "image": "s"}, {"name": "runtime", "image": "r:1"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "reason": "Evicted",
            "message": "disk",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": NOON},
                {"type": "PodScheduled", "status": "False", "reason": "Un", "message": "m"},
            ],
            "containerStatuses": [
                {
                    "name": "runtime",
                    "containerID": "containerd://1",
                    "ready": True,
                    "started": True,
                    "restartCount": 2,
                    "state": {"running": {"startedAt": NOON}},
                    "lastState": {
                        "terminated": {
                            "reason": "OOMKilled",
                            "exitCode": 137,
                            "message": "killed",
                            "startedAt": NOON,
                            "finishedAt": NOON,
                        }
                    },
                }
            ],
        },
    }

    assert observe.pod(body) == PodObserved(
        name="p",
        uid="uid-p",
        created=AT_NOON,
        ip="10.0.0.1",
        node="n",
        phase="Running",
        reason="Evicted",
        message="disk",
        ready=True,
        ready_since=AT_NOON,
        deleting=True,
        template_hash="h",
        revision="r",
        scheduled=Scheduled(status=False, reason="Un", message="m"),
        init=(ContainerObserved("download", "i"),),
        runtime=ContainerObserved(
            "runtime",
            "r:1",
            container_id="containerd://1",
            started=True,
            ready=True,
            restart_count=2,
            running_since=AT_NOON,
            last_terminated_reason="OOMKilled",
            last_terminated_exit_code=137,
            last_terminated_message="killed",
            last_terminated_started_at=AT_NOON,
            last_terminated_at=AT_NOON,
        ),
    )


def test_a_pod_that_no_kubelet_has_seen_is_pending() -> None:
    found = observe.pod({"metadata": metadata("p"), "spec": {"containers": []}})

    assert (found.phase, found.ready, found.scheduled) == ("Pending", False, Scheduled())
    assert found.runtime == ContainerObserved("runtime")


def deployment_of(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            **metadata("d", generation=3),
            "annotations": {"moorage.dev/applied-hash": "h"},
        },
        "spec": {"template": {"metadata": {"labels": {"moorage.dev/revision": "r1"}}}},
        "status": {"observedGeneration": 2, **status},
    }


def test_a_deployment_keeps_its_rollout() -> None:
    stuck = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}

    assert observe.deployment(deployment_of(conditions=[stuck, refused])) == DeploymentObserved(
        "uid-d",
        generation=3,
        observed_generation=2,
        applied_hash="h",
        conditions=(
            DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded"),
            DeploymentCondition("ReplicaFailure", status=True, reason="FailedCreate"),
        ),
        revision="r1",
    )


def test_what_a_deployment_counts_on_its_way_is_no_news() -> None:
    progress = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
    available = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}
    counted = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "readyReplicas": 1}

    assert observe.deployment(
        deployment_of(conditions=[progress, available], **counted)
    ) == observe.deployment(deployment_of())


def test_what_concerns_a_model_is_told_under_its_key(told: Told) -> None:
    told.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    told.deployments.put({"metadata": owned("iris")})
    told.services.put({"metadata": {**owned("iris"), "uid": "uid-service"}})

    assert told.keys == [KEY] * 3
    assert told.pods == ["uid-p"]
    observed = told.store.observed(KEY)
    assert [pod.name for pod in observed.pods] == ["p"]
    assert isinstance(observed.deployment, DeploymentObserved)
    assert set(observed.children) == {("Deployment", "iris"), ("Service", "iris")}
    assert observed.children["Deployment", "iris"] == observed.deployment


def test_an_object_that_comes_again_unchanged_tells_nobody(told: Told) -> None:
    for _ in range(2):
        told.pods_sink.put({"metadata": metadata("p"), "spec": {}})
        told.deployments.put({"metadata": owned("iris")})
        told.store.put_model(model())

    assert told.keys == [KEY] * 2


def test_an_older_echo_does_not_undo_a_newer_write(told: Told) -> None:
    told.store.put_model(model(9, status={"newer": True}))
    told.store.put_model(model(5, status={"newer": False}))
    for version, generation in ((9, 1), (10, 2), (9, 1)):
        told.deployments.put({"metadata": {**owned("iris", version), "generation": generation}})

    observed = told.store.observed(KEY)
    assert observed.status == {"newer": True}
    assert observed.deployment is not None
    assert observed.deployment.generation == 2


def test_a_recreated_model_is_another_one_whatever_its_version(told: Told) -> None:
    told.store.put_refusal(KEY, Refusal("Service", "iris", "h", 422, "Invalid", "m"))
    told.store.put_model(model(1, uid="other"))

    assert told.store.observed(KEY).refusals == ()
    told.store.drop_model(KEY, "uid-iris")  # the late DELETED of the former one
    record = told.store.model(KEY)
    assert record is not None
    assert record.model.uid == "other"


def test_the_echo_of_a_write_does_not_bring_a_dropped_model_back(told: Told) -> None:
    told.store.put_model(model(1))
    record = told.store.model(KEY)
    assert record is not None
    told.store.put_written(record, model(2, status={"written": True}))
    assert told.store.observed(KEY).status == {"written": True}

    told.store.drop_model(KEY, "uid-iris")  # gone, or served by another installation
    told.store.put_written(record, model(3))

    assert told.store.model(KEY) is None


def test_children_of_another_owner_are_not_observed(told: Told) -> None:
    told.deployments.put({"metadata": owned("iris", uid="somebody")})

    assert told.store.observed(KEY).deployment is None
    assert told.store.child(KEY, "Deployment", "iris") is not None


def test_several_children_of_a_kind_are_kept_apart_by_name(told: Told) -> None:
    told.deployments.put({"metadata": owned("iris-next"), "spec": {"replicas": 2}})
    told.deployments.put({"metadata": owned("iris"), "spec": {"replicas": 1}})

    observed = told.store.observed(KEY)
    assert set(observed.children) == {("Deployment", "iris"), ("Deployment", "iris-next")}
    assert observed.deployment is not None
    assert observed.deployment.uid == "uid-iris"


def test_a_kind_that_comes_or_goes_concerns_every_model(told: Told) -> None:
    told.store.put_available_kinds(frozenset({"ScaledObject"}))
    told.store.put_available_kinds(frozenset({"ScaledObject"}))

    assert told.keys == [KEY]
    assert told.store.observed(KEY).available_kinds == {"ScaledObject"}


def test_a_dropped_pod_takes_its_answers_along(told: Told) -> None:
    told.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    result = ProbeResult("uid-p", "c", AT_NOON)
    told.store.put_probe(KEY, result)
    assert told.store.observed(KEY).probes == {"uid-p": result}

    told.pods_sink.drop("uid-p")
    told.keys.clear()
    told.store.put_probe(KEY, result)  # an answer that was under way

    assert told.store.observed(KEY).probes == {}
    assert told.keys == []


def test_an_answer_to_an_apply_brings_no_child_back_that_was_deleted_meanwhile(told: Told) -> None:
    told.services.put({"metadata": owned("iris", 2)})
    told.services.drop("uid-iris", "3")
    told.keys.clear()

    told.services.keep({"metadata": owned("iris", 1)})

    assert told.store.child(KEY, "Service", "iris") is None
    assert told.keys == [KEY]  # its pass takes it for there, so another has to look


def test_an_answer_brings_a_child_back_that_had_only_lost_its_label(told: Told) -> None:
    told.services.put({"metadata": owned("iris", 1)})
    told.services.drop("uid-iris", "2")

    told.services.keep({"metadata": owned("iris", 3)})

    assert told.store.child(KEY, "Service", "iris") is not None


def test_a_child_that_loses_its_label_is_gone_for_its_model(told: Told) -> None:
    told.services.put({"metadata": owned("iris")})
    told.keys.clear()

    told.services.put({"metadata": {**owned("iris", 2), "labels": {}}})

    assert told.keys == [KEY]
    assert told.store.child(KEY, "Service", "iris") is None


def test_a_pod_is_asked_again_when_it_moves_and_not_when_it_only_changes(told: Told) -> None:
    spec = {"containers": [{"name": "runtime"}]}
    told.pods_sink.put({"metadata": metadata("p"), "spec": spec})
    told.pods.clear()

    told.pods_sink.put({"metadata": metadata("p"), "spec": spec, "status": {"message": "m"}})
    assert told.pods == []

    told.pods_sink.put({"metadata": metadata("p"), "spec": spec, "status": {"podIP": "10.0.0.9"}})
    assert told.pods == ["uid-p"]


def test_references_are_kept_while_the_model_is_there(told: Told) -> None:
    states = {Reference(ReferenceKind.SECRET, "s"): ReferenceState.MISSING}
    told.store.put_references(KEY, states)
    told.store.put_references(KEY, dict(states))
    assert told.keys == [KEY]
    assert told.store.observed(KEY).references == states

    told.store.drop_model(KEY, "uid-iris")
    told.store.put_references(KEY, states)

    assert told.store.observed(KEY).references == {}


def test_a_long_name_finds_its_children_by_the_shortened_label() -> None:
    told, name = Told(), "m" * 80
    told.store.put_model({"metadata": {**metadata("x"), "name": name}, "spec": {}})
    key = ObjectKey("ns", name)
    marks = {**LABELS, "moorage.dev/model": labels.model_value(name)}
    told.pods_sink.put({"metadata": metadata("p", labels=marks), "spec": {}})

    assert told.keys == [key, key]
    assert len(told.store.observed(key).pods) == 1


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("9", "9", False),
        ("a", "b", True),
        ("a", "a", False),
    ],
)
def test_versions_compare_as_numbers(version: str, than: str, expected: bool) -> None:
    assert is_newer(version, than) is expected
