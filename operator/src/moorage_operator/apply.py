"""A plan's objects, written by server-side apply, and only where it is needed.

    plan.objects --> **Applier** --> server-side apply, delete --> store

The plan's objects are the whole set: a child of the model that is not among them is deleted. What
is not there yet is made at once, all of it together; what is there is changed in the plan's order.

A child is left alone while it carries the planned hash and every planned field is still ours
(`ownership`); so nothing is written when nothing changed, and whatever is edited by hand comes
back. A refused object is no exception but a `Refusal` in the store, which the next plan turns into
a condition. What a write returns goes into the store, so that the next pass never looks at
something older than its own writes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from . import names, ownership
from .existence import Existence, ModelGone
from .kube import errors, kinds
from .kube.client import KubeClient
from .kube.reflector import Sink
from .opened import ModelRecord
from .state import ObjectKey, Refusal
from .store import Store
from .watched import Child, ChildKey

logger = logging.getLogger(__name__)

Object = Mapping[str, Any]

NAME_TAKEN = "AlreadyExists"
"""The reason of a refusal for a name that belongs to somebody else; the API's own word."""

REFUSED_SECONDS = 10.0
"""A refused child is not sent again before; the plan asks for a pass after 15 s."""

NEVER = "1"
"""A resourceVersion that no object has: the store's first is given to no object."""

INTACT = 4096
"""Children that were found to be as planned and are not compared again; some 200 bytes each."""


class ChildSink(Sink, Protocol):
    """Where children go."""

    def keep(self, body: dict[str, Any]) -> None:
        """A child as our own apply returned it."""
        ...


