"""API objects in the store, and the observations that it returns."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from moorage_operator.api import labels, names, v1alpha1
from moorage_operator.kube.versions import is_newer
from moorage_operator.store import parse_objects
from moorage_operator.store.store import Store
from moorage_operator.values.answers import ProbeResult
from moorage_operator.values.objects import (
    ContainerObserved,
    DeploymentCondition,
    DeploymentObserved,
    PodObserved,
    Scheduled,
)
from moorage_operator.values.observed import (
    ObjectKey,
    Reference,
    ReferenceKind,
    ReferenceState,
    Refusal,
)
from moorage_operator.values.urgency import Urgency

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
    owner = {"kind": "InferenceModel", "name": "iris", "uid": uid, "controller": True}
    return metadata(name, version, ownerReferences=[owner])


class Recorder:
    def __init__(self) -> None:
        self.keys: list[ObjectKey] = []
        self.urgencies: list[Urgency] = []
        self.pods: list[str] = []
        self.without_child: list[str] = []
        self.store = Store(
            changed=self._changed,
            pod_moved=self.pods.append,
            child_gone=self.without_child.append,
        )
        self.pods_sink = parse_objects.Pods(self.store)
        self.deployments = parse_objects.Children("Deployment", self.store)
        self.services = parse_objects.Children("Service", self.store)

    def _changed(self, key: ObjectKey, urgency: Urgency) -> None:
        self.keys.append(key)
        self.urgencies.append(urgency)


@pytest.fixture
def recorder() -> Recorder:
    made = Recorder()
    made.store.put_model(model())
    made.keys.clear()
    made.urgencies.clear()
    return made


def pod_named(name: str, **status: Any) -> dict[str, Any]:
    """A pod of iris that the Deployment of the model created."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "iris-h", "controller": True}
    marks = {**LABELS, "pod-template-hash": "h", "moorage.dev/revision": "r"}
    about = metadata(name, labels=marks, ownerReferences=[owner])
    return {"metadata": about, "spec": {}, "status": status}


def put_written_after_an_edit(recorder: Recorder) -> None:
    record = recorder.store.model(KEY)
    assert record is not None
    recorder.store.put_written(record, {"metadata": metadata("iris", 3, generation=2), "spec": {}})


def drop_then_keep(recorder: Recorder) -> None:
    recorder.services.put({"metadata": owned("iris", 2)})
    recorder.services.drop("uid-iris", "3")
    recorder.urgencies.clear()
    recorder.services.keep({"metadata": owned("iris", 1)})


def drop_pod(recorder: Recorder) -> None:
    recorder.pods_sink.put(pod_named("p"))
    recorder.urgencies.clear()
    recorder.pods_sink.drop("uid-p")


def drop_service(recorder: Recorder) -> None:
    recorder.services.put({"metadata": owned("iris")})
    recorder.urgencies.clear()
    recorder.services.drop("uid-iris", "2")


SECRET = {Reference(ReferenceKind.SECRET, "s"): ReferenceState.MISSING}
CHANGES: tuple[tuple[Callable[[Recorder], None], Urgency], ...] = (
    (put_written_after_an_edit, Urgency.SPEC),
    (drop_then_keep, Urgency.SPEC),
    (drop_service, Urgency.SPEC),
    (drop_pod, Urgency.READINESS),
    (lambda to: to.store.put_probe(KEY, ProbeResult("uid-p", "c")), Urgency.READINESS),
    (lambda to: to.store.drop_model(KEY, "uid-iris"), Urgency.ROUTINE),
    (lambda to: to.store.put_available_kinds(frozenset({"HTTPRoute"})), Urgency.ROUTINE),
    (lambda to: to.store.put_unreadable_kinds(frozenset({("Service", "")})), Urgency.ROUTINE),
    (lambda to: to.store.put_references(KEY, SECRET), Urgency.ROUTINE),
)


@pytest.mark.parametrize(("change", "urgency"), CHANGES)
def test_a_change_affects_its_model_and_has_an_urgency(
    recorder: Recorder, change: Callable[[Recorder], None], urgency: Urgency
) -> None:
    change(recorder)

    assert set(recorder.keys) == {KEY}
    assert recorder.urgencies == [urgency]


def store_with_urgencies() -> tuple[Store, list[Urgency]]:
    """Create a store and a list of the urgencies of its changes."""
    urgencies: list[Urgency] = []
    store = Store(
        changed=lambda _, urgency: urgencies.append(urgency),
        pod_moved=lambda _: None,
        child_gone=lambda _: None,
    )
    return store, urgencies


