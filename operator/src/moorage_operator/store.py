"""What the operator knows of the world, in memory: models, their children, pods and answers.

Fed by kopf's watch (models), the reflectors (children, pods), the poller (answers) and by the
operator's own writes, whose results are newer than any watch. Each change says whose model it
concerns. What nothing happens to is packed (`packing`): a pass unpacks its own model and pods.
Lost with the process and rebuilt from lists; nothing is decided here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from . import labels, names
from .answers import ProbeResult
from .api.v1alpha1 import is_parsed_from
from .kube.versions import is_newer
from .opened import ModelRecord, OpenModels
from .packing import UNPACKED, ChildPacker, ModelPacker, PackedChild, PackedModel, Packer
from .state import (
    ObjectKey,
    Observed,
    Reference,
    ReferenceState,
    Refusal,
    RevisionRecord,
)
from .urgency import Urgency
from .watched import Child, ChildKey, DeploymentObserved, PodObserved

GONE = 1024
"""Children whose end is remembered, in case an answer to an apply comes behind the news of it."""

Place = tuple[str, str]
"""Namespace and the value of the label that names the model; what a child knows of its model."""


@dataclass(slots=True)
class _Family:
    """A model with what belongs to it; either may be seen before the other.

    Children by kind and name, pods packed by uid.
    """

    key: ObjectKey | None = None
    model: PackedModel | None = None
    children: dict[ChildKey, PackedChild] = field(default_factory=dict[ChildKey, PackedChild])
    pods: dict[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is left."""
        return self.model is None and not self.children and not self.pods


