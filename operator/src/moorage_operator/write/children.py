"""Applies the objects of a plan with server-side apply, and only if they differ.

    plan.objects --> **Applier** --> server-side apply, delete --> store

The plan lists all children of a model; any other child is deleted. Missing children are created
concurrently, but Deployments and autoscalers after the others (`turns`); existing ones are changed
in the plan's order. The NetworkPolicy comes before all others, so that no pod runs without it.
Until it is applied, the only other change is a Deployment that is scaled to zero.

A child is unchanged if it has the planned hash and all planned fields are still ours
(`field_ownership`). So the operator writes only what changed, and reverts manual edits, as long as
nobody makes them again and again (`contests`). A refused object, a refused deletion or a failed
write does not stop the others: it becomes a `Refusal` in the store, which the next plan reports as
a condition, and it is retried later. The result of a write goes into the store, so the next
reconcile never sees a state older than its own writes.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from moorage_operator.api import names
from moorage_operator.kube import errors, field_ownership, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Sink
from moorage_operator.store.existence import Existence, ModelDropped, ModelGone
from moorage_operator.store.store import Store
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import AppliedState, Child, ChildKey
from moorage_operator.values.observed import ObjectKey, Refusal

from .adoption import Adoption, is_ours, is_restored
from .contests import Contests, Place
from .kept_labels import check_labels
from .leftovers import Leftovers
from .taken_names import CHECKED_EACH_TIME, NameTaken, being_deleted, still_deleting, taken_by
from .turns import LAST, Turns

logger = logging.getLogger(__name__)

Object = Mapping[str, Any]

RETRY_FIRST_SECONDS = 1.0
"""The delay after the first failed write of a child. It doubles up to the delay of a refusal."""

HELD_SHARE = 2 / 3
"""The share of the retry delay that must have passed before a reconcile sends the child again."""

APPLY_SECONDS = 20.0
"""After a failed write and this time, the other children wait for the next reconcile, so that an
admission webhook that hangs does not delay the status."""

GUARD = "NetworkPolicy"

CLASS = "ingressClassName"
"""A field of an Ingress whose default the API server sets only when the Ingress is created."""

IMMUTABLE = "ControllerRevision"
"""A kind whose data must stay the same byte for byte. The API server writes it anew at each patch,
so one that was restored with spaces in its JSON cannot even get an owner."""

NEVER = "1"
"""A resourceVersion that no object has: etcd's first revision belongs to no object."""

INTACT = 4096
"""The number of children known to be unchanged, which are not compared again; 300 bytes each."""


class ChildSink(Sink, Protocol):
    """Receives children."""

    def keep(self, body: dict[str, Any]) -> None:
        """Store a child as our own apply returned it."""
        ...