@pytest.mark.parametrize(
    ("generation", "urgency"), [(1, Urgency.ROUTINE), (2, Urgency.SPEC), (None, Urgency.SPEC)]
)
def test_a_spec_is_new_unless_the_status_reports_its_generation(
    generation: int | None, urgency: Urgency
) -> None:
    store, urgencies = store_with_urgencies()
    body = model(status={"observedGeneration": 1})
    if generation:
        body["metadata"]["generation"] = generation

    store.put_model(body)

    assert urgencies == [urgency]


def test_our_own_apply_and_its_event_trigger_no_reconcile(recorder: Recorder) -> None:
    body = {"metadata": {**owned("iris"), "labels": LABELS}, "spec": {}}

    recorder.services.keep(body)
    recorder.services.put(body)

    assert recorder.keys == []
    assert recorder.store.child(KEY, "Service", "iris") is not None


def test_an_edit_that_arrives_before_the_response_to_our_own_apply_triggers_a_reconcile(
    recorder: Recorder,
) -> None:
    body = {"metadata": {**owned("iris"), "labels": LABELS}, "spec": {}}
    applied = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}
    ours = {**body, "metadata": {**body["metadata"], "managedFields": [applied]}}
    edited = {**body, "metadata": {**body["metadata"], "resourceVersion": "2"}}

    with recorder.store.expecting_child(KEY, "Service", "iris", ""):
        recorder.services.put(edited)
        assert recorder.keys == []
        recorder.services.keep(ours)

    assert recorder.keys == [KEY]
    child = recorder.store.child(KEY, "Service", "iris")
    assert child
    assert child.resource_version == "2"


def test_the_event_of_our_own_status_write_triggers_no_reconcile(recorder: Recorder) -> None:
    assert recorder.store.model(KEY)

    with recorder.store.expecting_status(KEY, {"written": True}):
        recorder.store.put_model(model(2, status={"written": True}))
        assert recorder.keys == []
        recorder.store.put_model(model(3, status={"written": "by somebody else"}))
        assert recorder.keys == [KEY]
    recorder.store.put_model(model(4, status={"written": True}))
    assert recorder.keys == [KEY, KEY]


def test_a_restored_etcd_may_have_another_spec_with_the_same_generation(
    recorder: Recorder,
) -> None:
    recorder.store.forget_versions()

    recorder.store.put_model({**model(), "spec": {"replicas": 3}})

    record = recorder.store.model(KEY)
    assert record
    assert record.model.replicas == 3


def test_a_status_write_after_a_restore_has_the_version_seen_before(
    recorder: Recorder,
) -> None:
    recorder.store.forget_versions()

    record = recorder.store.model(KEY)
    assert record
    assert record.resource_version == "1"


def test_a_status_change_keeps_the_parsed_model(recorder: Recorder) -> None:
    before = recorder.store.model(KEY)

    recorder.store.put_model(model(2, status={"replicas": 2}))

    after = recorder.store.model(KEY)
    assert before
    assert after
    assert after.model is before.model
    assert after.status == {"replicas": 2}


def test_an_edit_with_an_expected_status_triggers_a_reconcile(recorder: Recorder) -> None:
    assert recorder.store.model(KEY)

    with recorder.store.expecting_status(KEY, {"written": True}):
        edited = metadata("iris", 2, generation=2)
        recorder.store.put_model({"metadata": edited, "spec": {}, "status": {"written": True}})

    assert recorder.keys == [KEY]


def test_an_edit_that_our_own_status_write_returns_triggers_a_reconcile(
    recorder: Recorder,
) -> None:
    record = recorder.store.model(KEY)
    assert record is not None
    recorder.store.put_written(record, model(2, status={"written": 1}))
    assert recorder.keys == []

    edited = metadata("iris", 4, generation=2)
    recorder.store.put_written(record, {"metadata": edited, "spec": {}, "status": {"written": 2}})
    recorder.store.put_model({"metadata": metadata("iris", 3, generation=2), "spec": {}})

    assert recorder.keys == [KEY]
    record = recorder.store.model(KEY)
    assert record is not None
    assert record.model.generation == 2


