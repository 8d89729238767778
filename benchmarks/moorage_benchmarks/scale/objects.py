"""The objects that the benchmark makes: models, nodes, bystanders, and pods' states. Pure."""

import ipaddress
from collections.abc import Mapping
from typing import Any

POD_RANGE = "10.128.0.0/12"
NODE_PREFIX = 20
NODES = 16
"""4,094 addresses each: enough for 65,000 pods."""

NAMESPACES = tuple(f"team-{number}" for number in range(16))
"""The ReplicaSet controller looks at all pods of a namespace for each of its ReplicaSets: with
thousands in one it would be all that is measured."""

PORT = 8000
MODEL_LABEL = "moorage.dev/model"
BY_HAND_LABEL = "by-hand"
"""What is made without the operator has it, pods included."""

PLACES = {
    "Service": ("/api/v1", "services"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
}
"""Where objects of a kind are posted, before and behind their namespace."""

Body = dict[str, Any]


def namespace(number: int) -> str:
    """Where the model of this number is."""
    return NAMESPACES[number % len(NAMESPACES)]


def node_name(number: int) -> str:
    """The fake node on which the pods of the model of this number run."""
    return f"fake-{number % NODES}"


def node(number: int) -> Body:
    """A fake node with a pod range of its own."""
    ranges = ipaddress.ip_network(POD_RANGE).subnets(new_prefix=NODE_PREFIX)
    pods = str(list(ranges)[number])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(number),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
    }


def model(name: str, *, replicas: int, number: int) -> Body:
    """An InferenceModel whose pods land on one of the fake nodes without a scheduler."""
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name, "namespace": namespace(number)},
        "spec": {
            "replicas": replicas,
            "runtime": {"image": "example.com/server:1"},
            "podTemplate": {"spec": {"nodeName": node_name(number)}},
        },
    }


def by_hand(model: Body) -> Body:
    """A model that is not the operator's."""
    metadata = model["metadata"]
    return {**model, "metadata": {**metadata, "labels": {BY_HAND_LABEL: metadata["name"]}}}


def bystander(number: int) -> Body:
    """A pod of somebody else, which runs nowhere and never changes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"bystander-{number}", "namespace": namespace(number)},
        "spec": {
            "nodeName": "elsewhere",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "example.com/other:1"}],
        },
    }


def pod_readiness(pod: Mapping[str, Any], *, ready: bool, now: str) -> Body:
    """The status of a running pod whose readiness probe passes or not."""
    verdict = "True" if ready else "False"
    container = {**pod["status"]["containerStatuses"][0], "ready": ready}
    return _status(pod, verdict, container, now)


def model_status(namespace: str, name: str, ready: str, now: str) -> Body:
    """The least that says of a model whether it is ready."""
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name, "namespace": namespace},
        "status": {"conditions": [condition]},
    }


def pod_crash(pod: Mapping[str, Any], now: str) -> Body:
    """The status of a pod whose container has ended and waits to be started again."""
    before = pod["status"]["containerStatuses"][0]
    ended = {"exitCode": 3, "reason": "Error", "startedAt": now, "finishedAt": now}
    container = {
        **before,
        "ready": False,
        "started": False,
        "restartCount": before["restartCount"] + 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {**ended, "message": "out of luck"}},
    }
    return _status(pod, "False", container, now)


def _status(pod: Mapping[str, Any], verdict: str, container: Body, now: str) -> Body:
    conditions = [
        {"type": kind, "status": verdict, "lastTransitionTime": now}
        for kind in ("Ready", "ContainersReady")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod["metadata"]["name"],
            "namespace": pod["metadata"]["namespace"],
        },
        "status": {"conditions": conditions, "containerStatuses": [container]},
    }