class Applier:
    """Applies children.

    Args:
        client: The API.
        store: Tells what is there; takes refusals.
        existence: Tells which models are known to exist.
        sinks: Where the reflectors put children, by kind; what an apply returns goes there too.
        wrote: Called with the kind of each write.
        missing: Called when the API server does not know the kind of a child any more.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 -- what it acts with, and three injected edges
        self,
        client: KubeClient,
        store: Store,
        existence: Existence,
        sinks: Mapping[str, ChildSink],
        *,
        wrote: Callable[[str], None],
        missing: Callable[[], None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._store = store
        self._existence = existence
        self._sinks = sinks
        self._wrote = wrote
        self._missing = missing
        self._clock = clock
        # Fields that the API server dropped from our own apply: they will never be ours.
        self._dropped: dict[str, frozenset[str]] = {}
        # By the hash of a child, our fields of it with which it was as planned.
        self._intact: dict[str, bytes] = {}
        # When each child of a model was refused last.
        self._refused_at: dict[tuple[ObjectKey, str, str], float] = {}

    async def apply(
        self, record: ModelRecord, objects: tuple[Object, ...], *, keeps_others: bool
    ) -> bool:
        """Whether anything was written or refused, so that the plan must be made again.

        Args:
            record: The model.
            objects: All the children that it should have.
            keeps_others: Leave its other children alone.

        Raises:
            ModelGone: The model is gone.
            ApiError: The API server could not be reached, or is in trouble: try again.
        """
        missing: list[Object] = []
        there: list[Object] = []
        for body in objects:
            (there if self._store.child(record.key, *_key(body)) else missing).append(body)
        changed = await self._create_missing(record, missing)
        for body in there:
            changed |= await self._apply_child(record, body)
        if keeps_others:
            return changed
        planned = {_key(body) for body in objects}
        # What takes another child's place has to be there first.
        refused = {str(body["kind"]) for body in objects if self._is_refused(record, body)}
        for child in self._store.children(record):
            is_planned = (child.kind, child.name) in planned
            if not is_planned and not child.deleting and child.kind not in refused:
                changed |= await self._delete_child(record, child)
        return changed

    async def _create_missing(self, record: ModelRecord, missing: Sequence[Object]) -> bool:
        """Whether anything was made or refused.

        Nothing that is missing waits for another: a Deployment has no use for its Service.
        """
        wanted = [body for body in missing if not self._was_just_refused(record.key, body)]
        if not wanted:
            return False
        await self._check_exists(record)  # once for all of them
        outcomes = await asyncio.gather(
            *(self._apply_child(record, body) for body in wanted), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return any(outcomes)

    async def _apply_child(self, record: ModelRecord, body: Object) -> bool:
        kind, name = _key(body)
        child = self._store.child(record.key, kind, name)
        if child and child.deleting:
            return False  # its DELETED event starts the next pass
        if child and child.owner_uid == record.model.uid and self._is_applied(child, body):
            return self._clear(record.key, kind, name)
        if self._was_just_refused(record.key, body):
            return False
        try:
            if child and _is_ours(child, record):
                written = await self._send(body)
            else:
                with self._store.expecting_child(record.key, kind, name, _applied_hash(body)):
                    written = await self._create(record, body, seen=child is not None)
        except (errors.Invalid, errors.Forbidden, _NameTaken) as error:
            return self._refuse(record.key, body, error)
        except errors.NotFound:
            if kind in kinds.OPTIONAL:
                self._missing()
            raise
        self._keep(record, body, written)
        self._clear(record.key, kind, name)
        return True

    async def _send(self, body: Object) -> dict[str, Any]:
        kind = kinds.CHILDREN[str(body["kind"])]
        return await self._client.apply(kind, body, field_manager=names.FIELD_MANAGER)

    async def _create(self, record: ModelRecord, body: Object, *, seen: bool) -> dict[str, Any]:
        """Apply an object that is not the model's yet, and take nobody else's.

        Apply would take over an object of the same name that belongs to somebody else, and would
        make a child for a model whose deletion was missed. With a resourceVersion that no object
        has it creates or conflicts; only after a conflict is it worth looking who has the name.

        Source: Kubernetes API concepts, "Resource versions", and Server-Side Apply, "Operations":
        an apply with another resourceVersion than the object's is answered with 409.
        """
        await self._check_exists(record)
        if not seen:
            metadata = {**body["metadata"], "resourceVersion": NEVER}
            try:
                return await self._send({**body, "metadata": metadata})
            except errors.Conflict:
                pass  # the name is taken, perhaps by an object of ours that lost its label
        await self._check_free(record, body)
        return await self._send(body)

    async def _delete_child(self, record: ModelRecord, child: Child) -> bool:
        """Whether the child was deleted."""
        # Of a spec that is not the newest nobody knows what it has no use for.
        if not await self._is_newest(record):
            return False
        try:
            await self._client.delete(
                kinds.CHILDREN[child.kind],
                record.key.namespace,
                child.name,
                uid=child.uid,
                resource_version=child.resource_version,
            )
        except (errors.NotFound, errors.Conflict):
            return False  # its watch event is under way and starts the next pass
        except errors.Forbidden as error:
            logger.warning(
                "child cannot be deleted",
                extra={"kind": child.kind, "object": child.name, "error": error.message},
            )
            return False
        logger.info("child deleted", extra={"kind": child.kind, "object": child.name})
        self._wrote(child.kind)
        self._sinks[child.kind].drop(child.uid)
        return True

    def _is_refused(self, record: ModelRecord, body: Object) -> bool:
        kind, name = _key(body)
        refusal = self._store.refusal(record.key, kind, name)
        return refusal is not None and refusal.applied_hash == _applied_hash(body)

    def _is_applied(self, child: Child, body: Object) -> bool:
        planned_hash = _applied_hash(body)
        if child.applied_hash != planned_hash:
            return False
        if self._intact.get(planned_hash) == child.common_fields:
            return True
        lost = ownership.lost(body, child.fields) - self._dropped.get(child.uid, frozenset())
        if lost:
            logger.info(
                "child was edited",
                extra={"kind": child.kind, "object": child.name, "fields": sorted(lost)[:10]},
            )
            return False
        self._found_intact(child)
        return True

    def _found_intact(self, child: Child) -> None:
        self._intact[child.applied_hash] = child.common_fields
        while len(self._intact) > INTACT:
            del self._intact[next(iter(self._intact))]

    def _was_just_refused(self, key: ObjectKey, body: Object) -> bool:
        # Quota and admission may change their mind, so it is tried again; but not at each event.
        # Whether a name is free again is asked each time: no write, and often that is the event.
        kind, name = _key(body)
        refusal = self._store.refusal(key, kind, name)
        return (
            refusal is not None
            and refusal.reason != NAME_TAKEN
            and refusal.applied_hash == _applied_hash(body)
            and self._clock() - self._refused_at[key, kind, name] < REFUSED_SECONDS
        )

    async def _check_free(self, record: ModelRecord, body: Object) -> None:
        """The child's name must be free, or taken by an object that is the model's.

        Raises:
            _NameTaken: It is somebody else's.
        """
        kind, name = kinds.CHILDREN[str(body["kind"])], str(body["metadata"]["name"])
        try:
            found = await self._client.get(kind, record.key.namespace, name, metadata_only=True)
        except errors.NotFound:
            return
        owners = found["metadata"].get("ownerReferences") or []
        if not any(owner["uid"] == record.model.uid for owner in owners):
            raise _NameTaken(_whose(str(body["kind"]), name, owners, record))

    async def _check_exists(self, record: ModelRecord) -> None:
        """The model must exist, as something has just shown, or as the API server says.

        Raises:
            ModelGone: It does not.
        """
        if not self._existence.is_known(record.model.uid):
            await self._check_model(record)
            self._existence.saw(record.model.uid)

    async def _is_newest(self, record: ModelRecord) -> bool:
        """Whether the API server has no newer spec.

        Raises:
            ModelGone: It has no such model.
        """
        return await self._check_model(record) == record.model.generation

    async def _check_model(self, record: ModelRecord) -> int:
        """The generation of the model as the API server has it."""
        try:
            found = await self._client.get(
                kinds.INFERENCE_MODELS, record.key.namespace, record.key.name, metadata_only=True
            )
        except errors.NotFound as error:
            raise ModelGone from error
        if found["metadata"]["uid"] != record.model.uid:
            raise ModelGone
        return int(found["metadata"].get("generation", 0))

    def _keep(self, record: ModelRecord, body: Object, written: dict[str, Any]) -> None:
        (kind, name), uid = _key(body), str(written["metadata"]["uid"])
        self._wrote(kind)
        dropped = ownership.lost(body, ownership.fields_of(written, names.FIELD_MANAGER))
        if dropped:
            self._dropped[uid] = dropped
        else:
            self._dropped.pop(uid, None)
        self._sinks[kind].keep(written)
        child = self._store.child(record.key, kind, name)
        if child and child.uid == uid:
            self._found_intact(child)

    def _refuse(self, key: ObjectKey, body: Object, error: errors.ApiError) -> bool:
        kind, name = _key(body)
        refusal = Refusal(kind, name, _applied_hash(body), error.code, error.reason, error.message)
        known = self._store.refusal(key, kind, name)
        self._store.put_refusal(key, refusal)
        self._refused_at[key, kind, name] = self._clock()
        if known != refusal:
            logger.warning(
                "child refused", extra={"kind": kind, "object": name, "error": error.message}
            )
        return known != refusal

    def _clear(self, key: ObjectKey, kind: str, name: str) -> bool:
        refused = self._store.refusal(key, kind, name) is not None
        self._store.clear_refusal(key, kind, name)
        return refused


class _NameTaken(errors.ApiError):
    """The child's name belongs to an object that is not the model's."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=409, reason=NAME_TAKEN)


def _is_ours(child: Child, record: ModelRecord) -> bool:
    # A child that we applied and that nobody owns was orphaned, by an edit or by a deletion of its
    # model with --cascade=orphan: it is taken back.
    return child.owner_uid == record.model.uid or (not child.owner_uid and bool(child.fields))


def _key(body: Object) -> ChildKey:
    return str(body["kind"]), str(body["metadata"]["name"])


def _applied_hash(body: Object) -> str:
    return str(body["metadata"]["annotations"][names.APPLIED_HASH])


def _whose(kind: str, name: str, owners: list[Any], record: ModelRecord) -> str:
    for owner in owners:
        if owner.get("kind") == names.KIND and owner.get("name") == record.key.name:
            return (
                f"{kind} {name!r} belongs to a deleted InferenceModel of the same name and waits "
                "for garbage collection"
            )
    owned = f"{owners[0]['kind']} {owners[0]['name']!r}" if owners else "nobody"
    return (
        f"{kind} {name!r} exists and belongs to {owned}: rename the InferenceModel or delete "
        f"the {kind}"
    )