def test_the_event_of_a_child_in_creation_triggers_no_reconcile(recorder: Recorder) -> None:
    recorder.keys.clear()
    services = parse_objects.Children("Service", recorder.store)
    made = {**owned("iris"), "annotations": {"moorage.dev/applied-hash": "h"}}
    other = {**owned("other"), "annotations": {"moorage.dev/applied-hash": "h"}}

    with recorder.store.expecting_child(KEY, "Service", "iris", "h"):
        services.put({"metadata": made})
        assert recorder.keys == []
        services.put({"metadata": {**made, "resourceVersion": "2", "annotations": {}}})
        assert recorder.keys == [KEY]
        services.put({"metadata": other})
        assert recorder.keys == [KEY, KEY]
    assert recorder.store.child(KEY, "Service", "iris") is not None


def service(version: int, applied_hash: str) -> dict[str, Any]:
    annotations = {"moorage.dev/applied-hash": applied_hash}
    return {"metadata": {**owned("iris", version), "annotations": annotations}}


@pytest.mark.parametrize(
    ("listed_at", "expected"),
    [
        ("8", "restored"),
        ("6", "restored"),
        ("5", "current"),
        ("", "current"),
    ],
)
def test_an_older_child_counts_only_if_a_list_includes_the_known_one(
    recorder: Recorder, listed_at: str, expected: str
) -> None:
    recorder.services.put(service(6, "current"))

    # A restored etcd has older objects; an event that arrives late has them too.
    recorder.services.put(service(5, "restored"), listed_at=listed_at)

    found = recorder.store.child(KEY, "Service", "iris")
    assert found is not None
    assert found.applied_hash == expected


@pytest.mark.parametrize(
    ("listed_at", "exists"),
    [
        ("8", True),
        ("6", True),
        ("5", False),
        ("", False),
    ],
)
def test_a_deleted_child_exists_again_if_a_later_list_has_it(
    recorder: Recorder, listed_at: str, exists: bool
) -> None:
    recorder.services.put(service(4, "h"))
    recorder.services.drop("uid-iris", "6")

    recorder.services.put(service(5, "h"), listed_at=listed_at)

    assert (recorder.store.child(KEY, "Service", "iris") is not None) is exists


@pytest.mark.parametrize("namespace", ["", "ns"])
@pytest.mark.parametrize("answer", ["before the list", "after the list"])
def test_a_created_child_that_a_list_lacks_was_deleted(
    recorder: Recorder, namespace: str, answer: str
) -> None:
    body = {"metadata": {**owned("iris"), "labels": LABELS}, "spec": {}}

    if answer == "before the list":
        recorder.services.keep(body)
    recorder.services.end_list(namespace, "5")
    if answer == "after the list":
        recorder.services.keep(body)

    assert recorder.store.child(KEY, "Service", "iris") is None
    assert recorder.keys == [KEY]


def test_a_created_child_that_is_newer_than_a_list_or_of_another_kind_exists(
    recorder: Recorder,
) -> None:
    body = {"metadata": {**owned("iris"), "labels": LABELS, "resourceVersion": "6"}, "spec": {}}

    recorder.services.keep(body)
    recorder.services.end_list("", "5")
    recorder.services.end_list("elsewhere", "7")
    recorder.deployments.end_list("", "7")

    assert recorder.store.child(KEY, "Service", "iris") is not None


def test_a_child_that_a_watch_has_shown_is_not_removed_by_the_end_of_a_list(
    recorder: Recorder,
) -> None:
    body = {"metadata": {**owned("iris"), "labels": LABELS}, "spec": {}}

    recorder.services.keep(body)
    recorder.services.put(body)
    recorder.services.end_list("", "5")

    assert recorder.store.child(KEY, "Service", "iris") is not None


def test_a_model_is_not_parsed_again_for_a_status_change(recorder: Recorder) -> None:
    first = recorder.store.model(KEY)
    recorder.store.put_model(model(2, status={"observedGeneration": 1}))
    second = recorder.store.model(KEY)

    assert first
    assert second
    assert second.model is first.model
    assert (second.resource_version, second.status) == ("2", {"observedGeneration": 1})


@pytest.mark.parametrize(
    "edit",
    [
        {"generation": 2},
        {"deletionTimestamp": NOON},
    ],
)
def test_a_model_is_parsed_again_for_any_other_change(
    recorder: Recorder, edit: dict[str, Any]
) -> None:
    assert recorder.store.model(KEY)
    body = {"metadata": metadata("iris", 2, **edit), "spec": {"replicas": 3}}
    recorder.store.put_model(body)

    record = recorder.store.model(KEY)

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
def test_changes_that_affect_traffic_are_more_urgent(
    status: dict[str, Any], urgency: Urgency
) -> None:
    store, urgencies = store_with_urgencies()
    pods = parse_objects.Pods(store)
    spec = {"containers": [{"name": "runtime", "image": "i"}]}
    store.put_model(model())
    pods.put({"metadata": metadata("p", labels=LABELS), "spec": spec, "status": {}})

    pods.put({"metadata": metadata("p", 2, labels=LABELS), "spec": spec, "status": status})

    assert urgencies == [Urgency.SPEC, Urgency.ROUTINE, urgency]


