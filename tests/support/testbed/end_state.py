"""The end state of a history, without parts that may differ between equal histories.

Names of pods, times, uids and counters of writes are left out. Everything that a user has set or
sees is included.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from .api import Api, Object

CHILDREN = (
    "Deployment",
    "Service",
    "ControllerRevision",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "Ingress",
)

_HASHES = re.compile(r"\b(?:[0-9a-f]{10}|[0-9a-f]{32})\b")
_ADDRESSES = re.compile(r"clusterIPs?|ipFamil.*")
_OTHERS = {"ScalingActive"}
"""Fields that other controllers update at their own time."""

_PAST = {"unproven"}
"""A record of earlier revisions, on which no decision of the operator depends."""

_COUNTED = {"generation"}
"""How often an InferenceRuntime was edited."""

_VARIES = {"lastTransitionTime", "time", "since", "at", "startedAt", "completedAt", "message"}
"""Times, and messages that contain a pod's name."""


async def end_state(api: Api, namespace: str, optional: Iterable[str] = ()) -> Object:
    """Everything that a model came to in its namespace.

    Args:
        api: The API.
        namespace: The namespace.
        optional: The kinds of children that the cluster has in addition.
    """
    found: Object = {}
    for kind in (*CHILDREN, *sorted(optional)):
        for body in await api.list(kind, namespace):
            found[f"{kind}/{body['metadata']['name']}"] = _child(body)
    for body in await api.list("InferenceModel", namespace):
        found[f"InferenceModel/{body['metadata']['name']}"] = _model(body)
    found["pods"] = sorted(_pod(pod) for pod in await api.list("Pod", namespace))
    return _anonymous(found, namespace)


def _anonymous(state: Object, namespace: str) -> Object:
    """The state with the namespace's name and every hash replaced by a running number.

    Hashes are over the namespace too; what a history has to keep is which of them are equal.
    """
    text = json.dumps(state, sort_keys=True).replace(namespace, "NAMESPACE")
    numbers: dict[str, str] = {}
    return json.loads(
        _HASHES.sub(lambda found: numbers.setdefault(found[0], f"hash-{len(numbers)}"), text)
    )


def _child(body: Object) -> Object:
    metadata = body["metadata"]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != "deployment.kubernetes.io/revision"
    }
    return {
        "labels": metadata.get("labels") or {},
        "annotations": annotations,
        "owners": [
            {"kind": each["kind"], "name": each["name"], "controller": each.get("controller")}
            for each in metadata.get("ownerReferences") or []
        ],
        "spec": _without_addresses(body.get("spec")),
        "data": body.get("data"),
    }


def _model(body: Object) -> Object:
    status = body.get("status") or {}
    conditions = {
        each["type"]: (
            each["status"],
            each["reason"],
            each["observedGeneration"] == body["metadata"]["generation"],
        )
        for each in status.get("conditions") or []
        if each["type"] not in _OTHERS
    }
    revisions = {
        key: each
        for key, each in _timeless(status.get("revisions") or {}).items()
        if key not in _PAST
    }
    runtime = {
        key: each
        for key, each in _timeless(status.get("runtime") or {}).items()
        if key not in _COUNTED
    }
    return {
        "conditions": conditions,
        "observed": status.get("observedGeneration") == body["metadata"]["generation"],
        "revisions": revisions,
        "runtime": runtime,
        "url": status.get("url"),
        "endpoints": status.get("endpoints"),
        "model": _timeless(status.get("model") or {}),
        "replicas": [status.get("replicas"), status.get("replicaSummary")],
        "protocol": _timeless(status.get("protocol") or {}),
    }


def _pod(pod: Object) -> str:
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in pod.get("status", {}).get("conditions") or []
    )
    revision = (pod["metadata"].get("labels") or {}).get("moorage.dev/revision", "")
    leaving = "deletionTimestamp" in pod["metadata"]
    return f"{revision} ready={ready} leaving={leaving}"


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _VARIES}
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    return value


def _without_addresses(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_addresses(each)
            for key, each in value.items()
            if not _ADDRESSES.fullmatch(key)
        }
    if isinstance(value, list):
        return [_without_addresses(each) for each in value]
    return value


def differences(expected: Object, found: Object) -> list[str]:
    """The differences, one line each."""
    return list(_differences("", expected, found))


def _differences(path: str, expected: Any, found: Any) -> Any:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(below, expected.get(key), found.get(key))
    elif expected != found:
        yield f"{path}: expected {expected!r}, found {found!r}"
