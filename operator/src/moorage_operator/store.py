"""What the operator knows of the world, in memory: models, their children, pods and answers.

Fed by kopf's watch (models), the reflectors (children, pods), the poller (answers) and by the
operator's own writes, whose results are newer than any watch. Each change says whose model it
concerns. Lost with the process and rebuilt from lists; nothing is decided here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import labels, names
from .answers import ProbeResult
from .api import v1alpha1
from .packing import PackedModel, pack_model, unpack_model
from .state import (
    ObjectKey,
    Observed,
    Reference,
    ReferenceState,
    Refusal,
    RevisionRecord,
)
from .urgency import Urgency
from .watched import (
    ChildKey,
    ChildObserved,
    DeploymentObserved,
    PodObserved,
)

OWNER = b"\0"
"""Stands for the owner's uid; JSON has no such byte."""

OPENED = 64
"""Models that stay unpacked: those that the workers are at, and are about to come back to."""

Place = tuple[str, str]
"""Namespace and the value of the label that names the model; what a child knows of its model."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """An InferenceModel as the API server has it."""

    key: ObjectKey
    model: v1alpha1.InferenceModel
    resource_version: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Child:
    """An object of one of the kinds of children that carries our label.

    Attributes:
        owner_uid: Uid of its controller, "" when it has none.
        common_fields: FieldsV1 of our field manager, as JSON without the owner's uid: so it is
            the same in most models, and kept once.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    applied_hash: str
    deleting: bool
    common_fields: bytes
    observed: DeploymentObserved | ChildObserved

    @property
    def fields(self) -> bytes:
        """FieldsV1 of our field manager, as JSON."""
        return self.common_fields.replace(OWNER, self.owner_uid.encode())