@pytest.mark.parametrize(
    "end",
    [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"phase": "Failed"}, {"phase": "Succeeded"}],
)
def test_the_end_of_a_pod_that_still_reports_ready_is_urgent(end: dict[str, str]) -> None:
    store, urgencies = store_with_urgencies()
    pods = parse_objects.Pods(store)
    spec = {"containers": [{"name": "runtime", "image": "i"}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store.put_model(model())
    pods.put({"metadata": metadata("p", labels=LABELS), "spec": spec, "status": status})
    urgencies.clear()

    ended = metadata("p", 2, labels=LABELS)
    if "phase" in end:
        status = {**status, **end}
    else:
        ended = {**ended, **end}
    pods.put({"metadata": ended, "spec": spec, "status": status})

    assert urgencies == [Urgency.READINESS]


@pytest.mark.parametrize(
    ("ready", "urgency"), [("True", Urgency.READINESS), ("False", Urgency.ROUTINE)]
)
def test_a_new_pod_that_is_ready_is_urgent(ready: str, urgency: Urgency) -> None:
    store, urgencies = store_with_urgencies()
    store.put_model(model())
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    spec = {"containers": [{"name": "runtime", "image": "i"}]}

    parse_objects.Pods(store).put(
        {"metadata": metadata("p", labels=LABELS), "spec": spec, "status": status}
    )

    assert urgencies == [Urgency.SPEC, urgency]


def test_a_model_without_its_child_is_reported_because_it_may_be_deleted(
    recorder: Recorder,
) -> None:
    recorder.services.put({"metadata": owned("iris", uid="uid-iris") | {"uid": "s"}, "spec": {}})
    assert recorder.without_child == []

    recorder.services.drop("s", "2")
    recorder.services.drop("never seen", "2")

    assert recorder.without_child == ["uid-iris"]


def test_a_pod_is_converted_with_the_facts_for_the_status() -> None:
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

    assert parse_objects.pod(body) == PodObserved(
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


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([], ""),
        ([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}], ""),
        (
            [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "r",
                    "uid": "u",
                    "controller": True,
                }
            ],
            "r",
        ),
        (
            [
                {
                    "apiVersion": "example.com/v1",
                    "kind": "ReplicaSet",
                    "name": "r",
                    "uid": "u",
                    "controller": True,
                }
            ],
            "",
        ),
    ],
)
def test_a_pod_belongs_to_the_replica_set_that_controls_it(
    owners: list[Any], expected: str
) -> None:
    body = {"metadata": {**metadata("p"), "ownerReferences": owners}}

    assert parse_objects.pod(body).replica_set == expected


def test_a_pod_without_a_kubelet_is_pending() -> None:
    found = parse_objects.pod({"metadata": metadata("p"), "spec": {"containers": []}})

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


def test_a_deployment_is_converted_with_its_rollout() -> None:
    stuck = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}

    assert parse_objects.deployment(
        deployment_of(conditions=[stuck, refused])
    ) == DeploymentObserved(
        "uid-d",
        generation=3,
        observed_generation=2,
        applied_hash="h",
        conditions=(
            DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded"),
            DeploymentCondition("ReplicaFailure", status=True, reason="FailedCreate"),
        ),
        revision="r1",
        is_uniform=False,
    )


def test_pods_that_start_do_not_change_what_is_known_of_a_deployment() -> None:
    progress = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
    available = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}
    counted = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1, "readyReplicas": 1}

    assert parse_objects.deployment(
        deployment_of(conditions=[progress, available], **counted)
    ) == parse_objects.deployment(deployment_of())


def test_each_change_is_reported_for_its_model(recorder: Recorder) -> None:
    recorder.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    recorder.deployments.put({"metadata": owned("iris")})
    recorder.services.put({"metadata": {**owned("iris"), "uid": "uid-service"}})

    assert recorder.keys == [KEY] * 3
    assert recorder.pods == ["uid-p"]
    observed = recorder.store.observed(KEY)
    assert [pod.name for pod in observed.pods] == ["p"]
    assert isinstance(observed.deployment, DeploymentObserved)
    assert set(observed.children) == {("Deployment", "iris"), ("Service", "iris")}
    assert observed.children["Deployment", "iris"] == observed.deployment


