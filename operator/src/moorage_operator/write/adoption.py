"""Restores the labels and owner references that link children to their model.

    children without an owner ----------------------------------> owner reference restored
    children restored from a backup ----------------> owner reference and our fields restored
    status.revisions, pods --> names of unlabelled Deployments --> label and owner restored

Applying a planned child restores both. Any other child that lost one would be neither applied nor
deleted, and the garbage collector would not delete an orphan with its model. So the link is
restored first; the next plan then keeps or deletes the child like any other.

A backup of objects has neither owner references nor field managers. A child that was restored from
it has our label, our annotation and a name that we generate. Other objects with our label are
copies that somebody made, which belong to nobody.

A Deployment without its label is invisible to the watch, so the plan would run its revision again
under another name, or leave its pods running. The possible names follow from the revisions and the
pods, so the operator looks them up.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.kube import errors, field_ownership, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.managed_fields import inherited
from moorage_operator.kube.reflector import Sink
from moorage_operator.resources.owned import make_owner_reference
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import Child
from moorage_operator.values.revisions import read_revisions

from .kept_labels import check_labels

__all__ = ["Adoption", "is_ours", "is_restored"]

logger = logging.getLogger(__name__)


class Adoption:
    """Restores labels and owner references.

    Args:
        client: The API.
        sinks: Receive children, by kind.
    """

    def __init__(self, client: KubeClient, sinks: Mapping[str, Sink]) -> None:
        self._client = client
        self._sinks = sinks

    async def adopt(self, record: ModelRecord, orphans: Sequence[Child]) -> bool:
        """Restore owner references; whether any was restored.

        Args:
            record: The model; the API server must have no newer version of its spec.
            orphans: Children that have the model's label, were applied by this operator and have
                no owner.

        Raises:
            ApiError: A child could not be changed; retry.
        """
        adopted = [await self._adopt(record, child) for child in orphans]
        return any(adopted)

    async def inherit(self, record: ModelRecord, restored: Sequence[Child]) -> bool:
        """Take over children that were restored from a backup; whether there were any.

        They get an owner, and their fields become ours, so that the next apply removes those that
        are no longer planned.

        Args:
            record: The model; the API server must have no newer version of its spec.
            restored: Children with our label and annotation, without an owner and without fields
                of ours.

        Raises:
            ApiError: A child could not be read or changed; retry.
        """
        taken = [await self._inherit(record, child) for child in restored]
        return any(taken)

    async def find_unlabelled(
        self, record: ModelRecord, *, known: frozenset[str], unseen: frozenset[str]
    ) -> bool:
        """Restore Deployments without their label; whether any was found.

        Args:
            record: The model.
            known: Names of Deployments that are already known.
            unseen: Names of unknown Deployments with pods of the model.

        Raises:
            ApiError: They could not be read or changed; retry.
        """
        found = [
            await self._find(record, name)
            for name in sorted(unseen.union(_possible_names(record)) - known)
        ]
        return any(found)

    async def _adopt(self, record: ModelRecord, child: Child) -> bool:
        owners = {"ownerReferences": [make_owner_reference(record.model)]}
        return await self._restore(record, child.kind, child.name, child.resource_version, owners)

    async def _inherit(self, record: ModelRecord, child: Child) -> bool:
        kind, namespace = kinds.CHILDREN[child.kind], record.key.namespace
        try:
            found = await self._client.get(kind, namespace, child.name, metadata_only=True)
        except errors.NotFound:
            return False
        metadata = found["metadata"]
        if metadata["uid"] != child.uid or metadata.get("ownerReferences"):
            return False  # a newer event starts the next reconcile
        link: dict[str, Any] = {"ownerReferences": [make_owner_reference(record.model)]}
        entries = metadata.get("managedFields") or []
        if ours := inherited(entries, names.APPLIED_HASH, names.FIELD_MANAGER):
            link["managedFields"] = ours
        version = metadata["resourceVersion"]
        return await self._restore(record, child.kind, child.name, version, link)

    async def _find(self, record: ModelRecord, name: str) -> bool:
        namespace = record.key.namespace
        try:
            found = await self._client.get(kinds.DEPLOYMENTS, namespace, name, metadata_only=True)
        except errors.NotFound:
            return False
        metadata = found["metadata"]
        owners = metadata.get("ownerReferences") or []
        is_ours = any(each["uid"] == record.model.uid for each in owners)
        # A Deployment that this operator applied and that has no owner was orphaned by an edit.
        is_orphan = not owners and bool(field_ownership.fields_of(found, names.FIELD_MANAGER))
        if not (is_ours or is_orphan) or "deletionTimestamp" in metadata:
            return False
        link: dict[str, Any] = {
            "labels": {**(metadata.get("labels") or {}), **labels.child(record.key.name)}
        }
        if is_orphan:
            link["ownerReferences"] = [make_owner_reference(record.model)]
        return await self._restore(record, "Deployment", name, metadata["resourceVersion"], link)

    async def _restore(
        self, record: ModelRecord, kind: str, name: str, version: str, link: Mapping[str, Any]
    ) -> bool:
        """Set fields of a child's metadata; False if admission refuses it or the child is gone.

        A refusal must not stop the other writes of the model.

        Raises:
            ApiError: It has changed since `version` was read (409), or the write failed.
        """
        fields = {"kind": kind, "object": name}
        operations = [
            {"op": "add", "path": f"/metadata/{field}", "value": value}
            for field, value in link.items()
        ]
        operations.append({"op": "replace", "path": "/metadata/resourceVersion", "value": version})
        try:
            written = await self._client.patch(
                kinds.CHILDREN[kind], record.key.namespace, name, operations
            )
            check_labels(written, labels.child(record.key.name))
        except errors.NotFound:
            return False  # its watch event starts the next reconcile
        except (errors.Forbidden, errors.Invalid) as error:
            logger.warning("child cannot be adopted", extra={**fields, "error": error.message})
            return False
        self._sinks[kind].put(written)
        logger.info("child adopted", extra=fields)
        return True


def is_ours(child: Child, record: ModelRecord) -> bool:
    """Whether a child belongs to the model."""
    # A child that we applied and that has no owner was orphaned by an edit or by the deletion of
    # its model with --cascade=orphan. It is adopted.
    return child.owner_uid == record.model.uid or (not child.owner_uid and bool(child.fields))


def is_restored(child: Child, record: ModelRecord) -> bool:
    """Whether an orphan was restored from a backup, which has no field managers."""
    is_marked = bool(child.applied_hash) and not child.fields
    return is_marked and names.is_of(record.key.name, child.name)


def _possible_names(record: ModelRecord) -> list[str]:
    """Return the names that Deployments of the recorded revisions may have."""
    known = read_revisions(record.status)
    revisions = [known.current, known.last_good]
    revisions += [known.retiring.revision] if known.retiring else []
    revisions += [known.canary.revision] if known.canary else []
    model = record.key.name
    apart = [names.deployment_of(model, each) for each in revisions if each]
    return list(dict.fromkeys([names.deployment(model), *apart])) if apart else []
