"""Simulated controllers of Kubernetes and kubelets, on the simulated API server.

    changes --> Deployments: ReplicaSets and pods --> Kubelets: conditions --> Deployments
            `-> garbage collector

Source: pkg/controller/deployment (rolling.go, recreate.go, progress.go), Kubernetes "Pod
Lifecycle" and "Garbage Collection".
"""

import asyncio
import hashlib
import math
import random
from typing import Any

import msgspec

from simulation.api_server import ApiServer, Key, Object, Refused, Write, owners_of
from simulation.kubelets import KUBERNETES, Kubelets, is_ready, key_of, make_condition
from simulation.servers import Servers

HASH = "pod-template-hash"


class Controllers:
    """The controllers of one cluster."""

    def __init__(
        self,
        api: ApiServer,
        servers: Servers,
        chance: random.Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._api = api
        self._chance = chance
        self._loop = loop
        self._syncing: set[Key] = set()
        self._progress: dict[str, tuple[Any, float]] = {}
        self.kubelets = Kubelets(api, servers, chance, loop)
        api.followers.append(self._follow)

    def _follow(self, write: Write) -> None:
        match write.plural:
            case "deployments":
                if write.after and not write.part:
                    self._sync_soon(write.key)
            case "pods":
                self.kubelets.follow(write)
                body = write.after or write.before or {}
                # A pod is named after its ReplicaSet, which is named after its Deployment.
                name = write.key[1].rsplit("-", 2)[0]
                if body["metadata"].get("ownerReferences"):
                    self._sync_soon((write.key[0], name))
        if write.after is None and write.before is not None:
            uid = write.before["metadata"]["uid"]
            self._later(0.05, 1.0, lambda: self._collect(uid))
        elif write.after is not None:
            known = owners_of(write.before) if write.before is not None else ()
            for uid in owners_of(write.after):
                if uid not in known and uid not in self._api.uids:
                    self._later(0.05, 1.0, lambda uid=uid: self._collect(uid))

    def _later(self, least: float, most: float, call: Any) -> None:
        self._loop.call_later(least + (most - least) * self._chance.random(), call)

    # -------------------------------------------------------------------- garbage collector

    def _collect(self, owner: str) -> None:
        if owner in self._api.uids:
            return
        for plural in COLLECTED:
            for body in self._api.all(plural):
                if owner in owners_of(body) and "deletionTimestamp" not in body["metadata"]:
                    self._api.delete(plural, key_of(body), {}, KUBERNETES)

    # -------------------------------------------------------------------- Deployments

    def _sync_soon(self, key: Key) -> None:
        if key not in self._syncing:
            self._syncing.add(key)
            self._later(0.01, 0.06, lambda: self._sync(key))

    def _sync(self, key: Key) -> None:
        self._syncing.discard(key)
        deployment = self._api.get("deployments", key)
        if deployment is None:
            return
        uid, spec = deployment["metadata"]["uid"], deployment["spec"]
        sets = {
            body["metadata"]["name"]: body
            for body in self._api.all("replicasets", key[0])
            if uid in owners_of(body)
        }
        name = f"{key[1]}-{template_hash(spec['template'])}"
        if name not in sets and not spec.get("paused"):
            try:
                sets[name] = self._make_set(deployment, name)
            except Refused:  # a ReplicaSet of a deleted Deployment still has the name
                self._later(0.3, 0.3, lambda: self._sync_soon(key))
                return
        pods = {each: self._pods(sets[each]) for each in sets}
        sizes = {each: sets[each]["spec"]["replicas"] for each in sets}
        wanted = self._sizes(spec, name, sizes, pods)
        for each, size in wanted.items():
            if size != sizes[each]:
                self._api.edit(
                    "replicasets",
                    (key[0], each),
                    lambda b, n=size: b["spec"].update(replicas=n),
                    KUBERNETES,
                )
            self._resize(sets[each], pods[each], size)
        self._tidy(spec, name, sets, wanted, pods)
        self._report(deployment, name, sets)

    def _pods(self, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        return [
            pod
            for pod in self._api.all("pods", owner["metadata"]["namespace"])
            if uid in owners_of(pod)
        ]

    def _make_set(self, deployment: Object, name: str) -> Object:
        metadata, template = deployment["metadata"], deployment["spec"]["template"]
        given = {**template["metadata"]["labels"], HASH: name.rsplit("-", 1)[1]}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": given,
                "annotations": dict(metadata.get("annotations") or {}),
                "ownerReferences": [_owner("apps/v1", "Deployment", metadata)],
            },
            "spec": {
                "replicas": 0,
                "template": {**template, "metadata": {**template["metadata"], "labels": given}},
            },
        }
        return self._api.create("replicasets", body, KUBERNETES).body

    def _sizes(
        self, spec: Object, new: str, sizes: dict[str, int], pods: dict[str, list[Object]]
    ) -> dict[str, int]:
        """The desired number of pods of each ReplicaSet."""
        desired, wanted = spec["replicas"], dict(sizes)
        if spec.get("paused"):
            if new in sizes and sum(sizes.values()) == sizes[new]:
                wanted[new] = desired
            return wanted
        if spec["strategy"]["type"] == "Recreate":
            wanted |= dict.fromkeys((each for each in sizes if each != new), 0)
            if not any(pods[each] for each in sizes if each != new):
                wanted[new] = desired
            return wanted
        rolling = spec["strategy"]["rollingUpdate"]
        surge = _share(rolling["maxSurge"], desired, math.ceil)
        unavailable = _share(rolling["maxUnavailable"], desired, math.floor)
        unavailable = unavailable if surge or unavailable else 1
        room = desired + surge - sum(sizes.values())
        wanted[new] = (
            min(desired, max(sizes[new] + room, sizes[new])) if desired >= sizes[new] else desired
        )
        available = {each: sum(map(is_ready, pods[each])) for each in sizes}
        least = desired - unavailable
        spare = sum(wanted.values()) - least - (wanted[new] - min(wanted[new], available[new]))
        for each in sorted(sizes):
            if each != new and spare > 0:  # pods that do not serve come first
                cut = min(spare, max(0, sizes[each] - available[each]))
                wanted[each], spare = sizes[each] - cut, spare - cut
        spare = sum(available.values()) - least
        for each in sorted(sizes):
            if each != new and spare > 0:
                cut = min(spare, wanted[each])
                wanted[each], spare = wanted[each] - cut, spare - cut
        return wanted

    def _resize(self, owner: Object, pods: list[Object], size: int) -> None:
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        for _ in range(size - len(alive)):
            self._make_pod(owner)
        if len(alive) > size:
            by_use = sorted(alive, key=lambda pod: (is_ready(pod), pod["metadata"]["name"]))
            for pod in by_use[: len(alive) - size]:
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
                "ownerReferences": [_owner("apps/v1", "ReplicaSet", metadata)],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }
        self._api.create("pods", body, KUBERNETES)

    def _tidy(
        self,
        spec: Object,
        new: str,
        sets: dict[str, Object],
        wanted: dict[str, int],
        pods: dict[str, list[Object]],
    ) -> None:
        old = [each for each in sets if each != new and not wanted[each] and not pods[each]]
        old.sort(key=lambda each: int(sets[each]["metadata"]["resourceVersion"]))
        for each in old[: max(0, len(old) - spec["revisionHistoryLimit"])]:
            self._api.delete("replicasets", key_of(sets[each]), {}, KUBERNETES)

    def _report(self, deployment: Object, new: str, sets: dict[str, Object]) -> None:
        """Write the status of the Deployment: its pods and its progress."""
        metadata, spec = deployment["metadata"], deployment["spec"]
        key = key_of(deployment)
        pods = {
            each: [p for p in self._pods(sets[each]) if "deletionTimestamp" not in p["metadata"]]
            for each in sets
        }
        ready = sum(is_ready(pod) for mine in pods.values() for pod in mine)
        updated = len(pods.get(new, []))
        total = sum(map(len, pods.values()))
        updated_ready = sum(map(is_ready, pods.get(new, [])))
        is_done = total == updated == updated_ready == spec["replicas"]
        now = self._loop.time()
        state = (metadata["generation"], updated, total, ready)
        known = self._progress.get(metadata["uid"])
        if known is None or known[0] != state:
            self._progress[metadata["uid"]] = state, now
        since = self._progress[metadata["uid"]][1]
        deadline = spec["progressDeadlineSeconds"]
        conditions = []
        if not spec.get("paused"):
            is_late = not is_done and now - since >= deadline
            if not is_done and not is_late:
                self._loop.call_later(since + deadline - now + 0.01, lambda: self._sync_soon(key))
            reason = "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated"
            reason = "ProgressDeadlineExceeded" if is_late else reason
            conditions = [make_condition("Progressing", not is_late, reason, since)]
        status = {
            "observedGeneration": metadata["generation"],
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "conditions": conditions,
        }
        if deployment.get("status") != status:
            self._api.edit(
                "deployments",
                key,
                lambda body: body.update(status=status),
                KUBERNETES,
                part="status",
            )


COLLECTED = (
    "deployments",
    "replicasets",
    "pods",
    "services",
    "controllerrevisions",
    "horizontalpodautoscalers",
    "poddisruptionbudgets",
    "networkpolicies",
    "ingresses",
)


def template_hash(template: Object) -> str:
    """Return the hash in the name of a ReplicaSet."""
    encoded = msgspec.json.encode(template, order="sorted")
    return hashlib.md5(encoded, usedforsecurity=False).hexdigest()[:9]


def _share(value: int | str, desired: int, rounded: Any) -> int:
    return rounded(desired * int(value[:-1]) / 100) if isinstance(value, str) else value


def _owner(api_version: str, kind: str, metadata: Object) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