def test_an_unchanged_object_is_not_reported(recorder: Recorder) -> None:
    for _ in range(2):
        recorder.pods_sink.put({"metadata": metadata("p"), "spec": {}})
        recorder.deployments.put({"metadata": owned("iris")})
        recorder.store.put_model(model())

    assert recorder.keys == [KEY] * 2


def test_an_older_event_does_not_revert_a_newer_write(recorder: Recorder) -> None:
    recorder.store.put_model(model(9, status={"newer": True}))
    recorder.store.put_model(model(5, status={"newer": False}))
    for version, generation in ((9, 1), (10, 2), (9, 1)):
        recorder.deployments.put(
            {"metadata": {**owned("iris", version), "generation": generation}}
        )

    observed = recorder.store.observed(KEY)
    assert observed.status == {"newer": True}
    assert observed.deployment is not None
    assert observed.deployment.generation == 2


def test_a_recreated_model_replaces_the_deleted_one(recorder: Recorder) -> None:
    recorder.store.put_model(model(1))
    previous = recorder.store.model(KEY)
    assert previous is not None
    refusal = Refusal("Service", "iris", "h", 422, "Invalid", "m")
    recorder.store.put_refusal(previous, refusal)
    assert recorder.store.observed(KEY).refusals == (refusal,)
    recorder.store.put_model(model(4, uid="other"))

    assert recorder.store.observed(KEY).refusals == ()
    # A write and a read that were under way.
    recorder.store.put_refusal(previous, refusal)
    recorder.store.put_history(previous, {"r1": None})
    assert recorder.store.observed(KEY).refusals == ()
    assert recorder.store.observed(KEY).history == {}
    # Late events of the previous one: kopf orders the events of one uid only.
    recorder.store.put_model(model(3, status={"observedGeneration": 1}))
    recorder.store.drop_model(KEY, "uid-iris")
    record = recorder.store.model(KEY)
    assert record is not None
    assert record.model.uid == "other"


def test_an_event_of_an_earlier_absence_does_not_drop_a_model(recorder: Recorder) -> None:
    recorder.store.put_model(model(1))
    recorder.store.put_model(model(6, status={"newer": True}))  # read in answer to a conflict

    recorder.store.drop_model(KEY, "uid-iris", "2")  # it had left the selector
    recorder.store.put_model(model(3))

    assert recorder.store.observed(KEY).status == {"newer": True}
    recorder.store.forget_versions()  # etcd was restored
    recorder.store.drop_model(KEY, "uid-iris", "4")
    assert recorder.store.model(KEY) is None


@pytest.mark.parametrize("version", ["6", "7", ""])
def test_the_last_event_of_a_model_drops_it(recorder: Recorder, version: str) -> None:
    recorder.store.put_model(model(6))

    recorder.store.drop_model(KEY, "uid-iris", version)

    assert recorder.store.model(KEY) is None


def test_events_from_before_a_list_without_a_model_do_not_bring_it_back(
    recorder: Recorder,
) -> None:
    recorder.store.put_model(model(3))
    recorder.store.drop_model(KEY, "uid-iris", "6")

    recorder.store.put_model(model(6))
    assert recorder.store.model(KEY) is None

    recorder.store.put_model(model(7))  # it moved back
    assert recorder.store.model(KEY) is not None
    recorder.store.forget_versions()  # etcd was restored
    recorder.store.put_model(model(2))
    assert recorder.store.model(KEY) is not None


def test_a_model_that_is_gone_is_known_again_after_a_restore_of_etcd(recorder: Recorder) -> None:
    recorder.store.put_model(model(3))
    recorder.store.drop_model(KEY, "uid-iris", "6")
    recorder.store.forget_versions()

    recorder.store.put_model(model(5))

    assert recorder.store.model(KEY) is not None


def test_the_deletion_of_an_unknown_model_changes_nothing() -> None:
    store, urgencies = store_with_urgencies()

    store.drop_model(KEY, "uid-iris", "6")

    assert urgencies == []