class Applier:
    """Applies children.

    Args:
        client: The API.
        store: Has the children; takes refusals.
        existence: Has the models that are known to exist.
        sinks: Receive children from the reflectors, and the results of an apply, by kind.
        wrote: Called with the kind of each write.
        turns: Decides the order in which children are written.
        missing: Called when the API server no longer knows the kind of a child.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 -- collaborators and three injected functions
        self,
        client: KubeClient,
        store: Store,
        existence: Existence,
        sinks: Mapping[str, ChildSink],
        *,
        wrote: Callable[[str], None],
        turns: Turns,
        missing: Callable[[], None] = lambda: None,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._leftovers = Leftovers(client)
        self._adoption = Adoption(client, sinks)
        self._contests = Contests(clock)
        self._store = store
        self._existence = existence
        self._sinks = sinks
        self._wrote = wrote
        self._turns = turns
        self._missing = missing
        self._clock = clock
        # Fields that the API server dropped from our apply, by the child's uid; never ours again.
        self._dropped: dict[ObjectKey, dict[str, frozenset[str]]] = {}
        # The states in which a child was unchanged, by its hash.
        self._intact: dict[str, AppliedState] = {}

    async def apply(
        self, record: ModelRecord, objects: tuple[Object, ...], *, keeps_others: bool
    ) -> bool:
        """Apply the children; whether a write was made, refused or failed, which needs a new plan.

        Args:
            record: The model.
            objects: All planned children.
            keeps_others: Do not delete other children.

        Raises:
            ModelGone: The model no longer exists.
            NotLeading: This process is not the leader.
            ApiError: A child that is no longer planned could not be deleted; retry.
        """
        if await self._found_unlabelled(record, objects):
            return True  # the next plan takes it into account
        if not keeps_others and await self._adopted_orphans(record, objects):
            return True  # the next plan keeps or deletes them
        guards = [body for body in objects if body["kind"] == GUARD]
        changed = await self._apply_all(record, guards)
        if not all(self._is_in_place(record, body) for body in guards):
            idle = [body for body in objects if _is_idle(body)]
            return await self._apply_all(record, idle) or changed
        others = [body for body in objects if body["kind"] != GUARD]
        changed |= await self._apply_all(record, others)
        if keeps_others:
            return changed
        planned = {_key(body) for body in objects}
        # A child's replacement must exist before the child is deleted.
        refused = {str(body["kind"]) for body in objects if self._is_refused(record, body)}
        failures: list[errors.ApiError] = []
        unplanned = [
            child
            for child in self._store.children(record)
            if (child.kind, child.name) not in planned and not child.deleting
        ]
        for child in unplanned:
            if child.kind not in refused:
                with errors.collected(failures):
                    changed |= await self._delete_unplanned(record, child)
        if failures:
            raise failures[0]
        return changed

    def retry_seconds(self, key: ObjectKey) -> float | None:
        """Return the delay after which to apply again, because a deletion was refused."""
        found = (
            each.retry_seconds
            for each in self._store.refusals(key)
            if each.deletes
            and (child := self._store.child(key, each.kind, each.name))
            and child.uid == each.deletes
        )
        return min(found, default=None)

    def forget(self, key: ObjectKey) -> None:
        """Free what is known about a deleted model."""
        self._dropped.pop(key, None)

    async def _found_unlabelled(self, record: ModelRecord, objects: Sequence[Object]) -> bool:
        """Whether a Deployment without its label was found.

        Checked before a Deployment is created, and if pods belong to an unknown one.
        """
        planned = {_key(body) for body in objects if body["kind"] == "Deployment"}
        known = {
            child.name for child in self._store.children(record) if child.kind == "Deployment"
        }
        known |= {name for _, name in planned}
        unseen = self._store.deployments_of_pods(record.key) - known
        if not unseen and all(self._store.child(record.key, *key) for key in planned):
            return False
        return await self._adoption.find_unlabelled(record, known=frozenset(known), unseen=unseen)

    async def _adopted_orphans(self, record: ModelRecord, objects: Sequence[Object]) -> bool:
        """Whether a restored or an unplanned child got its owner back or was deleted."""
        planned = {_key(body) for body in objects}
        orphans = [each for each in self._store.orphans(record.key) if not each.deleting]
        restored = [each for each in orphans if is_restored(each, record)]
        unneeded = [
            each
            for each in restored
            if each.kind == IMMUTABLE and (each.kind, each.name) not in planned
        ]
        found = [
            each
            for each in orphans
            if (each.kind, each.name) not in planned and is_ours(each, record)
        ]
        # Deletion with --cascade=orphan removes owner references on purpose.
        if not (found or restored) or not await self._is_newest(record):
            return False
        deleted = [await self._delete_child(record, each) for each in unneeded]
        others = [each for each in restored if each not in unneeded]
        inherited = await self._adoption.inherit(record, others)
        return await self._adoption.adopt(record, found) or inherited or any(deleted)

    async def _apply_all(self, record: ModelRecord, objects: Sequence[Object]) -> bool:
        """Apply these objects; whether any was written, refused or failed."""
        missing: list[Object] = []
        there: list[Object] = []
        for body in objects:
            (there if self._store.child(record.key, *_key(body)) else missing).append(body)
        started = self._clock()
        changed = await self._create_missing(record, missing)
        for body in there:
            late = self._clock() - started > APPLY_SECONDS
            if late and any(self._is_refused(record, each) for each in objects):
                break
            changed |= await self._apply_child(record, body)
        return changed

    async def _create_missing(self, record: ModelRecord, missing: Sequence[Object]) -> bool:
        """Create these objects; whether any was created, refused or failed."""
        wanted = [body for body in missing if not self._was_just_refused(record.key, body)]
        if not wanted:
            return False
        try:
            await self._check_exists(record)  # once for all of them
        except errors.NotLeading:
            raise
        except errors.ApiError as error:
            failed = [self._refuse(record, body, error) for body in wanted]
            return any(failed)
        before = [body for body in wanted if body["kind"] not in LAST]
        after = [body for body in wanted if body["kind"] in LAST]
        created = await self._create_all(record, before)
        return await self._create_all(record, after) or created

    async def _create_all(self, record: ModelRecord, wanted: Sequence[Object]) -> bool:
        """Create these objects concurrently; whether any was created, refused or failed."""
        outcomes = await asyncio.gather(
            *(self._apply_child(record, body) for body in wanted), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return any(outcomes)

    async def _apply_child(self, record: ModelRecord, body: Object) -> bool:
        key, (kind, name) = record.key, _key(body)
        child = self._store.child(key, kind, name)
        if child and child.deleting:  # its DELETED event starts the next reconcile
            is_own = child.owner_uid == record.model.uid
            waiting = being_deleted if is_own else still_deleting
            return self._refuse(record, body, waiting(kind, name))
        if child and child.owner_uid == record.model.uid and self._is_applied(key, child, body):
            return self._clear(key, kind, name)
        if self._was_just_refused(key, body):
            return False
        place, planned = Place(record.model.uid, kind, name), _applied_hash(body)
        try:
            self._contests.check(place, planned)
            if child and is_ours(child, record):
                if _drops_class(body, child) and await self._delete_child(record, child):
                    return True  # the next reconcile creates it
                async with self._turns.turn(key.namespace, kind, is_new=False):
                    self._check_ours(record)
                    written = await self._change(body, child.fields)
            else:
                expecting = self._store.expecting_child(key, kind, name, planned)
                async with self._turns.turn(key.namespace, kind, is_new=True):
                    self._check_ours(record)
                    with expecting:
                        written = await self._create(record, body, seen=child is not None)
            self._contests.wrote(place, planned)
            check_labels(written, body["metadata"]["labels"])
        except errors.NotLeading:
            raise
        except errors.ApiError as error:
            if isinstance(error, errors.NotFound) and kind in kinds.OPTIONAL:
                self._missing()
            return self._refuse(record, body, error)
        self._keep(record, body, written)
        self._clear(key, kind, name)
        return True

    async def _send(self, body: Object) -> dict[str, Any]:
        kind = kinds.CHILDREN[str(body["kind"])]
        return await self._client.apply(kind, body, field_manager=names.FIELD_MANAGER)

    async def _change(self, body: Object, fields: bytes) -> dict[str, Any]:
        """Apply an existing object; a list item with an edited key is replaced.

        Args:
            body: The object.
            fields: FieldsV1 of our field manager, as far as known.
        """
        if field_ownership.lost(body, fields):
            await self._leftovers.take(body)
        try:
            return await self._send(body)
        except errors.Invalid:
            if not await self._leftovers.take(body):
                raise
        return await self._send(body)

    async def _create(self, record: ModelRecord, body: Object, *, seen: bool) -> dict[str, Any]:
        """Apply an object that does not belong to the model yet, without taking over another one.

        Apply would take over an object of the same name with another owner, and would create a
        child of a model whose deletion was missed. With a resourceVersion that no object has, it
        either creates the object or conflicts; only then the operator looks up the existing one.

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
        return await self._change(body, b"")

    async def _delete_unplanned(self, record: ModelRecord, child: Child) -> bool:
        """Delete a child, unless that was just refused; whether the next plan has to report it."""
        known = self._store.refusal(record.key, child.kind, child.name)
        if known and known.deletes == child.uid and self._is_held(known):
            return False
        deleted = await self._delete_child(record, child)
        return deleted or self._store.refusal(record.key, child.kind, child.name) != known

    async def _delete_child(self, record: ModelRecord, child: Child) -> bool:
        """Delete a child; whether it was deleted."""
        async with self._turns.turn(record.key.namespace, child.kind, is_new=False):
            # A newer spec may still use the child.
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
            except errors.NotFound:
                return False  # its watch event starts the next reconcile
            except (errors.Forbidden, errors.Invalid, errors.ServerError) as error:
                self._refuse_deletion(record, child, error)
                return False
        self._store.clear_refusal(record.key, child.kind, child.name)
        logger.info("child deleted", extra={"kind": child.kind, "object": child.name})
        self._contests.forget(Place(record.model.uid, child.kind, child.name))
        self._wrote(child.kind)
        self._sinks[child.kind].drop(child.uid)
        return True

    def _is_in_place(self, record: ModelRecord, body: Object) -> bool:
        """Whether the child exists as planned."""
        child = self._store.child(record.key, *_key(body))
        return (
            child is not None
            and not child.deleting
            and child.owner_uid == record.model.uid
            and self._is_applied(record.key, child, body)
        )

    def _is_refused(self, record: ModelRecord, body: Object) -> bool:
        kind, name = _key(body)
        refusal = self._store.refusal(record.key, kind, name)
        return refusal is not None and refusal.applied_hash == _applied_hash(body)

    def _is_applied(self, key: ObjectKey, child: Child, body: Object) -> bool:
        planned_hash = _applied_hash(body)
        if child.applied_hash != planned_hash:
            return False
        if self._intact.get(planned_hash) == child.applied_state:
            return True
        dropped = self._dropped.get(key, {}).get(child.uid, frozenset())
        lost = field_ownership.lost(body, child.fields) - dropped
        if lost:
            logger.info(
                "child was edited",
                extra={"kind": child.kind, "object": child.name, "fields": sorted(lost)[:10]},
            )
            return False
        self._remember_intact(child)
        return True

    def _remember_intact(self, child: Child) -> None:
        self._intact[child.applied_hash] = child.applied_state
        while len(self._intact) > INTACT:
            del self._intact[next(iter(self._intact))]

    def _was_just_refused(self, key: ObjectKey, body: Object) -> bool:
        # Quota and admission may allow the object later, so it is retried, but not at each event.
        # A name is checked each time: that is no write, and the event may be its deletion.
        kind, name = _key(body)
        refusal = self._store.refusal(key, kind, name)
        return (
            refusal is not None
            and refusal.reason not in CHECKED_EACH_TIME
            and refusal.applied_hash == _applied_hash(body)
            and self._is_held(refusal)
        )

    def _is_held(self, refusal: Refusal) -> bool:
        return self._clock() - refusal.at < refusal.retry_seconds * HELD_SHARE

    async def _check_free(self, record: ModelRecord, body: Object) -> None:
        """Check that the child's name is free or belongs to the model.

        Raises:
            NameTaken: Another object has the name.
        """
        kind, name = kinds.CHILDREN[str(body["kind"])], str(body["metadata"]["name"])
        try:
            found = await self._client.get(kind, record.key.namespace, name, metadata_only=True)
        except errors.NotFound:
            return
        owners = found["metadata"].get("ownerReferences") or []
        if not any(owner["uid"] == record.model.uid for owner in owners):
            raise taken_by(str(body["kind"]), name, owners, record)

    def _check_ours(self, record: ModelRecord) -> None:
        """Check that the model did not go or move to another installation during a slow write.

        Raises:
            ModelDropped: It did.
        """
        if not self._store.has(record.key, record.model.uid):
            raise ModelDropped

    async def _check_exists(self, record: ModelRecord) -> None:
        """Check that the model exists, from recent evidence or from the API server.

        Raises:
            ModelGone: It does not exist.
        """
        if not self._existence.is_known(record.model.uid):
            await self._check_model(record)
            self._existence.saw(record.model.uid)

    async def _is_newest(self, record: ModelRecord) -> bool:
        """Whether the API server has no newer spec.

        Raises:
            ModelGone: The model does not exist.
        """
        return await self._check_model(record) == record.model.generation

    async def _check_model(self, record: ModelRecord) -> int:
        """Return the generation of the model at the API server.

        Raises:
            ModelGone: The model does not exist, or its name belongs to another object.
        """
        key = record.key
        try:
            found = await self._client.get(
                kinds.INFERENCE_MODELS, key.namespace, key.name, metadata_only=True
            )
        except errors.NotFound as error:
            # Without a name, the kind was not found, as while its CRD is being replaced.
            if error.name == key.name:
                raise ModelGone from error
            raise
        if found["metadata"]["uid"] != record.model.uid:
            raise ModelGone
        return int(found["metadata"]["generation"])

    def _keep(self, record: ModelRecord, body: Object, written: dict[str, Any]) -> None:
        (kind, name), uid = _key(body), str(written["metadata"]["uid"])
        version = written["metadata"]["resourceVersion"]
        self._wrote(kind)
        dropped = field_ownership.lost(
            body, field_ownership.fields_of(written, names.FIELD_MANAGER)
        )
        if dropped:
            self._dropped.setdefault(record.key, {})[uid] = dropped
        else:
            self._dropped.get(record.key, {}).pop(uid, None)
        self._sinks[kind].keep(written)
        child = self._store.child(record.key, kind, name)
        if child and (child.uid, child.resource_version) == (uid, version):
            self._remember_intact(child)  # and not a later version, which somebody may have edited

    def _refuse(self, record: ModelRecord, body: Object, error: errors.ApiError) -> bool:
        """Record a refusal; whether the next plan has to report it."""
        kind, name = _key(body)
        missing = self._store.child(record.key, kind, name) is None
        refused = Refusal(kind, name, _applied_hash(body), error.code, error.reason, error.message)
        return self._keep_refusal(record, replace(refused, missing=missing), error)

    def _refuse_deletion(self, record: ModelRecord, child: Child, error: errors.ApiError) -> None:
        refused = Refusal(child.kind, child.name, "", error.code, error.reason, error.message)
        self._keep_refusal(record, replace(refused, deletes=child.uid), error)

    def _keep_refusal(self, record: ModelRecord, refused: Refusal, error: errors.ApiError) -> bool:
        """Store a refusal, and log a new one; whether it is new."""
        kind, name = refused.kind, refused.name
        known = self._store.refusal(record.key, kind, name)
        refusal = replace(_paced(refused, error, known), at=self._clock())
        self._store.put_refusal(record, refusal)
        if known != refusal:
            event = "child write failed" if refusal.transient else "child refused"
            event = "child cannot be deleted" if refusal.deletes else event
            logger.warning(event, extra={"kind": kind, "object": name, "error": error.message})
        return known != refusal

    def _clear(self, key: ObjectKey, kind: str, name: str) -> bool:
        refused = self._store.refusal(key, kind, name) is not None
        self._store.clear_refusal(key, kind, name)
        return refused


