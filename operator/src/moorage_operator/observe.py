"""API objects to the plain values that the plan looks at; what is not needed is forgotten here.

It stands between the reflectors, which bring objects as JSON, and the store, which keeps values. A
parsed pod costs some 20 KiB as dictionaries, its value less than one. Objects come from the API
server, so their structure is trusted; whatever a kubelet may leave out is optional here.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any

from . import labels, names, ownership, store
from .sharing import shared
from .watched import (
    OWNER,
    Child,
    ChildObserved,
    ContainerObserved,
    DeploymentCondition,
    DeploymentObserved,
    PodObserved,
    RouteObserved,
    RouteParent,
    Scheduled,
)

Body = Mapping[str, Any]

_VERDICTS = {"True": True, "False": False}


def place(body: Body) -> store.Place:
    """Where an object belongs: its namespace and the label of its model, "" without one."""
    metadata = body["metadata"]
    marks = metadata.get("labels") or {}
    return intern(metadata["namespace"]), intern(marks.get(labels.MODEL, ""))


def pod(body: Body) -> PodObserved:
    """A pod as the plan sees it."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    scheduled = conditions.get("PodScheduled", {})
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
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        ready=ready.get("status") == "True",
        ready_since=_time(ready.get("lastTransitionTime")),
        initialized_since=_time(conditions.get("Initialized", {}).get("lastTransitionTime")),
        gated=names.READINESS_GATE in gates,
        gate_open=_VERDICTS.get(gate.get("status", "")),
        deleting="deletionTimestamp" in metadata,
        template_hash=intern(marks.get(labels.TEMPLATE_HASH, "")),
        revision=intern(marks.get(labels.REVISION, "")),
        scheduled=shared(
            Scheduled(
                _VERDICTS.get(scheduled.get("status", "")),
                scheduled.get("reason", ""),
                scheduled.get("message", ""),
                _time(scheduled.get("lastTransitionTime")),
            )
        ),
        init=init,
        runtime=runtime[0] if runtime else ContainerObserved(names.RUNTIME_CONTAINER),
    )


def deployment(body: Body) -> DeploymentObserved:
    """A Deployment as the plan sees it."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status", {})
    return DeploymentObserved(
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        revision=_revision_of(spec),
        observed_generation=status.get("observedGeneration", 0),
        applied_hash=_applied_hash(metadata),
        conditions=tuple(each for each in _conditions(status) if _is_against(each)),
    )


def _is_against(condition: DeploymentCondition) -> bool:
    """Whether the Deployment is stuck or may not make its pods; else they change with each pod."""
    if condition.type == "Progressing":
        return condition.status is False
    return condition.type == "ReplicaFailure" and condition.status is True


def autoscaler(body: Body) -> ChildObserved:
    """A HorizontalPodAutoscaler or ScaledObject as the plan sees it."""
    return replace(presence(body), conditions=_conditions(body.get("status") or {}))


def presence(body: Body) -> ChildObserved:
    """A child as the plan sees it where its being there is all that counts."""
    return ChildObserved(body["metadata"]["uid"], _applied_hash(body["metadata"]))


def route(body: Body) -> RouteObserved:
    """An HTTPRoute as the plan sees it."""
    metadata = body["metadata"]
    parents = (body.get("status") or {}).get("parents") or []
    return RouteObserved(
        metadata["uid"],
        _applied_hash(metadata),
        generation=metadata.get("generation", 0),
        parents=tuple(_route_parent(each, metadata["namespace"]) for each in parents),
    )


def _route_parent(told: Body, namespace: str) -> RouteParent:
    ref, conditions = told["parentRef"], told.get("conditions") or []
    return RouteParent(
        name=ref["name"],
        namespace=ref.get("namespace", namespace),
        section_name=ref.get("sectionName", ""),
        observed_generation=min(
            (each.get("observedGeneration", 0) for each in conditions), default=0
        ),
        conditions=_conditions(told),
    )


_OF_KIND = {
    "Deployment": deployment,
    "HorizontalPodAutoscaler": autoscaler,
    "ScaledObject": autoscaler,
    "HTTPRoute": route,
}


def child(kind: str, body: Body) -> Child:
    """A child with what decides whether it must be applied again."""
    metadata = body["metadata"]
    owners = [each for each in metadata.get("ownerReferences") or [] if each.get("controller")]
    owner_uid = owners[0]["uid"] if owners else ""
    fields = ownership.fields_of(body, names.FIELD_MANAGER)
    common = fields.replace(owner_uid.encode(), OWNER) if owner_uid else fields
    return Child(
        kind=kind,
        name=intern(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        owner_uid=owner_uid,
        applied_hash=_applied_hash(metadata),
        deleting="deletionTimestamp" in metadata,
        common_fields=shared(common),
        observed=_OF_KIND.get(kind, presence)(body),
    )


class Children:
    """Takes a reflector's children of one kind into the store."""

    def __init__(self, kind: str, into: store.Store) -> None:
        self._kind = kind
        self._store = into

    def put(self, body: dict[str, Any]) -> None:
        """The child as it is now."""
        self._store.put_child(place(body), child(self._kind, body))

    def keep(self, body: dict[str, Any]) -> None:
        """The child as our own apply returned it."""
        self._store.put_child(place(body), child(self._kind, body), news=False)

    def drop(self, uid: str, version: str = "") -> None:
        """The child is gone; its last version, where it is known."""
        self._store.drop_child(uid, version)


class Pods:
    """Takes a reflector's pods into the store."""

    def __init__(self, into: store.Store) -> None:
        self._store = into

    def put(self, body: dict[str, Any]) -> None:
        """The pod as it is now."""
        self._store.put_pod(place(body), pod(body))

    def drop(self, uid: str, version: str = "") -> None:  # noqa: ARG002 -- a Sink's; no answer of our own can bring a pod back
        """The pod is gone."""
        self._store.drop_pod(uid)


def _conditions(status: Body) -> tuple[DeploymentCondition, ...]:
    return tuple(
        DeploymentCondition(
            intern(each["type"]),
            _VERDICTS.get(each.get("status", "")),
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


def _revision_of(spec: Body) -> str:
    marks = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return marks.get(labels.REVISION, "")


def _applied_hash(metadata: Body) -> str:
    return (metadata.get("annotations") or {}).get(names.APPLIED_HASH, "")


def _time(text: str | None) -> datetime | None:
    return _required_time(text) if text else None


@lru_cache(maxsize=4096)
def _required_time(text: str) -> datetime:
    return datetime.fromisoformat(text)