class Store:
    """The operator's picture of the cluster.

    Args:
        changed: Called with the model that a change concerns, and how urgent it is.
        pod_moved: Called with the uid of a pod whose readiness, address or container changed.
        child_gone: Called with the uid of a model that has lost a child.
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
        self._pack_model = ModelPacker()
        self._open = OpenModels(self._pack_model, count=lambda: len(self._families))
        self._pack_child = ChildPacker()
        self._pack_pod: Packer[PodObserved] = Packer(PodObserved, kept=UNPACKED)
        self._child_places: dict[str, Place] = {}
        self._expected_statuses: dict[ObjectKey, Mapping[str, Any]] = {}
        self._expected_children: dict[tuple[Place, str, str], str] = {}
        self._gone: dict[str, str] = {}  # uids of children, with the versions that they went with
        self._pod_places: dict[str, Place] = {}
        self._available_kinds: frozenset[str] = frozenset()
        self._probes: dict[str, ProbeResult] = {}
        self._references: dict[ObjectKey, Mapping[Reference, ReferenceState]] = {}
        self._refusals: dict[ObjectKey, dict[tuple[str, str], Refusal]] = {}
        self._history: dict[ObjectKey, Mapping[str, RevisionRecord | None]] = {}

    # -------------------------------------------------------------------- models

    def put_written(self, record: ModelRecord, body: Mapping[str, Any]) -> None:
        """The resource as our own status write returned it, for the pass over the record.

        It is no news unless somebody has edited the resource before the write: the event of that
        edit, should it come behind this answer, is older than what is known by then. One that was
        dropped meanwhile, because it is gone or another installation serves it now, stays dropped.
        """
        known = self._packed(record.key)
        if known is None or known.uid != body["metadata"]["uid"]:
            return
        is_edited = not is_parsed_from(record.model, body)
        if self._put_model(record.key, body) is not None and is_edited:
            self._changed(record.key, _urgency_of(body))

    def put_model(self, body: Mapping[str, Any]) -> None:
        """The resource as watched; what the pass that wrote it awaits does not begin another."""
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        has_same_spec = self._put_model(key, body)
        awaited = has_same_spec and body.get("status") == self._expected_statuses.get(key)
        if has_same_spec is not None and not awaited:
            self._changed(key, _urgency_of(body))

    def _put_model(self, key: ObjectKey, body: Mapping[str, Any]) -> bool | None:
        """Whether no more than its status is new of a model that is open; None: nothing is."""
        metadata = body["metadata"]
        family = self._family(_place(key))
        known = family.model
        if known and known.uid == metadata["uid"]:
            if not is_newer(metadata["resourceVersion"], known.resource_version):
                return None
        elif known:
            self._refusals.pop(key, None)  # another object of the same name
            self._history.pop(key, None)
        family.key = key
        family.model = self._pack_model.pack(body)
        return self._open.renew(key, family.model, body)

    @contextmanager
    def expecting_status(self, key: ObjectKey, status: Mapping[str, Any]) -> Generator[None]:
        """While a status is written, whose event may come before the answer: it is no news."""
        self._expected_statuses[key] = status
        try:
            yield
        finally:
            del self._expected_statuses[key]

    def drop_model(self, key: ObjectKey, uid: str) -> None:
        """The resource is gone; ignored when another one has taken its name."""
        place = _place(key)
        family = self._families.get(place)
        if family is None or family.model is None or family.model.uid != uid:
            return
        family.key = family.model = None
        self._tidy(place)
        self._open.close(key)
        self._references.pop(key, None)
        self._refusals.pop(key, None)
        self._history.pop(key, None)
        self._changed(key, Urgency.ROUTINE)

    def model(self, key: ObjectKey) -> ModelRecord | None:
        """The resource, None when it does not exist."""
        packed = self._packed(key)
        return self._open.open(key, packed) if packed else None

    def uids(self) -> dict[ObjectKey, str]:
        """The uid of each resource."""
        return {
            family.key: family.model.uid
            for family in self._families.values()
            if family.key and family.model
        }

    def readiness(self) -> Counter[str]:
        """How many resources have which status of Ready, "" where they have none yet."""
        return Counter(family.model.ready for family in self._families.values() if family.model)

    # -------------------------------------------------------------------- children

    def put_child(self, place: Place, child: Child, *, news: bool = True) -> None:
        """The child as watched, or as our own apply returned it, which is no news to its pass."""
        if self._is_gone(child):
            self._tell(place, Urgency.SPEC)  # whoever awaited that answer takes it for there
            return
        known = self._child(place, child.kind, child.name)
        same = known is not None and known.uid == child.uid
        if known and same and not is_newer(child.resource_version, known.resource_version):
            return
        if self._child_places.get(child.uid, place) != place:
            self.drop_child(child.uid)  # its label was edited
        slot = (place, child.kind, child.name)
        self._family(place).children[child.kind, child.name] = self._pack_child.pack(child)
        self._child_places[child.uid] = place
        if known is None and self._expected_children.get(slot) == child.applied_hash:
            return
        # An autoscaler writes what it measured every few seconds; that is no news for a plan.
        if news and (
            not known or replace(known, resource_version=child.resource_version) != child
        ):
            self._tell(place)

    @contextmanager
    def expecting_child(
        self, key: ObjectKey, kind: str, name: str, applied_hash: str
    ) -> Generator[None]:
        """While a child is made, whose event may come before the answer: it is no news."""
        slot = (_place(key), kind, name)
        self._expected_children[slot] = applied_hash
        try:
            yield
        finally:
            del self._expected_children[slot]

    def drop_child(self, uid: str, version: str = "") -> None:
        """The child is gone, or lost our label; its last version, where it is known."""
        self._gone[uid] = version
        if len(self._gone) > GONE:
            del self._gone[next(iter(self._gone))]
        place = self._child_places.pop(uid, None)
        if place is None:
            return
        family = self._family(place)
        for slot in [slot for slot, child in family.children.items() if child.uid == uid]:
            del family.children[slot]
        if family.model:
            self._child_gone(family.model.uid)
        self._tell(place, Urgency.SPEC)
        self._tidy(place)

    def _is_gone(self, child: Child) -> bool:
        """Whether the news of its end came first: an answer to an apply may be that late."""
        went = self._gone.get(child.uid)
        if went is None:
            return False
        if is_newer(child.resource_version, went):  # it had lost its label, and has it again
            del self._gone[child.uid]
            return False
        return True

    def child(self, key: ObjectKey, kind: str, name: str) -> Child | None:
        """A child of the model, None when it was not seen."""
        return self._child(_place(key), kind, name)

    def children(self, record: ModelRecord) -> list[Child]:
        """All children that the model owns."""
        family = self._families.get(_place(record.key))
        kept = family.children.items() if family else ()
        found = [self._pack_child.unpack(kind, child) for (kind, _), child in kept]
        return [child for child in found if child.owner_uid == record.model.uid]

    def put_available_kinds(self, available: frozenset[str]) -> None:
        """The optional kinds of children that the cluster has now; concerns every model."""
        if available != self._available_kinds:
            self._available_kinds = available
            for key in self.uids():
                self._changed(key, Urgency.ROUTINE)

    # -------------------------------------------------------------------- pods and answers

    def put_pod(self, place: Place, pod: PodObserved) -> None:
        """The pod as watched."""
        family = self._families.get(place)
        known = family.pods.get(pod.uid) if family else None
        packed = self._pack_pod.pack(pod)
        if known == packed:
            return
        if self._pod_places.get(pod.uid, place) != place:
            self.drop_pod(pod.uid)
        self._family(place).pods[pod.uid] = packed
        self._pod_places[pod.uid] = place
        self._tell_of_pod(place, self._pack_pod.unpack(known) if known else None, pod)

    def drop_pod(self, uid: str) -> None:
        """The pod is gone, with everything that was learnt of it."""
        self._probes.pop(uid, None)
        place = self._pod_places.pop(uid, None)
        if place is None:
            return
        self._family(place).pods.pop(uid, None)
        self._tell(place, Urgency.READINESS)
        self._tidy(place)

    def count_pods(self, key: ObjectKey) -> int:
        """Pods of the model, of whatever revision."""
        family = self._families.get(_place(key))
        return len(family.pods) if family else 0

    def put_probe(self, key: ObjectKey, result: ProbeResult) -> None:
        """A pod's answers; of a pod that is gone they are forgotten."""
        if result.pod_uid in self._pod_places:
            self._probes[result.pod_uid] = result
            self._changed(key, Urgency.READINESS)

    # -------------------------------------------------------------------- references, refusals

    def put_references(self, key: ObjectKey, states: Mapping[Reference, ReferenceState]) -> None:
        """What is known of the objects that the model names."""
        if self._references.get(key, {}) != states and self._packed(key):
            self._references[key] = states
            self._changed(key, Urgency.ROUTINE)

    def refusal(self, key: ObjectKey, kind: str, name: str) -> Refusal | None:
        """The last refusal of a child, None when its last apply succeeded."""
        return self._refusals.get(key, {}).get((kind, name))

    def put_refusal(self, key: ObjectKey, refusal: Refusal) -> None:
        """The API server refused a child."""
        self._refusals.setdefault(key, {})[refusal.kind, refusal.name] = refusal

    def clear_refusal(self, key: ObjectKey, kind: str, name: str) -> None:
        """The child was applied."""
        kept = self._refusals.get(key, {})
        kept.pop((kind, name), None)
        if not kept:
            self._refusals.pop(key, None)

    # -------------------------------------------------------------------- earlier revisions

    def put_history(self, key: ObjectKey, found: Mapping[str, RevisionRecord | None]) -> None:
        """What was read of revisions of the model, beside what was read before."""
        self._history[key] = {**self._history.get(key, {}), **found}

    def keep_history(self, key: ObjectKey, revisions: Collection[str]) -> None:
        """Forget what was read of other revisions than these."""
        kept = self._history.get(key, {})
        if left := {name: record for name, record in kept.items() if name in revisions}:
            self._history[key] = left
        else:
            self._history.pop(key, None)

    # -------------------------------------------------------------------- the plan's view

    def observed(self, key: ObjectKey) -> Observed:
        """Everything about one model, for its plan; pods in the order of their names."""
        place = _place(key)
        record = self.model(key)
        family = self._families.get(place, _Family())
        pods = sorted(map(self._pack_pod.unpack, family.pods.values()), key=lambda pod: pod.name)
        mine = self.children(record) if record else []
        children = {(child.kind, child.name): child.observed for child in mine}
        deployment = children.get(("Deployment", names.deployment(key.name)))
        return Observed(
            deployment=deployment if isinstance(deployment, DeploymentObserved) else None,
            children=children,
            available_kinds=self._available_kinds,
            pods=tuple(pods),
            probes={pod.uid: self._probes[pod.uid] for pod in pods if pod.uid in self._probes},
            references=self._references.get(key, {}),
            refusals=tuple(self._refusals.get(key, {}).values()),
            history=self._history.get(key, {}),
            status=record.status if record else {},
        )

    def _tell(self, place: Place, urgency: Urgency = Urgency.ROUTINE) -> None:
        family = self._families.get(place)
        if family and family.key:
            self._changed(family.key, urgency)

    def _tell_of_pod(self, place: Place, before: PodObserved | None, pod: PodObserved) -> None:
        # A list shows a pod that became ready while nobody watched for the first time as it is.
        moved = pod.ready if before is None else _moved(before, pod)
        if before is None or moved:
            self._pod_moved(pod.uid)
        waits = before is not None and before.runtime.waiting_reason != pod.runtime.waiting_reason
        self._tell(place, Urgency.READINESS if moved or waits else Urgency.ROUTINE)

    def _family(self, place: Place) -> _Family:
        """What is known of a model, made where nothing is known yet."""
        if place not in self._families:
            self._families[place] = _Family()
        return self._families[place]

    def _tidy(self, place: Place) -> None:
        if self._families[place].is_empty:
            del self._families[place]

    def _packed(self, key: ObjectKey) -> PackedModel | None:
        family = self._families.get(_place(key))
        return family.model if family else None

    def _child(self, place: Place, kind: str, name: str) -> Child | None:
        family = self._families.get(place)
        packed = family.children.get((kind, name)) if family else None
        return self._pack_child.unpack(kind, packed) if packed else None


def _urgency_of(body: Mapping[str, Any]) -> Urgency:
    """A spec that the status tells of is no new one: mostly that is our own write's event."""
    told = (body.get("status") or {}).get("observedGeneration")
    is_told = told is not None and told == body["metadata"].get("generation")
    return Urgency.ROUTINE if is_told else Urgency.SPEC


def _place(key: ObjectKey) -> Place:
    return key.namespace, labels.model_value(key.name)


def _moved(before: PodObserved, after: PodObserved) -> bool:
    return (before.ready, before.ip, before.runtime.container_id, before.runtime.started) != (
        after.ready,
        after.ip,
        after.runtime.container_id,
        after.runtime.started,
    )