def _paced(refusal: Refusal, error: errors.ApiError, known: Refusal | None) -> Refusal:
    """Return a refusal, or a failed write with the number of tries, with its retry delay."""
    if isinstance(error, errors.Invalid | errors.Forbidden | NameTaken):
        return refusal
    again = (
        known is not None
        and known.transient
        and (known.applied_hash, known.deletes) == (refusal.applied_hash, refusal.deletes)
    )
    tries = known.tries + 1 if known and again else 1
    pause = RETRY_FIRST_SECONDS * 2 ** min(tries - 1, 10)
    seconds = max(min(pause, refusal.retry_seconds), error.retry_after_seconds or 0.0)
    return replace(refusal, transient=True, tries=tries, retry_seconds=seconds)


def _is_idle(body: Object) -> bool:
    """Whether an object is a Deployment without pods."""
    return body["kind"] == "Deployment" and body["spec"].get("replicas") == 0


def _drops_class(body: Object, child: Child) -> bool:
    """Whether an Ingress no longer names a class, so that the default one applies."""
    if child.kind != "Ingress" or CLASS in body["spec"]:
        return False
    return not field_ownership.lost({"spec": {CLASS: ""}}, child.fields)


def _key(body: Object) -> ChildKey:
    return str(body["kind"]), str(body["metadata"]["name"])


def _applied_hash(body: Object) -> str:
    return str(body["metadata"]["annotations"][names.APPLIED_HASH])
