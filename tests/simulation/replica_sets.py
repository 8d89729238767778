"""The simulated controller of ReplicaSets: their pods and their status.

    Deployment controller --> spec of a ReplicaSet --> pods
                          <-- status of a ReplicaSet <-'

Like the real one, it works apart from the controller of Deployments. So a Deployment may report a
template while only pods of another one exist, for milliseconds or, on a busy cluster, for seconds.

Source: pkg/controller/replicaset (replica_set.go, replica_set_utils.go).
"""

import asyncio
import random

from simulation.api_server import ApiServer
from simulation.delays import Delays
from simulation.pods import KUBERNETES, is_over, is_ready, key_of
from simulation.stored import Key, Object, Refused, Write, owners_of

LAGS = (0.02, 0.2, 2.0)
"""The longest delays of a cluster's controller, in seconds: idle, common, busy."""


class ReplicaSets:
    """Creates and deletes the pods of ReplicaSets, and reports them."""

    def __init__(
        self, api: ApiServer, chance: random.Random, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._api = api
        self._chance = chance
        self._soon = Delays(loop, chance, 0.0, chance.choice(LAGS), self._sync)

    def follow(self, write: Write) -> None:
        """Handle a changed ReplicaSet, or a change of one of its pods."""
        if write.plural == "replicasets":
            if write.after and not write.part:
                self._soon.add(write.key)
        elif write.plural == "pods":
            body = write.after or write.before or {}
            for owner in body["metadata"].get("ownerReferences") or []:
                self._soon.add((write.key[0], owner["name"]))

    def _sync(self, key: Key) -> None:
        found = self._api.get("replicasets", key)
        if found is None:
            return
        if "deletionTimestamp" not in found["metadata"]:
            self._resize(found)
        active = [each for each in pods_of(self._api, found) if is_active(each)]
        status = {"replicas": len(active), "readyReplicas": sum(map(is_ready, active))}
        self._api.report("replicasets", key, status, KUBERNETES)

    def _resize(self, owner: Object) -> None:
        size = owner["spec"]["replicas"]
        active = [each for each in pods_of(self._api, owner) if is_active(each)]
        for _ in range(size - len(active)):
            self._make_pod(owner)
        by_use = sorted(active, key=lambda pod: (is_ready(pod), pod["metadata"]["name"]))
        for pod in by_use[: max(0, len(active) - size)]:
            self._api.delete("pods", key_of(pod), {}, KUBERNETES)

    def _make_pod(self, owner: Object) -> None:
        metadata, template = owner["metadata"], owner["spec"]["template"]
        suffix = "".join(self._chance.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-{suffix}",
                "namespace": metadata["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": template["metadata"].get("annotations") or {},
                "ownerReferences": [owner_reference("apps/v1", "ReplicaSet", metadata)],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }
        try:
            self._api.create("pods", body, KUBERNETES)
        except Refused:  # another pod has the name
            self._soon.add(key_of(owner))


def pods_of(api: ApiServer, owner: Object) -> list[Object]:
    """Return the pods of a ReplicaSet, also those that are terminating."""
    uid = owner["metadata"]["uid"]
    namespace = owner["metadata"]["namespace"]
    return [pod for pod in api.all("pods", namespace) if uid in owners_of(pod)]


def is_active(pod: Object) -> bool:
    """Whether a pod counts as a replica: it is neither terminating nor has it failed."""
    return "deletionTimestamp" not in pod["metadata"] and not is_over(pod)


def owner_reference(api_version: str, kind: str, metadata: Object) -> Object:
    """Return a reference to the controller of an object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
