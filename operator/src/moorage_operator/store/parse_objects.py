"""Converts API objects to the values that a plan needs, without their other fields.

Reflectors pass objects as JSON, and the store keeps the values. A pod takes about 20 KiB as
dictionaries and less than one as a value. The objects come from the API server, so their structure
is trusted; fields that a kubelet may omit are optional.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.kube import field_ownership
from moorage_operator.kube.managed_fields import foreign_fields
from moorage_operator.values.objects import (
    DEFAULT_SCHEDULER,
    OWNER,
    PAUSED,
    ROUTE_CONDITIONS,
    Child,
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

from . import store

Body = Mapping[str, Any]

_VERDICTS = {"True": True, "False": False}


def place(body: Body) -> store.Place:
    """Return the namespace of an object and the label of its model, "" without one."""
    metadata = body["metadata"]
    marks = metadata.get("labels") or {}
    return intern(metadata["namespace"]), intern(marks.get(labels.MODEL, ""))


def place_of_child(body: Body) -> store.Place:
    """Return the place of the model that owns a child, even if the child has lost its label."""
    for owner in body["metadata"].get("ownerReferences") or []:
        if owner.get("controller") and owner.get("kind") == names.KIND:
            value = labels.model_value(owner["name"])
            return intern(body["metadata"]["namespace"]), intern(value)
    return place(body)


def pod(body: Body) -> PodObserved:
    """Convert a pod."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    is_ready = ready.get("status") == "True"
    scheduled = conditions.get("PodScheduled", {})
    reason, message = _ended(status, conditions)
    gate = conditions.get(names.READINESS_GATE, {})
    gates = [each["conditionType"] for each in spec.get("readinessGates") or []]
    marks = metadata.get("labels") or {}
    init = _containers(spec.get("initContainers"), status.get("initContainerStatuses"))
    containers = _containers(spec.get("containers"), status.get("containerStatuses"))
    runtime = [each for each in containers if each.name == names.RUNTIME_CONTAINER]
    return PodObserved(
        name=metadata["name"],
        uid=intern(metadata["uid"]),
        created=_required_time(metadata["creationTimestamp"]),
        ip=status.get("podIP", ""),
        node=intern(spec.get("nodeName", "")),
        phase=intern(status.get("phase", "Pending")),
        reason=reason,
        message=message,
        ready=is_ready,
        ready_since=_time(ready.get("lastTransitionTime")),
        unready_message="" if is_ready else intern(ready.get("message", "")),
        initialized_since=_time(conditions.get("Initialized", {}).get("lastTransitionTime")),
        gated=names.READINESS_GATE in gates,
        gate_open=_VERDICTS.get(gate.get("status")),
        deleting="deletionTimestamp" in metadata,
        template_hash=intern(marks.get(labels.TEMPLATE_HASH, "")),
        revision=intern(marks.get(labels.REVISION, "")),
        replica_set=intern(_replica_set_of(metadata)),
        scheduler=intern(spec.get("schedulerName", DEFAULT_SCHEDULER)),
        scheduled=Scheduled(
            _VERDICTS.get(scheduled.get("status")),
            scheduled.get("reason", ""),
            scheduled.get("message", ""),
            _time(scheduled.get("lastTransitionTime")),
        ),
        init=init,
        runtime=runtime[0] if runtime else ContainerObserved(names.RUNTIME_CONTAINER),
    )


def _ended(status: Body, conditions: Mapping[str, Body]) -> tuple[str, str]:
    """Return the reason and the message of a pod's end, "" without one.

    Kubelets write both into the status. The pod garbage collector of the control plane, which ends
    the pods of a removed node, writes only the condition DisruptionTarget.
    """
    reason, message = status.get("reason", ""), status.get("message", "")
    disruption = conditions.get("DisruptionTarget", {})
    if reason or message or disruption.get("status") != "True":
        return reason, message
    return disruption.get("reason", ""), disruption.get("message", "")