class Store:
    """The operator's picture of the cluster.

    Args:
        changed: Called with the model that a change concerns, and how urgent it is.
        pod_moved: Called with the uid of a pod whose readiness, address or container changed.
    """

    def __init__(
        self,
        *,
        changed: Callable[[ObjectKey, Urgency], None],
        pod_moved: Callable[[str], None],
    ) -> None:
        self._changed = changed
        self._pod_moved = pod_moved
        self._models: dict[ObjectKey, PackedModel] = {}
        self._opened: dict[ObjectKey, ModelRecord] = {}  # those of the latest passes
        self._keys: dict[Place, ObjectKey] = {}
        self._children: dict[Place, dict[ChildKey, Child]] = {}
        self._child_places: dict[str, tuple[Place, ChildKey]] = {}
        self._available_kinds: frozenset[str] = frozenset()
        self._pods: dict[Place, dict[str, PodObserved]] = {}
        self._pod_places: dict[str, Place] = {}
        self._probes: dict[str, ProbeResult] = {}
        self._references: dict[ObjectKey, Mapping[Reference, ReferenceState]] = {}
        self._refusals: dict[ObjectKey, dict[tuple[str, str], Refusal]] = {}
        self._history: dict[ObjectKey, Mapping[str, RevisionRecord | None]] = {}

    # -------------------------------------------------------------------- models

    def put_model(self, body: Mapping[str, Any], urgency: Urgency = Urgency.SPEC) -> None:
        """The resource as watched, or, of less urgency, as our own status write returned it."""
        metadata = body["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        known = self._models.get(key)
        version = metadata["resourceVersion"]
        if known and known.uid == metadata["uid"]:
            if not is_newer(version, known.resource_version):
                return
        elif known:
            self._refusals.pop(key, None)  # another object of the same name
            self._history.pop(key, None)
        self._models[key] = pack_model(body)
        self._opened.pop(key, None)
        self._keys[_place(key)] = key
        self._changed(key, urgency)

    def drop_model(self, key: ObjectKey, uid: str) -> None:
        """The resource is gone; ignored when another one has taken its name."""
        known = self._models.get(key)
        if known is None or known.uid != uid:
            return
        del self._models[key]
        self._opened.pop(key, None)
        self._keys.pop(_place(key), None)
        self._references.pop(key, None)
        self._refusals.pop(key, None)
        self._history.pop(key, None)
        self._changed(key, Urgency.ROUTINE)

    def model(self, key: ObjectKey) -> ModelRecord | None:
        """The resource, None when it does not exist."""
        packed = self._models.get(key)
        if packed is None:
            return None
        record = self._opened.get(key)
        if record is None:
            record = self._opened[key] = _open(key, packed)
            while len(self._opened) > OPENED:
                del self._opened[next(iter(self._opened))]
        return record

    def uids(self) -> dict[ObjectKey, str]:
        """The uid of each resource."""
        return {key: packed.uid for key, packed in self._models.items()}

    def readiness(self) -> Counter[str]:
        """How many resources have which status of Ready, "" where they have none yet."""
        return Counter(packed.ready for packed in self._models.values())

    # -------------------------------------------------------------------- children

    def put_child(self, place: Place, child: Child, *, news: bool = True) -> None:
        """The child as watched, or as our own apply returned it, which is no news to its pass."""
        kept = self._children.setdefault(place, {})
        slot = (child.kind, child.name)
        known = kept.get(slot)
        if (
            known
            and known.uid == child.uid
            and not is_newer(child.resource_version, known.resource_version)
        ):
            return
        moved = self._child_places.get(child.uid)
        if moved and moved != (place, slot):
            self.drop_child(child.uid)  # its label was edited
        kept = self._children.setdefault(place, kept)
        kept[slot] = child
        self._child_places[child.uid] = (place, slot)
        # An autoscaler writes what it measured every few seconds; that is no news for a plan.
        if news and (
            not known or replace(known, resource_version=child.resource_version) != child
        ):
            self._tell(place)

    def drop_child(self, uid: str) -> None:
        """The child is gone, or lost our label."""
        place, slot = self._child_places.pop(uid, (None, None))
        if place is None or slot is None:
            return
        kept = self._children.get(place, {})
        if (known := kept.get(slot)) and known.uid == uid:
            del kept[slot]
        if not kept:
            self._children.pop(place, None)
        self._tell(place, Urgency.SPEC)

    def child(self, key: ObjectKey, kind: str, name: str) -> Child | None:
        """A child of the model, None when it was not seen."""
        return self._children.get(_place(key), {}).get((kind, name))

    def children(self, record: ModelRecord) -> list[Child]:
        """All children that the model owns."""
        found = self._children.get(_place(record.key), {}).values()
        return [child for child in found if child.owner_uid == record.model.uid]

    def put_available_kinds(self, available: frozenset[str]) -> None:
        """The optional kinds of children that the cluster has now; concerns every model."""
        if available != self._available_kinds:
            self._available_kinds = available
            for key in self._models:
                self._changed(key, Urgency.ROUTINE)

    # -------------------------------------------------------------------- pods and answers

    def put_pod(self, place: Place, pod: PodObserved) -> None:
        """The pod as watched."""
        known = self._pods.get(place, {}).get(pod.uid)
        if known == pod:
            return
        if self._pod_places.get(pod.uid, place) != place:
            self.drop_pod(pod.uid)
        self._pods.setdefault(place, {})[pod.uid] = pod
        self._pod_places[pod.uid] = place
        moved = known is not None and _moved(known, pod)
        if known is None or moved:
            self._pod_moved(pod.uid)
        waits = known is not None and known.runtime.waiting_reason != pod.runtime.waiting_reason
        self._tell(place, Urgency.READINESS if moved or waits else Urgency.ROUTINE)

    def drop_pod(self, uid: str) -> None:
        """The pod is gone, with everything that was learnt of it."""
        self._probes.pop(uid, None)
        place = self._pod_places.pop(uid, None)
        if place is None:
            return
        kept = self._pods.get(place, {})
        kept.pop(uid, None)
        if not kept:
            self._pods.pop(place, None)
        self._tell(place, Urgency.READINESS)

    def count_pods(self, key: ObjectKey) -> int:
        """Pods of the model, of whatever revision."""
        return len(self._pods.get(_place(key), ()))

    def put_probe(self, key: ObjectKey, result: ProbeResult) -> None:
        """A pod's answers; of a pod that is gone they are forgotten."""
        if result.pod_uid in self._pod_places:
            self._probes[result.pod_uid] = result
            self._changed(key, Urgency.READINESS)

    # -------------------------------------------------------------------- references, refusals

    def put_references(self, key: ObjectKey, states: Mapping[Reference, ReferenceState]) -> None:
        """What is known of the objects that the model names."""
        if self._references.get(key, {}) != states and key in self._models:
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
        pods = sorted(self._pods.get(place, {}).values(), key=lambda pod: pod.name)
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
        if key := self._keys.get(place):
            self._changed(key, urgency)


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is later than another of the same object.

    Source: Kubernetes API concepts, "Resource versions": for built-in and custom resources they
    are decimal integers that may be compared. Where one is not, the later arrival counts.
    """
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than


def _open(key: ObjectKey, packed: PackedModel) -> ModelRecord:
    body = unpack_model(packed)
    return ModelRecord(key, v1alpha1.parse(body), packed.resource_version, body["status"])


def _place(key: ObjectKey) -> Place:
    return key.namespace, labels.model_value(key.name)


def _moved(before: PodObserved, after: PodObserved) -> bool:
    return (before.ready, before.ip, before.runtime.container_id, before.runtime.started) != (
        after.ready,
        after.ip,
        after.runtime.container_id,
        after.runtime.started,
    )
