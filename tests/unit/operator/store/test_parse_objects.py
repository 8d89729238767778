"""Objects as an API server writes them, and the values that a plan gets of them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.store import parse_objects
from moorage_operator.values.objects import (
    OWNER,
    ChildObserved,
    ContainerObserved,
    DeploymentCondition,
    DeploymentObserved,
    IngressObserved,
    LoadBalancerPoint,
    PodObserved,
    RouteObserved,
    RouteParent,
    Scheduled,
)

MODEL = {
    "kind": "InferenceModel",
    "apiVersion": "moorage.dev/v1alpha1",
    "name": "iris",
    "uid": "uid-iris",
    "controller": True,
}
REPLICA_SET = {
    "kind": "ReplicaSet",
    "apiVersion": "apps/v1",
    "name": "iris-5d8c",
    "uid": "uid-rs",
    "controller": True,
}
OTHER = {"kind": "Fleet", "apiVersion": "example.com/v1", "name": "all", "uid": "uid-fleet"}
HASH = {"moorage.dev/applied-hash": "h1"}


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def moment(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def meta(**more: Any) -> dict[str, Any]:
    return {
        "name": "iris",
        "namespace": "ns",
        "uid": "uid-1",
        "resourceVersion": "7",
        "creationTimestamp": at(1),
        **more,
    }


# ---------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": {"moorage.dev/model": "iris"}}, "iris"),
        ({"labels": {"app": "iris"}}, ""),
        ({"labels": None}, ""),
        ({}, ""),
        ({"ownerReferences": [MODEL]}, ""),
    ],
)
def test_the_place_of_an_object_has_the_label_of_its_model(metadata, expected):
    assert parse_objects.place({"metadata": meta(**metadata)}) == ("ns", expected)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"ownerReferences": [MODEL]}, "iris"),
        ({"ownerReferences": [OTHER, MODEL]}, "iris"),
        ({"ownerReferences": [MODEL], "labels": {"moorage.dev/model": "edited"}}, "iris"),
        ({"ownerReferences": [OTHER], "labels": {"moorage.dev/model": "rose"}}, "rose"),
        (
            {
                "ownerReferences": [{**MODEL, "controller": False}],
                "labels": {"moorage.dev/model": "rose"},
            },
            "rose",
        ),
        ({"ownerReferences": [{**OTHER, "controller": True}]}, ""),
        ({"ownerReferences": None, "labels": {"moorage.dev/model": "rose"}}, "rose"),
        ({}, ""),
    ],
)
def test_the_place_of_a_child_is_that_of_the_model_that_controls_it(metadata, expected):
    assert parse_objects.place_of_child({"metadata": meta(**metadata)}) == ("ns", expected)


# ---------------------------------------------------------------------- pods


def condition(type_: str, status: str, second: int, **more: str) -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": at(second), **more}


def test_every_fact_of_a_pod_is_read():
    found = parse_objects.pod(
        {
            "metadata": meta(
                labels={"pod-template-hash": "5d8c", "moorage.dev/revision": "r1"},
                ownerReferences=[OTHER, REPLICA_SET],
                deletionTimestamp=at(9),
            ),
            "spec": {
                "nodeName": "node-1",
                "schedulerName": "batch",
                "readinessGates": [
                    {"conditionType": "shop.example/routed"},
                    {"conditionType": "moorage.dev/model-ready"},
                ],
                "initContainers": [{"name": "fetch", "image": "fetch:1"}],
                "containers": [{"name": "proxy"}, {"name": "runtime", "image": "server:1"}],
            },
            "status": {
                "podIP": "10.0.0.1",
                "phase": "Running",
                "reason": "Evicted",
                "message": "low on memory",
                "conditions": [
                    condition("Ready", "True", 5),
                    condition("Initialized", "True", 4),
                    condition("PodScheduled", "False", 2, reason="Unschedulable", message="full"),
                    condition("moorage.dev/model-ready", "False", 6),
                ],
                "initContainerStatuses": [{"name": "fetch", "restartCount": 2}],
                "containerStatuses": [
                    {"name": "runtime", "containerID": "containerd://1"},
                    {"name": "proxy", "containerID": "containerd://2"},
                ],
            },
        }
    )

    assert found == PodObserved(
        name="iris",
        uid="uid-1",
        created=moment(1),
        ip="10.0.0.1",
        node="node-1",
        phase="Running",
        reason="Evicted",
        message="low on memory",
        ready=True,
        ready_since=moment(5),
        initialized_since=moment(4),
        gated=True,
        gate_open=False,
        deleting=True,
        template_hash="5d8c",
        revision="r1",
        replica_set="iris-5d8c",
        scheduler="batch",
        scheduled=Scheduled(status=False, reason="Unschedulable", message="full", since=moment(2)),
        init=(ContainerObserved("fetch", image="fetch:1", restart_count=2),),
        runtime=ContainerObserved("runtime", image="server:1", container_id="containerd://1"),
    )


COLLECTED = condition(
    "DisruptionTarget",
    "True",
    5,
    reason="DeletionByPodGC",
    message="PodGC: node no longer exists",
)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [COLLECTED]}, ("DeletionByPodGC", "PodGC: node no longer exists")),
        ({"conditions": [{**COLLECTED, "status": "False"}]}, ("", "")),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, ("", "")),
        ({"conditions": [COLLECTED], "reason": "Evicted"}, ("Evicted", "")),
        ({"conditions": [COLLECTED], "message": "disk is full"}, ("", "disk is full")),
    ],
)
def test_a_pod_whose_kubelet_says_nothing_ended_for_the_reason_of_its_disruption(status, expected):
    found = parse_objects.pod({"metadata": meta(), "status": {"phase": "Failed", **status}})

    assert (found.reason, found.message) == expected


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"spec": {}, "status": {}},
        {
            "spec": {"readinessGates": None, "initContainers": None, "containers": None},
            "status": {
                "conditions": None,
                "initContainerStatuses": None,
                "containerStatuses": None,
            },
        },
    ],
)
def test_a_pod_that_no_kubelet_has_seen_has_only_a_name(parts):
    found = parse_objects.pod({"metadata": meta(labels=None, ownerReferences=None), **parts})

    assert found == PodObserved("iris", "uid-1", moment(1))


@pytest.mark.parametrize(("status", "expected"), [("False", "unready: [proxy]"), ("True", "")])
def test_the_reason_of_a_pod_that_is_not_ready_is_read(status, expected):
    conditions = [condition("Ready", status, 3, message="unready: [proxy]")]

    found = parse_objects.pod({"metadata": meta(), "status": {"conditions": conditions}})

    assert found.unready_message == expected


@pytest.mark.parametrize(
    ("status", "ready", "verdict"),
    [("True", True, True), ("False", False, False), ("Unknown", False, None)],
)
def test_a_condition_of_a_pod_is_true_false_or_unknown(status, ready, verdict):
    types = ("Ready", "PodScheduled", "moorage.dev/model-ready")
    conditions = [condition(type_, status, 3) for type_ in types]

    found = parse_objects.pod({"metadata": meta(), "status": {"conditions": conditions}})

    assert (found.ready, found.ready_since) == (ready, moment(3))
    assert found.gate_open is verdict
    assert found.scheduled == Scheduled(verdict, since=moment(3))


def test_a_condition_without_a_status_is_unknown():
    types = ("Ready", "PodScheduled", "moorage.dev/model-ready")
    conditions = [{"type": type_} for type_ in types]

    found = parse_objects.pod({"metadata": meta(), "status": {"conditions": conditions}})

    assert (found.ready, found.ready_since, found.gate_open) == (False, None, None)
    assert found.scheduled == Scheduled()


def test_a_pod_with_gates_of_others_is_not_gated():
    spec = {"readinessGates": [{"conditionType": "shop.example/routed"}]}

    assert not parse_objects.pod({"metadata": meta(), "spec": spec}).gated


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([REPLICA_SET], "iris-5d8c"),
        ([{**REPLICA_SET, "apiVersion": "apps/v1beta2"}], "iris-5d8c"),
        ([{**REPLICA_SET, "controller": False}], ""),
        ([{**REPLICA_SET, "kind": "StatefulSet"}], ""),
        ([{**REPLICA_SET, "apiVersion": "example.com/v1"}], ""),
        ([], ""),
    ],
)
def test_a_pod_belongs_to_the_replica_set_that_controls_it(owners, expected):
    assert parse_objects.pod({"metadata": meta(ownerReferences=owners)}).replica_set == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, {}),
        ({"state": None, "lastState": None}, {}),
        ({"state": {"waiting": None, "running": None, "terminated": None}}, {}),
        ({"lastState": {"terminated": None}}, {}),
        (
            {
                "containerID": "containerd://1",
                "started": True,
                "ready": True,
                "restartCount": 3,
                "state": {"running": {"startedAt": at(2)}},
            },
            {
                "container_id": "containerd://1",
                "started": True,
                "ready": True,
                "restart_count": 3,
                "running_since": moment(2),
            },
        ),
        ({"started": None}, {}),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
            {"waiting_reason": "ImagePullBackOff", "waiting_message": "no such image"},
        ),
        ({"state": {"waiting": {}}}, {}),
        (
            {
                "state": {
                    "terminated": {
                        "reason": "Error",
                        "exitCode": 3,
                        "message": "no file",
                        "startedAt": at(4),
                        "finishedAt": at(5),
                    }
                }
            },
            {
                "terminated_reason": "Error",
                "exit_code": 3,
                "terminated_message": "no file",
                "terminated_started_at": moment(4),
                "terminated_at": moment(5),
            },
        ),
        ({"state": {"terminated": {"exitCode": 0}}}, {"exit_code": 0}),
        (
            {
                "lastState": {
                    "terminated": {
                        "reason": "OOMKilled",
                        "exitCode": 137,
                        "message": "killed",
                        "startedAt": at(6),
                        "finishedAt": at(7),
                    }
                }
            },
            {
                "last_terminated_reason": "OOMKilled",
                "last_terminated_exit_code": 137,
                "last_terminated_message": "killed",
                "last_terminated_started_at": moment(6),
                "last_terminated_at": moment(7),
            },
        ),
        ({"lastState": {"terminated": {"exitCode": 1}}}, {"last_terminated_exit_code": 1}),
    ],
)
def test_the_state_of_a_container_is_read(status, expected):
    spec = {"containers": [{"name": "runtime"}]}
    statuses = [{"name": "runtime", **status}]

    found = parse_objects.pod(
        {"metadata": meta(), "spec": spec, "status": {"containerStatuses": statuses}}
    )

    assert found.runtime == ContainerObserved("runtime", **expected)


def test_a_container_that_its_kubelet_has_not_reported_has_only_what_its_spec_says():
    spec = {"containers": [{"name": "proxy"}, {"name": "runtime", "image": "server:1"}]}
    status = {"containerStatuses": [{"name": "proxy", "restartCount": 1}]}

    found = parse_objects.pod({"metadata": meta(), "spec": spec, "status": status})

    assert found.runtime == ContainerObserved("runtime", image="server:1")


# ---------------------------------------------------------------------- deployments


def managed(manager: str, **spec: Any) -> dict[str, Any]:
    operation = "Apply" if manager == "moorage" else "Update"
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": spec}}


def test_every_fact_of_a_deployment_is_read():
    found = parse_objects.deployment(
        {
            "metadata": meta(
                generation=4,
                annotations=HASH,
                managedFields=[
                    managed("moorage", **{"f:replicas": {}}),
                    managed("kubectl-edit", **{"f:replicas": {}, "f:minReadySeconds": {}}),
                    managed("kubectl-rollout", **{"f:paused": {}}),
                ],
            ),
            "spec": {
                "paused": True,
                "template": {"metadata": {"labels": {"moorage.dev/revision": "r1"}}},
            },
            "status": {
                "observedGeneration": 3,
                "conditions": [
                    {
                        "type": "Progressing",
                        "status": "False",
                        "reason": "ProgressDeadlineExceeded",
                        "message": "timed out",
                        "lastUpdateTime": at(8),
                        "lastTransitionTime": at(2),
                    },
                ],
            },
        }
    )

    assert found == DeploymentObserved(
        uid="uid-1",
        generation=4,
        observed_generation=3,
        applied_hash="h1",
        conditions=(
            DeploymentCondition(
                "Progressing",
                status=False,
                reason="ProgressDeadlineExceeded",
                message="timed out",
                updated=moment(8),
            ),
        ),
        revision="r1",
        foreign=(
            ("spec.minReadySeconds", "kubectl-edit"),
            ("spec.paused", "kubectl-rollout"),
        ),
        is_uniform=False,
    )


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"spec": {}, "status": {}},
        {"spec": {"template": None}, "status": {"conditions": None}},
        {"spec": {"template": {}}},
        {"spec": {"template": {"metadata": None}}},
        {"spec": {"template": {"metadata": {"labels": None}}}},
        {"spec": {"template": {"metadata": {"labels": {}}}}},
    ],
)
def test_a_deployment_that_no_controller_has_seen_has_only_a_uid(parts):
    found = parse_objects.deployment({"metadata": meta(annotations=None), **parts})

    assert found == DeploymentObserved("uid-1", generation=0, is_uniform=False)


APPLIED = {"manager": "moorage", "operation": "Apply"}
OWN_SIZE = {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize(
    ("entry", "size"),
    [
        ({**APPLIED, "fieldsV1": OWN_SIZE}, 3),
        ({**APPLIED, "fieldsV1": {"f:spec": {"f:paused": {}}}}, None),
        ({**APPLIED, "fieldsV1": {"f:metadata": {}}}, None),
        ({**APPLIED}, None),
        ({**APPLIED, "subresource": "scale", "fieldsV1": OWN_SIZE}, None),
        ({**APPLIED, "manager": "kubectl", "fieldsV1": OWN_SIZE}, None),
    ],
)
def test_a_deployment_has_the_size_that_the_operator_set(entry, size):
    other = {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:paused": {}}}}
    body = {"metadata": meta(managedFields=[other, entry]), "spec": {"replicas": 3}}

    assert parse_objects.deployment(body).size == size


def test_a_deployment_is_mixed_while_some_of_its_pods_are_not_updated():
    def is_mixed(**status):
        return parse_objects.deployment({"metadata": meta(), "status": status}).is_mixed

    assert is_mixed(replicas=3, updatedReplicas=2)
    assert is_mixed(replicas=1)
    assert not is_mixed(replicas=2, updatedReplicas=2)
    assert not is_mixed()


@pytest.mark.parametrize(
    ("generation", "replicas", "counts", "expected"),
    [
        (1, 2, {}, True),
        (2, 2, {}, False),
        (2, 0, {}, True),
        (2, 2, {"replicas": 2, "updatedReplicas": 2}, True),
        (2, 2, {"replicas": 2, "updatedReplicas": 1}, False),
        (2, 2, {"replicas": 3, "updatedReplicas": 2}, False),
        (2, 2, {"replicas": 1, "updatedReplicas": 1}, False),
        (2, None, {"replicas": 1, "updatedReplicas": 1}, True),
    ],
)
def test_a_changed_deployment_is_uniform_when_all_its_pods_are_updated(
    generation, replicas, counts, expected
):
    spec = {} if replicas is None else {"replicas": replicas}
    body = {"metadata": meta(generation=generation), "spec": spec, "status": counts}

    assert parse_objects.deployment(body).is_uniform is expected


@pytest.mark.parametrize(
    ("type_", "status", "is_kept"),
    [
        ("Progressing", "False", True),
        ("Progressing", "True", False),
        ("Progressing", "Unknown", False),
        ("ReplicaFailure", "True", True),
        ("ReplicaFailure", "False", False),
        ("ReplicaFailure", "Unknown", False),
        ("Available", "True", False),
        ("Available", "False", False),
    ],
)
def test_only_conditions_that_report_a_problem_are_kept(type_, status, is_kept):
    status_of = {"conditions": [{"type": type_, "status": status}]}

    found = parse_objects.deployment({"metadata": meta(), "status": status_of})

    assert [each.type for each in found.conditions] == ([type_] if is_kept else [])


@pytest.mark.parametrize("paused", [{}, {"paused": False}])
def test_a_pause_that_has_ended_is_not_foreign(paused):
    fields = [managed("kubectl-rollout", **{"f:paused": {}, "f:replicas": {}})]

    found = parse_objects.deployment({"metadata": meta(managedFields=fields), "spec": paused})

    assert found.foreign == (("spec.replicas", "kubectl-rollout"),)


# ---------------------------------------------------------------------- other children


def test_every_fact_of_an_autoscaler_is_read():
    status = {
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "fine"},
            {"type": "ScalingActive", "status": "Unknown"},
            {"type": "Limited"},
        ]
    }

    found = parse_objects.autoscaler({"metadata": meta(annotations=HASH), "status": status})

    assert found == ChildObserved(
        "uid-1",
        "h1",
        (
            DeploymentCondition("AbleToScale", status=True, reason="Ready", message="fine"),
            DeploymentCondition("ScalingActive", None),
            DeploymentCondition("Limited", None),
        ),
    )


@pytest.mark.parametrize("parts", [{}, {"status": None}, {"status": {"conditions": None}}])
def test_an_autoscaler_that_has_not_measured_has_no_conditions(parts):
    assert parse_objects.autoscaler({"metadata": meta(), **parts}) == ChildObserved("uid-1")


GATEWAY = {"parentRef": {"name": "web"}}


def test_every_fact_of_a_route_is_read():
    ref = {"name": "web", "namespace": "gateways", "sectionName": "https"}
    conditions = [
        {"type": "Accepted", "status": "True", "observedGeneration": 5},
        {"type": "ResolvedRefs", "status": "False", "observedGeneration": 3},
    ]

    found = parse_objects.route(
        {
            "metadata": meta(generation=5, annotations=HASH),
            "status": {"parents": [{"parentRef": ref, "conditions": conditions}, GATEWAY]},
        }
    )

    accepted = (
        DeploymentCondition("Accepted", status=True),
        DeploymentCondition("ResolvedRefs", status=False),
    )
    assert found == RouteObserved(
        "uid-1",
        "h1",
        generation=5,
        parents=(
            RouteParent("web", "gateways", "https", observed_generation=3, conditions=accepted),
            RouteParent("web", "ns"),
        ),
    )


def test_a_condition_of_a_route_without_a_generation_is_of_none():
    conditions = [{"type": "Accepted", "observedGeneration": 5}, {"type": "ResolvedRefs"}]
    status = {"parents": [{**GATEWAY, "conditions": conditions}]}

    found = parse_objects.route({"metadata": meta(), "status": status})

    assert found.parents[0].observed_generation == 0


def test_other_conditions_of_a_controller_are_not_read():
    generation = {"status": "True", "observedGeneration": 5}
    conditions = [
        {"type": "Accepted", **generation},
        {"type": "ResolvedRefs", **generation},
        {"type": "example.com/PolicyAffected", "status": "False"},
    ]
    status = {"parents": [{**GATEWAY, "conditions": conditions}]}

    found = parse_objects.route({"metadata": meta(generation=5), "status": status})

    assert found.parents[0].observed_generation == 5
    assert [each.type for each in found.parents[0].conditions] == ["Accepted", "ResolvedRefs"]


@pytest.mark.parametrize("parts", [{}, {"status": None}, {"status": {"parents": None}}])
def test_a_route_that_no_gateway_has_seen_has_no_parents(parts):
    assert parse_objects.route({"metadata": meta(), **parts}) == RouteObserved("uid-1")


def test_every_fact_of_an_ingress_is_read():
    points = [
        {"hostname": "lb.example.com", "ip": "10.0.0.1", "ports": [{"port": 80}, {"port": 443}]},
        {"ip": "10.0.0.2", "ports": None},
        {"ports": [{"port": 80}]},
    ]
    status = {"loadBalancer": {"ingress": points}}

    found = parse_objects.ingress({"metadata": meta(annotations=HASH), "status": status})

    assert found == IngressObserved(
        "uid-1",
        "h1",
        points=(
            LoadBalancerPoint("lb.example.com", (80, 443)),
            LoadBalancerPoint("10.0.0.2"),
        ),
    )


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"status": None},
        {"status": {"loadBalancer": None}},
        {"status": {"loadBalancer": {"ingress": None}}},
    ],
)
def test_an_ingress_that_no_controller_has_seen_has_no_addresses(parts):
    assert parse_objects.ingress({"metadata": meta(), **parts}) == IngressObserved("uid-1")


# ---------------------------------------------------------------------- what they share


def test_every_fact_of_a_child_is_read():
    fields = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"uid-iris"}': {}}}}
    entry = {"manager": "moorage", "operation": "Apply", "fieldsV1": fields}

    found = parse_objects.child(
        "Service",
        {
            "metadata": meta(
                annotations=HASH,
                ownerReferences=[OTHER, MODEL],
                managedFields=[entry],
                deletionTimestamp=at(9),
            )
        },
    )

    text = f'{{"f:metadata":{{"f:ownerReferences":{{"k:{{\\"uid\\":\\"{OWNER}\\"}}":{{}}}}}}}}'
    assert (found.kind, found.name, found.uid) == ("Service", "iris", "uid-1")
    assert (found.resource_version, found.owner_uid) == ("7", "uid-iris")
    assert found.applied_state == ("uid-iris", "h1", True, text)
    assert found.fields == text.replace(OWNER, "uid-iris").encode()
    assert found.observed == ChildObserved("uid-1", "h1")


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([MODEL], "uid-iris"),
        ([OTHER, MODEL], "uid-iris"),
        ([OTHER], "uid-fleet"),
        ([OTHER, {**MODEL, "controller": False}], "uid-fleet"),
        ([], ""),
        (None, ""),
    ],
)
def test_the_owner_of_a_child_is_its_controller_or_another_owner(owners, expected):
    found = parse_objects.child("Service", {"metadata": meta(ownerReferences=owners)})

    assert found.owner_uid == expected
    assert not found.deleting


def test_the_fields_of_a_child_without_an_owner_are_unchanged():
    entry = {"manager": "moorage", "operation": "Apply", "fieldsV1": {"f:spec": {}}}

    found = parse_objects.child("Service", {"metadata": meta(managedFields=[entry])})

    assert found.common_fields == '{"f:spec":{}}'


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("Deployment", DeploymentObserved),
        ("HorizontalPodAutoscaler", ChildObserved),
        ("ScaledObject", ChildObserved),
        ("HTTPRoute", RouteObserved),
        ("GRPCRoute", RouteObserved),
        ("Ingress", IngressObserved),
        ("Service", ChildObserved),
        ("NetworkPolicy", ChildObserved),
    ],
)
def test_each_kind_has_a_value_of_its_own(kind, type_):
    status = {"conditions": [{"type": "Ready", "status": "True"}]}

    observed = parse_objects.child(kind, {"metadata": meta(), "status": status}).observed

    assert type(observed) is type_
    is_autoscaler = kind in {"HorizontalPodAutoscaler", "ScaledObject"}
    assert bool(observed.conditions) is is_autoscaler