def test_only_the_last_dropped_models_are_remembered(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_operator.store.store.GONE", 2)
    for uid in ("a", "b", "c"):
        recorder.store.put_model(model(3, uid=uid))
        recorder.store.drop_model(KEY, uid, "6")

    assert list(recorder.store._left) == ["b", "c"]


def test_the_answer_to_a_write_does_not_restore_a_dropped_model(recorder: Recorder) -> None:
    recorder.store.put_model(model(1))
    record = recorder.store.model(KEY)
    assert record is not None
    recorder.store.put_written(record, model(2, status={"written": True}))
    assert recorder.store.observed(KEY).status == {"written": True}

    recorder.store.drop_model(KEY, "uid-iris")  # deleted, or served by another installation
    recorder.store.put_written(record, model(3))

    assert recorder.store.model(KEY) is None


def test_children_of_another_owner_are_not_observed(recorder: Recorder) -> None:
    recorder.deployments.put({"metadata": owned("iris", uid="somebody")})

    assert recorder.store.observed(KEY).deployment is None
    assert recorder.store.child(KEY, "Deployment", "iris") is not None


def test_children_of_a_kind_are_stored_by_name(recorder: Recorder) -> None:
    recorder.deployments.put({"metadata": owned("iris-next"), "spec": {"replicas": 2}})
    recorder.deployments.put({"metadata": owned("iris"), "spec": {"replicas": 1}})

    observed = recorder.store.observed(KEY)
    assert set(observed.children) == {("Deployment", "iris"), ("Deployment", "iris-next")}
    assert observed.deployment is not None
    assert observed.deployment.uid == "uid-iris"


def test_a_change_of_the_available_kinds_affects_every_model(recorder: Recorder) -> None:
    assert recorder.store.observed(KEY).available_kinds == frozenset()
    recorder.store.put_available_kinds(frozenset({"ScaledObject"}))
    recorder.store.put_available_kinds(frozenset({"ScaledObject"}))

    assert recorder.keys == [KEY]
    assert recorder.store.observed(KEY).available_kinds == {"ScaledObject"}


def test_kinds_that_may_not_be_read_affect_the_models_of_their_namespaces(
    recorder: Recorder,
) -> None:
    services, routes = ("Service", "ns"), ("HTTPRoute", "")
    elsewhere = ("Ingress", "elsewhere")
    put = recorder.store.put_unreadable_kinds

    put(frozenset({elsewhere}))
    assert recorder.keys == []
    put(frozenset({elsewhere, services, routes}))
    put(frozenset({elsewhere, services, routes}))
    assert recorder.keys == [KEY]
    assert recorder.store.observed(KEY).unreadable_kinds == {"Service", "HTTPRoute"}
    put(frozenset({elsewhere, services}))
    assert recorder.keys == [KEY, KEY]
    put(frozenset({services}))
    assert recorder.keys == [KEY, KEY]
    put(frozenset())
    assert recorder.keys == [KEY, KEY, KEY]
    assert recorder.store.observed(KEY).unreadable_kinds == set()


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        ({"image": "example/server:1"}, b""),
        ({"image": "example/server:1", "name": "triton"}, None),
        ({"name": "triton"}, None),
        ({}, None),
    ],
)
def test_the_spec_of_a_model_that_may_take_a_runtime_is_kept(
    recorder: Recorder, runtime: dict[str, str], expected: bytes | None
) -> None:
    spec = {"runtime": runtime} if runtime else {}

    recorder.store.put_model({"metadata": metadata("iris", 2, generation=2), "spec": spec})

    record = recorder.store.model(KEY)
    assert record is not None
    assert record.spec == (msgspec.json.encode(spec) if expected is None else expected)


def test_a_model_that_returns_has_its_children_and_pods_but_no_refusals(
    recorder: Recorder,
) -> None:
    recorder.services.put({"metadata": owned("iris")})
    recorder.pods_sink.put(pod_named("p"))
    record = recorder.store.model(KEY)
    assert record is not None
    recorder.store.put_refusal(record, Refusal("Service", "iris", "h", 422, "Invalid", "m"))
    recorder.store.put_history(record, {"r1": None})

    recorder.store.drop_model(KEY, "uid-iris")
    recorder.store.put_model(model(2))

    observed = recorder.store.observed(KEY)
    assert set(observed.children) == {("Service", "iris")}
    assert [pod.name for pod in observed.pods] == ["p"]
    assert (observed.refusals, observed.history) == ((), {})
    recorder.store.drop_model(KEY, "uid-iris")
    recorder.pods_sink.drop("uid-p")
    recorder.pods_sink.drop("never seen")
    recorder.store.put_model(model(3))
    assert set(recorder.store.observed(KEY).children) == {("Service", "iris")}