def deployment(body: Body) -> DeploymentObserved:
    """Convert a Deployment."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    return DeploymentObserved(
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        revision=template_revision(spec),
        observed_generation=status.get("observedGeneration", 0),
        applied_hash=_applied_hash(metadata),
        conditions=tuple(each for each in _conditions(status) if _is_against(each)),
        foreign=_foreign(body),
        is_uniform=metadata.get("generation") == 1 or _is_uniform(spec, status),
        is_mixed=status.get("updatedReplicas", 0) < status.get("replicas", 0),
        size=_own_size(body),
    )


def _is_uniform(spec: Body, status: Body) -> bool:
    """Whether a Deployment has the wanted number of pods, all with its current template."""
    updated = status.get("updatedReplicas", 0)
    return bool(updated == status.get("replicas", 0) == spec.get("replicas", 1))


def _own_size(body: Body) -> int | None:
    """Return the number of pods in the spec, None unless the operator set it last."""
    applied = field_ownership.applied_fields(body, names.FIELD_MANAGER) or {}
    spec: Body = body.get("spec") or {}
    return spec.get("replicas") if "f:replicas" in applied.get("f:spec", {}) else None


def _foreign(body: Body) -> tuple[tuple[str, str], ...]:
    """Return the fields of the spec that others have set, except a pause that has ended."""
    paused = body.get("spec", {}).get("paused")
    return tuple(
        (intern(path), intern(manager))
        for path, manager in foreign_fields(body, names.FIELD_MANAGER)
        if paused or path != PAUSED
    )


def _is_against(condition: DeploymentCondition) -> bool:
    """Whether the Deployment is stuck or cannot create pods; others change with each pod."""
    if condition.type == "Progressing":
        return condition.status is False
    return condition.type == "ReplicaFailure" and condition.status is True


def autoscaler(body: Body) -> ChildObserved:
    """Convert a HorizontalPodAutoscaler or ScaledObject."""
    return replace(presence(body), conditions=_conditions(body.get("status") or {}))


def presence(body: Body) -> ChildObserved:
    """Convert a child of which a plan only needs to know that it exists."""
    return ChildObserved(body["metadata"]["uid"], _applied_hash(body["metadata"]))


def route(body: Body) -> RouteObserved:
    """Convert an HTTPRoute or a GRPCRoute."""
    metadata = body["metadata"]
    parents = (body.get("status") or {}).get("parents") or []
    return RouteObserved(
        metadata["uid"],
        _applied_hash(metadata),
        generation=metadata.get("generation", 0),
        parents=tuple(_route_parent(each, metadata["namespace"]) for each in parents),
    )


def _route_parent(parent: Body, namespace: str) -> RouteParent:
    ref = parent["parentRef"]
    conditions = [
        each for each in parent.get("conditions") or [] if each["type"] in ROUTE_CONDITIONS
    ]
    return RouteParent(
        name=ref["name"],
        namespace=ref.get("namespace", namespace),
        section_name=ref.get("sectionName", ""),
        observed_generation=min(
            (each.get("observedGeneration", 0) for each in conditions), default=0
        ),
        conditions=_conditions({"conditions": conditions}),
    )


def ingress(body: Body) -> IngressObserved:
    """Convert an Ingress."""
    points = ((body.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    found = ((each.get("hostname") or each.get("ip"), each) for each in points)
    return IngressObserved(
        body["metadata"]["uid"],
        _applied_hash(body["metadata"]),
        points=tuple(
            LoadBalancerPoint(address, tuple(port["port"] for port in each.get("ports") or []))
            for address, each in found
            if address
        ),
    )


_OF_KIND = {
    "Deployment": deployment,
    "HorizontalPodAutoscaler": autoscaler,
    "ScaledObject": autoscaler,
    "HTTPRoute": route,
    "GRPCRoute": route,
    "Ingress": ingress,
}


def child(kind: str, body: Body) -> Child:
    """Convert a child, with the facts that decide whether to apply it again."""
    metadata = body["metadata"]
    owner_uid = _owner_of(metadata)
    fields = field_ownership.fields_of(body, names.FIELD_MANAGER).decode()
    common = fields.replace(owner_uid, OWNER) if owner_uid else fields
    return Child(
        kind=kind,
        name=intern(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        owner_uid=owner_uid,
        applied_hash=_applied_hash(metadata),
        deleting="deletionTimestamp" in metadata,
        common_fields=intern(common),
        observed=_OF_KIND.get(kind, presence)(body),
    )


class Children:
    """Passes children of one kind from a reflector to the store."""

    def __init__(self, kind: str, into: store.Store) -> None:
        self._kind = kind
        self._store = into

    def put(self, body: dict[str, Any], *, listed_at: str = "") -> None:
        """Store a child from a watch, or from a list with this version."""
        self._store.put_child(place_of_child(body), child(self._kind, body), listed_at=listed_at)

    def keep(self, body: dict[str, Any]) -> None:
        """Store a child as our own apply returned it."""
        self._store.put_child(place_of_child(body), child(self._kind, body), news=False)

    def drop(self, uid: str, version: str = "") -> None:
        """Remove a deleted child; `version` is its last one if known."""
        self._store.drop_child(uid, version)

    def end_list(self, namespace: str, version: str) -> None:
        """Remove children that are not in a complete list with this version."""
        self._store.end_list(self._kind, namespace, version)


class Pods:
    """Passes pods from a reflector to the store."""

    def __init__(self, into: store.Store) -> None:
        self._store = into

    def put(self, body: dict[str, Any], *, listed_at: str = "") -> None:  # noqa: ARG002 -- part of Sink; pods of any version are stored
        """Store a pod."""
        self._store.put_pod(place(body), pod(body))

    def drop(self, uid: str, version: str = "") -> None:  # noqa: ARG002 -- part of Sink; the operator applies no pods
        """Remove a deleted pod."""
        self._store.drop_pod(uid)

    def end_list(self, namespace: str, version: str) -> None:
        """Do nothing: the operator creates no pods."""


def _conditions(status: Body) -> tuple[DeploymentCondition, ...]:
    return tuple(
        DeploymentCondition(
            intern(each["type"]),
            _VERDICTS.get(each.get("status")),
            intern(each.get("reason", "")),
            each.get("message", ""),
            _time(each.get("lastUpdateTime")),
        )
        for each in status.get("conditions") or []
    )


def _containers(specs: Any, statuses: Any) -> tuple[ContainerObserved, ...]:
    by_name = {each["name"]: each for each in statuses or []}
    return tuple(_container(each, by_name.get(each["name"], {})) for each in specs or [])


def _container(spec: Body, status: Body) -> ContainerObserved:
    states = status.get("state") or {}
    waiting, running = states.get("waiting") or {}, states.get("running") or {}
    terminated = states.get("terminated") or {}
    last = (status.get("lastState") or {}).get("terminated") or {}
    return ContainerObserved(
        name=intern(spec["name"]),
        image=intern(spec.get("image", "")),
        container_id=status.get("containerID", ""),
        started=bool(status.get("started")),
        ready=bool(status.get("ready")),
        restart_count=status.get("restartCount", 0),
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        running_since=_time(running.get("startedAt")),
        terminated_reason=terminated.get("reason", ""),
        exit_code=terminated.get("exitCode"),
        terminated_message=terminated.get("message", ""),
        terminated_started_at=_time(terminated.get("startedAt")),
        terminated_at=_time(terminated.get("finishedAt")),
        last_terminated_reason=last.get("reason", ""),
        last_terminated_exit_code=last.get("exitCode"),
        last_terminated_message=last.get("message", ""),
        last_terminated_started_at=_time(last.get("startedAt")),
        last_terminated_at=_time(last.get("finishedAt")),
    )


def _controller_of(metadata: Body) -> Body:
    """Return the owner reference of the object's controller, {} without one."""
    owners = metadata.get("ownerReferences") or []
    return next((each for each in owners if each.get("controller")), {})


def _owner_of(metadata: Body) -> str:
    """Return the uid of the object's controller, or of another owner without a controller."""
    owners = metadata.get("ownerReferences") or []
    owner = _controller_of(metadata) or (owners[0] if owners else {})
    return str(owner.get("uid", ""))


def _replica_set_of(metadata: Body) -> str:
    owner = _controller_of(metadata)
    is_replica_set = owner.get("kind") == "ReplicaSet" and owner["apiVersion"].startswith("apps/")
    return owner["name"] if is_replica_set else ""


def template_revision(spec: Body) -> str:
    """Return the revision of a Deployment's pod template, "" without that label."""
    marks = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return marks.get(labels.REVISION, "")


def _applied_hash(metadata: Body) -> str:
    return (metadata.get("annotations") or {}).get(names.APPLIED_HASH, "")


def _time(text: str | None) -> datetime | None:
    return _required_time(text) if text else None


@lru_cache(maxsize=4096)
def _required_time(text: str) -> datetime:
    return datetime.fromisoformat(text)
