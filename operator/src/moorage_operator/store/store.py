"""The operator's knowledge of the cluster, in memory: models, their children, pods and answers.

It is updated by kopf's watch (models), the reflectors (children, pods), the poller (answers) and
the operator's own writes, whose results are newer than any watch. Each change triggers a reconcile
of its model. A model is parsed once for each edit. A new process rebuilds the store from lists.
The store decides nothing.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from moorage_operator.api import labels, names, v1alpha1
from moorage_operator.api.v1alpha1 import is_parsed_from
from moorage_operator.kube.versions import is_newer
from moorage_operator.values.answers import ProbeResult
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import Child, ChildKey, DeploymentObserved, PodObserved
from moorage_operator.values.observed import (
    ObjectKey,
    Observed,
    Reference,
    ReferenceState,
    Refusal,
    RevisionRecord,
)
from moorage_operator.values.urgency import Urgency

from .interning import interned

GONE = 1024
"""The number of deleted children, and of models, to remember: an answer to an apply may arrive
after the event of the deletion, and an event after a list that lacks the object."""

Place = tuple[str, str]
"""The namespace and the value of the model label of a child or pod."""


@dataclass(slots=True)
class _Family:
    """A model with its children by kind and name and its pods by uid, seen in any order.

    Bodies of the model are ignored unless they are newer than `version`.
    """

    record: ModelRecord | None = None
    version: str = ""
    children: dict[ChildKey, Child] = field(default_factory=dict[ChildKey, Child])
    pods: dict[str, PodObserved] = field(default_factory=dict[str, PodObserved])

    @property
    def is_empty(self) -> bool:
        """Whether the model and all its objects are gone."""
        return self.record is None and not self.children and not self.pods


class Store:
    """The operator's view of the cluster.

    Args:
        changed: Called with the model of a change and its urgency.
        pod_moved: Called with the uid of a pod that ends, or whose readiness, address or
            container changed.
        child_gone: Called with the uid of a model whose child was deleted.
    """

    def __init__(
        self,
        *,
        changed: Callable[[ObjectKey, Urgency], None],
        pod_moved: Callable[[str], None],
        child_gone: Callable[[str], None],
    ) -> None:
        self._changed = changed
        self._pod_moved = pod_moved
        self._child_gone = child_gone
        self._families: dict[Place, _Family] = {}
        self._child_places: dict[str, Place] = {}
        # Uids of dropped models, with the versions of the events or lists that lacked them.
        self._left: dict[str, str] = {}
        self._expected_statuses: dict[ObjectKey, Mapping[str, Any]] = {}
        self._expected_children: dict[tuple[Place, str, str], str] = {}
        self._gone: dict[str, str] = {}  # uids of deleted children, with their last versions
        # Children of our own applies that no watch has shown yet: kind, namespace and version.
        self._unseen: dict[str, tuple[str, str, str]] = {}
        self._listed_at: dict[tuple[str, str], str] = {}  # by kind and namespace, "" for all
        self._pod_places: dict[str, Place] = {}
        self._available_kinds: frozenset[str] = frozenset()
        self._unreadable_kinds: frozenset[tuple[str, str]] = frozenset()
        self._probes: dict[str, ProbeResult] = {}
        self._references: dict[ObjectKey, Mapping[Reference, ReferenceState]] = {}
        self._refusals: dict[ObjectKey, dict[tuple[str, str], Refusal]] = {}
        self._history: dict[ObjectKey, Mapping[str, RevisionRecord | None]] = {}

    # -------------------------------------------------------------------- models

    def put_written(self, record: ModelRecord, body: Mapping[str, Any]) -> None:
        """Store a resource as our own status write returned it during the reconcile of a record.

        It only triggers a reconcile if somebody edited the resource before the write: an event of
        that edit that arrives later is older than this answer, and is ignored. A resource that was
        dropped meanwhile, because it was deleted or moved to another installation, stays dropped.
        """
        if not self.has(record.key, body["metadata"]["uid"]):
            return
        is_edited = not is_parsed_from(record.model, body)
        if self._put_model(record.key, body) is not None and is_edited:
            self._changed(record.key, _urgency_of(body))

    def put_model(self, body: Mapping[str, Any]) -> None:
        """Store a resource from the watch; the event of our own write triggers no reconcile."""
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        has_same_spec = self._put_model(key, body)
        awaited = has_same_spec and body.get("status") == self._expected_statuses.get(key)
        if has_same_spec is not None and not awaited:
            self._changed(key, _urgency_of(body))

    def _put_model(self, key: ObjectKey, body: Mapping[str, Any]) -> bool | None:
        """Store a resource; whether only its status is new; None if it is not newer.

        Events of a deleted model and of its successor can arrive in any order: kopf orders the
        events of one uid only.
        """
        metadata, status = body["metadata"], interned(body.get("status") or {})
        family, version = self._family(_place(key)), metadata["resourceVersion"]
        known, left = family.record, self._left.get(metadata["uid"])
        if (known and not is_newer(version, family.version)) or (
            left and not is_newer(version, left)
        ):
            return None
        if known and known.model.uid != metadata["uid"]:
            self._refusals.pop(key, None)  # another object of the same name
            self._history.pop(key, None)
        # After a restore of etcd, generations are reused too, so it has to be parsed again.
        is_parsed = known and family.version and is_parsed_from(known.model, body)
        family.version = version
        if known and is_parsed:
            family.record = replace(known, resource_version=version, status=status)
            return True
        model = v1alpha1.parse(body)
        takes_runtime = model.runtime.name or not model.runtime.image
        spec = msgspec.json.encode(body.get("spec") or {}) if takes_runtime else b""
        family.record = ModelRecord(key, model, version, status, spec)
        return False

    def forget_versions(self) -> None:
        """Accept the next event of each resource, even with a lower version.

        This is for a restore of etcd from a backup, after which versions are reused.
        """
        self._left.clear()
        for family in self._families.values():
            family.version = ""

    @contextmanager
    def expecting_status(self, key: ObjectKey, status: Mapping[str, Any]) -> Generator[None]:
        """Expect the event of a status write, which may arrive before the answer."""
        self._expected_statuses[key] = status
        try:
            yield
        finally:
            del self._expected_statuses[key]

    def drop_model(self, key: ObjectKey, uid: str, version: str = "") -> None:
        """Remove a deleted resource, unless another one has its name.

        It may also have left the label selector for a while. So nothing is done if the resource is
        known in a newer version than that of the event or the list, `version`. Events of earlier
        versions that arrive later do not bring it back.
        """
        place = _place(key)
        family = self._families.get(place)
        if family is None or family.record is None or family.record.model.uid != uid:
            return
        if version and family.version and is_newer(family.version, version):
            return
        family.record = None
        if version:
            _remember(self._left, uid, version)
        self._tidy(place)
        self._references.pop(key, None)
        self._refusals.pop(key, None)
        self._history.pop(key, None)
        self._changed(key, Urgency.ROUTINE)

    def model(self, key: ObjectKey) -> ModelRecord | None:
        """Return the resource, None if it does not exist."""
        family = self._families.get(_place(key))
        return family.record if family else None

    def has(self, key: ObjectKey, uid: str) -> bool:
        """Whether the resource exists, and not another one of its name."""
        known = self.model(key)
        return known is not None and known.model.uid == uid

    def models(self) -> Iterator[ModelRecord]:
        """Iterate over all resources."""
        return (family.record for family in self._families.values() if family.record)

    def uids(self) -> dict[ObjectKey, str]:
        """Return the uid of each resource."""
        return {record.key: record.model.uid for record in self.models()}

    # -------------------------------------------------------------------- children

    def put_child(
        self, place: Place, child: Child, *, news: bool = True, listed_at: str = ""
    ) -> None:
        """Store a child from a watch, or the response to our own apply (`news=False`).

        A list has the state at its version `listed_at`. It replaces older children, even if their
        own version is higher, because etcd may have been restored.
        """
        if news:
            self._unseen.pop(child.uid, None)
        if self._is_gone(child, listed_at) or (not news and self._is_missing(place, child)):
            self._tell(place, Urgency.SPEC)  # the caller of that apply assumes it exists
            return
        known = self._child(place, child.kind, child.name)
        if (
            known
            and known.uid == child.uid
            and not is_newer(child.resource_version, known.resource_version)
            and not _is_covered(known.resource_version, listed_at)
        ):
            if not news and known.applied_state != child.applied_state:
                self._tell(place)  # edited before our apply returned
            return
        if self._child_places.get(child.uid, place) != place:
            self.drop_child(child.uid)  # its label was edited
        slot = (place, child.kind, child.name)
        self._family(place).children[child.kind, child.name] = child
        self._child_places[child.uid] = place
        if not news:
            self._unseen[child.uid] = child.kind, place[0], child.resource_version
        if known is None and self._expected_children.get(slot) == child.applied_hash:
            return
        # An autoscaler writes measurements every few seconds, which do not affect a plan.
        if news and (
            not known or replace(known, resource_version=child.resource_version) != child
        ):
            self._tell(place)

    @contextmanager
    def expecting_child(
        self, key: ObjectKey, kind: str, name: str, applied_hash: str
    ) -> Generator[None]:
        """Expect the event of a created child, which may arrive before the answer."""
        slot = (_place(key), kind, name)
        self._expected_children[slot] = applied_hash
        try:
            yield
        finally:
            del self._expected_children[slot]

    def drop_child(self, uid: str, version: str = "") -> None:
        """Remove a deleted child or one without our label; `version` is its last one, if known."""
        self._unseen.pop(uid, None)
        _remember(self._gone, uid, version)
        place = self._child_places.pop(uid, None)
        if place is None:
            return
        family = self._family(place)
        for slot in [slot for slot, child in family.children.items() if child.uid == uid]:
            del family.children[slot]
        if family.record:
            self._child_gone(family.record.model.uid)
        self._tell(place, Urgency.SPEC)
        self._tidy(place)

    def end_list(self, kind: str, namespace: str, version: str) -> None:
        """Remove the children of our own applies that a complete list did not return.

        They were deleted before it, and no watch was open that could show it.
        """
        self._listed_at[kind, namespace] = version
        for uid, (its_kind, its_namespace, applied_at) in list(self._unseen.items()):
            is_listed = its_kind == kind and namespace in {"", its_namespace}
            if is_listed and _is_covered(applied_at, version):
                self.drop_child(uid, version)

    def _is_missing(self, place: Place, child: Child) -> bool:
        """Whether a list that ended before this answer to our own apply lacks the child."""
        if child.uid in self._child_places:
            return False
        lists = (self._listed_at.get((child.kind, each), "") for each in ("", place[0]))
        return any(_is_covered(child.resource_version, each) for each in lists)

    def _is_gone(self, child: Child, listed_at: str) -> bool:
        """Whether the child was deleted before this answer to an apply arrived."""
        went = self._gone.get(child.uid)
        if went is None:
            return False
        # Its label was restored, or etcd was restored from a backup.
        if is_newer(child.resource_version, went) or _is_covered(went, listed_at):
            del self._gone[child.uid]
            return False
        return True

    def child(self, key: ObjectKey, kind: str, name: str) -> Child | None:
        """Return a child of the model, None if it is not known."""
        return self._child(_place(key), kind, name)

    def children(self, record: ModelRecord) -> list[Child]:
        """Return all children that the model owns."""
        owner = record.model.uid
        return [child for child in self._labelled(record.key) if child.owner_uid == owner]

    def orphans(self, key: ObjectKey) -> list[Child]:
        """Return the children with the label of the model and without an owner."""
        return [child for child in self._labelled(key) if not child.owner_uid]

    def _labelled(self, key: ObjectKey) -> Iterator[Child]:
        family = self._families.get(_place(key))
        yield from family.children.values() if family else ()

    def put_available_kinds(self, available: frozenset[str]) -> None:
        """Set the optional kinds of children that the cluster has, which affects every model."""
        if available != self._available_kinds:
            self._available_kinds = available
            for key in self.uids():
                self._changed(key, Urgency.ROUTINE)

    def put_unreadable_kinds(self, unreadable: frozenset[tuple[str, str]]) -> None:
        """Set the kinds of children that may not be read, each with a namespace ("" for all)."""
        changed = {namespace for _, namespace in unreadable ^ self._unreadable_kinds}
        self._unreadable_kinds = unreadable
        for key in self.uids():
            if changed & {"", key.namespace}:
                self._changed(key, Urgency.ROUTINE)

    # -------------------------------------------------------------------- pods and answers

    def put_pod(self, place: Place, pod: PodObserved) -> None:
        """Store a pod from the watch."""
        family = self._families.get(place)
        known = family.pods.get(pod.uid) if family else None
        if known == pod:
            return
        if self._pod_places.get(pod.uid) != place:
            self.drop_pod(pod.uid)
        self._family(place).pods[pod.uid] = pod
        self._pod_places[pod.uid] = place
        self._tell_of_pod(place, known, pod)

    def drop_pod(self, uid: str) -> None:
        """Remove a pod.

        Its probe result stays until the poller forgets the pod. A list from an API server that
        lags behind lacks new pods for a moment, and the poller delivers a result only once.
        """
        place = self._pod_places.pop(uid, None)
        if place is None:
            return
        del self._families[place].pods[uid]
        self._tell(place, Urgency.READINESS)
        self._tidy(place)

    def count_pods(self, key: ObjectKey) -> int:
        """Return the number of pods of the model, of all revisions."""
        family = self._families.get(_place(key))
        return len(family.pods) if family else 0

    def addresses(self, key: ObjectKey) -> list[str]:
        """Return the addresses of the model's pods, of all revisions."""
        family = self._families.get(_place(key))
        return [pod.ip for pod in family.pods.values() if pod.ip] if family else []

    def deployments_of_pods(self, key: ObjectKey) -> frozenset[str]:
        """Names of the model's Deployments that its running pods belong to."""
        family = self._families.get(_place(key))
        pods = family.pods.values() if family else ()
        found = {pod.deployment_of(key.name) for pod in pods if not pod.deleting}
        return frozenset(found - {""})

    def put_probe(self, key: ObjectKey, result: ProbeResult) -> None:
        """Store the answers of a pod."""
        self._probes[result.pod_uid] = result
        self._changed(key, Urgency.READINESS)

    def forget_probe(self, uid: str) -> None:
        """Remove the answers of a pod that is no longer polled."""
        self._probes.pop(uid, None)

    # -------------------------------------------------------------------- references, refusals

    def put_references(self, key: ObjectKey, states: Mapping[Reference, ReferenceState]) -> None:
        """Store the states of the objects that the model refers to."""
        if self._references.get(key, {}) != states and self.model(key):
            self._references[key] = states
            self._changed(key, Urgency.ROUTINE)

    def refusal(self, key: ObjectKey, kind: str, name: str) -> Refusal | None:
        """Return the last refusal of a child, None if its last apply succeeded."""
        return self._refusals.get(key, {}).get((kind, name))

    def refusals(self, key: ObjectKey) -> tuple[Refusal, ...]:
        """Return the refusals of the children of a model."""
        return tuple(self._refusals.get(key, {}).values())

    def put_refusal(self, record: ModelRecord, refusal: Refusal) -> None:
        """Store the refusal of a child by the API server; ignored if the model was dropped."""
        if self.has(record.key, record.model.uid):
            self._refusals.setdefault(record.key, {})[refusal.kind, refusal.name] = refusal

    def clear_refusal(self, key: ObjectKey, kind: str, name: str) -> None:
        """Remove the refusal of a child that was applied."""
        self._refusals.get(key, {}).pop((kind, name), None)

    # -------------------------------------------------------------------- earlier revisions

    def put_history(self, record: ModelRecord, found: Mapping[str, RevisionRecord | None]) -> None:
        """Add earlier revisions of the model; ignored if it was dropped."""
        if self.has(record.key, record.model.uid):
            self._history[record.key] = {**self._history.get(record.key, {}), **found}

    def keep_history(self, key: ObjectKey, revisions: Collection[str]) -> None:
        """Remove all other earlier revisions of the model."""
        kept = self._history.get(key, {})
        if left := {name: record for name, record in kept.items() if name in revisions}:
            self._history[key] = left
        else:
            self._history.pop(key, None)

    # -------------------------------------------------------------------- the plan's view

    def observed(self, key: ObjectKey) -> Observed:
        """Return everything about one model, with its pods sorted by name."""
        place = _place(key)
        family = self._families.get(place, _Family())
        record = family.record
        pods = sorted(family.pods.values(), key=lambda pod: pod.name)
        mine = self.children(record) if record else []
        children = {(child.kind, child.name): child.observed for child in mine}
        deployment = children.get(("Deployment", names.deployment(key.name)))
        return Observed(
            deployment=deployment if isinstance(deployment, DeploymentObserved) else None,
            children=children,
            available_kinds=self._available_kinds,
            unreadable_kinds=frozenset(
                kind for kind, where in self._unreadable_kinds if where in {"", key.namespace}
            ),
            pods=tuple(pods),
            probes={pod.uid: self._probes[pod.uid] for pod in pods if pod.uid in self._probes},
            references=self._references.get(key, {}),
            refusals=self.refusals(key),
            history=self._history.get(key, {}),
            status=record.status if record else {},
        )

    def _tell(self, place: Place, urgency: Urgency = Urgency.ROUTINE) -> None:
        family = self._families.get(place)
        if family and family.record:
            self._changed(family.record.key, urgency)

    def _tell_of_pod(self, place: Place, before: PodObserved | None, pod: PodObserved) -> None:
        # A pod that became ready before the first list is new and ready at the same time.
        moved = pod.ready if before is None else _moved(before, pod)
        if before is None or moved:
            self._pod_moved(pod.uid)
        waits = before is not None and before.runtime.waiting_reason != pod.runtime.waiting_reason
        self._tell(place, Urgency.READINESS if moved or waits else Urgency.ROUTINE)

    def _family(self, place: Place) -> _Family:
        """Return the family of a place, created if it is missing."""
        if place not in self._families:
            self._families[place] = _Family()
        return self._families[place]

    def _tidy(self, place: Place) -> None:
        if self._families[place].is_empty:
            del self._families[place]

    def _child(self, place: Place, kind: str, name: str) -> Child | None:
        family = self._families.get(place)
        return family.children.get((kind, name)) if family else None


def _remember(gone: dict[str, str], uid: str, version: str) -> None:
    gone[uid] = version
    if len(gone) > GONE:
        del gone[next(iter(gone))]


def _is_covered(version: str, listed_at: str) -> bool:
    """Whether a list at `listed_at` includes a change at this version."""
    return bool(listed_at) and not is_newer(version, listed_at)


def _urgency_of(body: Mapping[str, Any]) -> Urgency:
    """Return ROUTINE if the status is about this spec, mostly the event of our own write."""
    generation = (body.get("status") or {}).get("observedGeneration")
    is_observed = generation is not None and generation == body["metadata"].get("generation")
    return Urgency.ROUTINE if is_observed else Urgency.SPEC


def _place(key: ObjectKey) -> Place:
    return key.namespace, labels.model_value(key.name)


def _moved(before: PodObserved, after: PodObserved) -> bool:
    return _traffic_facts(before) != _traffic_facts(after)


def _traffic_facts(pod: PodObserved) -> tuple[object, ...]:
    """Return what decides whether a pod receives requests; a Service drops one that ends."""
    runtime, ends = pod.runtime, pod.deleting or pod.phase in {"Succeeded", "Failed"}
    return pod.ready, ends, pod.ip, runtime.container_id, runtime.started