def test_a_pod_may_be_seen_before_its_model() -> None:
    recorder = Recorder()
    recorder.pods_sink.put(pod_named("p"))
    assert recorder.keys == []

    recorder.store.put_model(model())
    assert [pod.name for pod in recorder.store.observed(KEY).pods] == ["p"]
    recorder.store.drop_model(KEY, "uid-iris")
    recorder.store.put_model(model(2))
    assert [pod.name for pod in recorder.store.observed(KEY).pods] == ["p"]


def test_another_model_of_the_name_does_not_get_the_history(recorder: Recorder) -> None:
    record = recorder.store.model(KEY)
    assert record is not None
    recorder.store.put_history(record, {"r1": None})
    recorder.store.put_history(record, {"r2": None})
    assert set(recorder.store.observed(KEY).history) == {"r1", "r2"}
    recorder.store.keep_history(KEY, ["r2"])
    assert set(recorder.store.observed(KEY).history) == {"r2"}
    recorder.store.keep_history(KEY, ["r3"])
    assert recorder.store.observed(KEY).history == {}
    recorder.store.put_history(record, {"r2": None})

    recorder.store.put_model(model(4, uid="other"))

    assert recorder.store.observed(KEY).history == {}


def test_a_child_and_a_pod_follow_an_edit_of_their_label(recorder: Recorder) -> None:
    other = {**LABELS, "moorage.dev/model": "other"}
    recorder.services.put({"metadata": metadata("iris")})  # without an owner
    recorder.pods_sink.put(pod_named("p"))
    recorder.pods_sink.put(pod_named("q"))

    recorder.services.put({"metadata": metadata("iris", 2, labels=other)})
    moved = pod_named("p")
    recorder.pods_sink.put({**moved, "metadata": {**moved["metadata"], "labels": other}})

    assert recorder.store.child(KEY, "Service", "iris") is None
    assert recorder.store.child(ObjectKey("ns", "other"), "Service", "iris") is not None
    assert recorder.store.count_pods(KEY) == 1
    assert recorder.store.count_pods(ObjectKey("ns", "other")) == 1
    assert recorder.store.count_pods(ObjectKey("ns", "missing")) == 0


def test_the_addresses_and_deployments_of_pods_are_known(recorder: Recorder) -> None:
    missing = ObjectKey("ns", "missing")
    recorder.pods_sink.put(pod_named("p", podIP="10.0.0.1"))
    ended = pod_named("q")
    ended["metadata"]["deletionTimestamp"] = NOON
    ended["metadata"]["ownerReferences"][0]["name"] = "iris-r-h"
    recorder.pods_sink.put(ended)
    alone = pod_named("s")
    recorder.pods_sink.put({**alone, "metadata": metadata("s")})

    assert recorder.store.addresses(KEY) == ["10.0.0.1"]
    assert recorder.store.deployments_of_pods(KEY) == {"iris"}
    assert recorder.store.addresses(missing) == []
    assert recorder.store.deployments_of_pods(missing) == frozenset()


def test_only_so_many_deleted_children_are_remembered(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_operator.store.store.GONE", 2)
    for name in ("a", "b"):
        recorder.services.drop(f"uid-{name}", "5")
    recorder.services.put({"metadata": owned("a", 4)})
    assert recorder.store.child(KEY, "Service", "a") is None

    recorder.services.drop("uid-c", "5")
    for name in ("a", "b", "c"):
        recorder.services.put({"metadata": owned(name, 4)})

    found = {name for name in "abc" if recorder.store.child(KEY, "Service", name)}
    assert found == {"a"}


def test_a_late_event_does_not_restore_a_child_that_a_list_lacked(recorder: Recorder) -> None:
    recorder.services.keep({"metadata": owned("iris", 2)})
    recorder.services.end_list("", "5")

    recorder.services.put({"metadata": owned("iris", 3)})

    assert recorder.store.child(KEY, "Service", "iris") is None


def test_a_child_that_is_written_again_without_effect_triggers_nothing(
    recorder: Recorder,
) -> None:
    recorder.services.put({"metadata": owned("iris", 2)})
    recorder.keys.clear()

    # An autoscaler wrote a measurement, or the API server stored an equal object.
    recorder.services.put({"metadata": owned("iris", 3)})
    recorder.services.keep({"metadata": owned("iris", 3)})
    recorder.services.put({"metadata": owned("iris", 1)})

    assert recorder.keys == []
    child = recorder.store.child(KEY, "Service", "iris")
    assert child is not None
    assert child.resource_version == "3"


def test_the_answers_of_a_pod_that_a_list_omits_for_a_moment_stay(recorder: Recorder) -> None:
    recorder.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    result, other = ProbeResult("uid-p", "c"), ProbeResult("uid-p", "d")
    recorder.store.put_probe(KEY, result)
    assert recorder.store.observed(KEY).probes == {"uid-p": result}

    # A list from a lagging API server may omit a pod that the next event brings back.
    recorder.pods_sink.drop("uid-p")
    assert recorder.store.observed(KEY).probes == {}
    recorder.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    assert recorder.store.observed(KEY).probes == {"uid-p": result}

    recorder.pods_sink.drop("uid-p")
    recorder.store.put_probe(KEY, other)
    recorder.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    assert recorder.store.observed(KEY).probes == {"uid-p": other}


def test_the_answers_of_a_pod_that_is_no_longer_polled_are_removed(recorder: Recorder) -> None:
    recorder.pods_sink.put({"metadata": metadata("p"), "spec": {}})
    recorder.store.put_probe(KEY, ProbeResult("uid-p", "c"))

    recorder.store.forget_probe("uid-p")
    recorder.store.forget_probe("never polled")

    assert recorder.store.observed(KEY).probes == {}


def test_the_answer_to_an_apply_does_not_restore_a_deleted_child(recorder: Recorder) -> None:
    recorder.services.put({"metadata": owned("iris", 2)})
    recorder.services.drop("uid-iris", "3")
    recorder.keys.clear()

    recorder.services.keep({"metadata": owned("iris", 1)})

    assert recorder.store.child(KEY, "Service", "iris") is None
    assert recorder.keys == [
        KEY
    ]  # its reconcile assumes that the child exists, so another is needed


def test_the_answer_to_an_apply_restores_a_child_that_only_lost_its_label(
    recorder: Recorder,
) -> None:
    recorder.services.put({"metadata": owned("iris", 1)})
    recorder.services.drop("uid-iris", "2")

    recorder.services.keep({"metadata": owned("iris", 3)})

    assert recorder.store.child(KEY, "Service", "iris") is not None


def test_a_child_without_its_label_still_belongs_to_its_model(recorder: Recorder) -> None:
    recorder.services.put({"metadata": owned("iris")})
    recorder.keys.clear()

    recorder.services.put({"metadata": {**owned("iris", 2), "labels": {}}})

    assert recorder.store.child(KEY, "Service", "iris") is not None


def test_a_child_without_an_owner_belongs_to_the_model_of_its_label(recorder: Recorder) -> None:
    body = {"metadata": {**owned("iris"), "ownerReferences": []}}
    recorder.services.put(body)
    assert recorder.store.child(KEY, "Service", "iris") is not None

    recorder.services.put({"metadata": {**body["metadata"], "resourceVersion": "9", "labels": {}}})
    assert recorder.store.child(KEY, "Service", "iris") is None


def test_only_a_relevant_change_of_a_pod_triggers_a_poll(recorder: Recorder) -> None:
    spec = {"containers": [{"name": "runtime"}]}
    recorder.pods_sink.put({"metadata": metadata("p"), "spec": spec})
    recorder.pods.clear()

    recorder.pods_sink.put({"metadata": metadata("p"), "spec": spec, "status": {"message": "m"}})
    assert recorder.pods == []

    recorder.pods_sink.put(
        {"metadata": metadata("p"), "spec": spec, "status": {"podIP": "10.0.0.9"}}
    )
    assert recorder.pods == ["uid-p"]


def test_references_are_stored_until_the_model_is_dropped(recorder: Recorder) -> None:
    states = {Reference(ReferenceKind.SECRET, "s"): ReferenceState.MISSING}
    recorder.store.put_references(KEY, {})
    assert recorder.keys == []
    recorder.store.put_references(KEY, states)
    recorder.store.put_references(KEY, dict(states))
    assert recorder.keys == [KEY]
    assert recorder.store.observed(KEY).references == states

    recorder.store.drop_model(KEY, "uid-iris")
    recorder.store.put_references(KEY, states)

    assert recorder.store.observed(KEY).references == {}


def test_a_long_name_matches_its_children_by_the_shortened_label() -> None:
    recorder, name = Recorder(), "m" * 80
    recorder.store.put_model({"metadata": {**metadata("x"), "name": name}, "spec": {}})
    key = ObjectKey("ns", name)
    marks = {**LABELS, "moorage.dev/model": labels.model_value(name)}
    recorder.pods_sink.put({"metadata": metadata("p", labels=marks), "spec": {}})

    assert recorder.keys == [key, key]
    assert len(recorder.store.observed(key).pods) == 1


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
