"""Simulated controllers of Kubernetes, on the simulated API server.

    changes --> Deployments --> ReplicaSets --> pods --> Kubelets: conditions
            |        `--------- status <-'-----------------'
            `-> garbage collector

Source: pkg/controller/deployment (rolling.go, recreate.go, progress.go, sync.go), Kubernetes
"Garbage Collection".
"""

import asyncio
import hashlib
import math
import random
from typing import Any

import msgspec

from simulation.api_server import ApiServer
from simulation.autoscalers import Autoscalers
from simulation.delays import Delays
from simulation.gateways import Gateways
from simulation.kubelets import Kubelets
from simulation.nodes import Nodes
from simulation.pods import KUBERNETES, is_over, key_of, make_condition
from simulation.replica_sets import ReplicaSets, owner_reference, pods_of
from simulation.servers import Servers
from simulation.stored import Key, Object, Refused, Write, owners_of

HASH = "pod-template-hash"


class Controllers:
    """The controllers of one cluster."""

    def __init__(
        self,
        api: ApiServer,
        servers: Servers,
        nodes: Nodes,
        chance: random.Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._api = api
        self._chance = chance
        self._loop = loop
        self._soon = Delays(loop, chance, 0.01, 0.06, self._sync)
        self._progress: dict[str, tuple[Any, float]] = {}
        self.kubelets = Kubelets(api, servers, nodes, chance, loop)
        self._replica_sets = ReplicaSets(api, chance, loop)
        self._gateways = Gateways(api, chance, loop)
        self.autoscalers = Autoscalers(api, loop)
        api.followers.append(self._follow)

    def _follow(self, write: Write) -> None:
        self._replica_sets.follow(write)
        self._gateways.follow(write)
        self.autoscalers.follow(write)
        match write.plural:
            case "deployments":
                if write.after and not write.part:
                    self._soon.add(write.key)
            case "replicasets":
                body = write.after or write.before or {}
                for owner in body["metadata"].get("ownerReferences") or []:
                    self._soon.add((write.key[0], owner["name"]))
            case "pods":
                self.kubelets.follow(write)
                if write.after is None:  # Recreate waits for the last one
                    # A pod is named after its ReplicaSet, which is named after its Deployment.
                    self._soon.add((write.key[0], write.key[1].rsplit("-", 2)[0]))
        self._collect_after(write)

    def _later(self, least: float, most: float, call: Any) -> None:
        self._loop.call_later(least + (most - least) * self._chance.random(), call)

    # -------------------------------------------------------------------- garbage collector

    def _collect_after(self, write: Write) -> None:
        """Collect the dependents of a deleted owner, or a child of an owner that is gone."""
        if write.after is None and write.before is not None:
            uid = write.before["metadata"]["uid"]
            self._later(0.05, 1.0, lambda: self._collect(uid))
        elif write.after is not None:
            known = owners_of(write.before) if write.before is not None else ()
            for uid in owners_of(write.after):
                if uid not in known and uid not in self._api.uids:
                    self._later(0.05, 1.0, lambda uid=uid: self._collect(uid))

    def _collect(self, owner: str) -> None:
        if owner in self._api.uids:
            return
        for plural in COLLECTED:
            for body in self._api.all(plural):
                if owner in owners_of(body) and "deletionTimestamp" not in body["metadata"]:
                    self._api.delete(plural, key_of(body), {}, KUBERNETES)

    # -------------------------------------------------------------------- Deployments

    def _sync(self, key: Key) -> None:
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
        if "deletionTimestamp" in deployment["metadata"]:
            self._report(deployment, name, sets)
            return
        if name not in sets and not spec.get("paused"):
            try:
                sets[name] = self._make_set(deployment, name)
            except Refused:  # a ReplicaSet of a deleted Deployment still has the name
                self._later(0.3, 0.3, lambda: self._soon.add(key))
                return
        wanted = self._sizes(spec, name, sets)
        for each, size in wanted.items():
            if size != sets[each]["spec"]["replicas"]:
                self._api.edit(
                    "replicasets",
                    (key[0], each),
                    lambda b, n=size: b["spec"].update(replicas=n),
                    KUBERNETES,
                )
        self._tidy(spec, name, sets, wanted)
        self._report(deployment, name, sets)

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
                "ownerReferences": [owner_reference("apps/v1", "Deployment", metadata)],
            },
            "spec": {
                "replicas": 0,
                "template": {**template, "metadata": {**template["metadata"], "labels": given}},
            },
        }
        return self._api.create("replicasets", body, KUBERNETES).body

    def _sizes(self, spec: Object, new: str, sets: dict[str, Object]) -> dict[str, int]:
        """The desired number of pods of each ReplicaSet."""
        sizes = {each: sets[each]["spec"]["replicas"] for each in sets}
        desired, wanted = spec["replicas"], dict(sizes)
        if spec.get("paused"):
            if new in sizes and sum(sizes.values()) == sizes[new]:
                wanted[new] = desired
            return wanted
        if spec["strategy"]["type"] == "Recreate":
            old = [each for each in sets if each != new]
            wanted |= dict.fromkeys(old, 0)
            pods = [pod for each in old for pod in pods_of(self._api, sets[each])]
            if not any(sizes[each] for each in old) and all(map(is_over, pods)):
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
        available = {each: _reported(sets[each], "readyReplicas") for each in sizes}
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

    def _tidy(
        self, spec: Object, new: str, sets: dict[str, Object], wanted: dict[str, int]
    ) -> None:
        old = [
            each
            for each in sets
            if each != new and not wanted[each] and not _reported(sets[each], "replicas")
        ]
        old.sort(key=lambda each: int(sets[each]["metadata"]["resourceVersion"]))
        for each in old[: max(0, len(old) - spec["revisionHistoryLimit"])]:
            self._api.delete("replicasets", key_of(sets[each]), {}, KUBERNETES)

    def _report(self, deployment: Object, new: str, sets: dict[str, Object]) -> None:
        """Write the status of the Deployment: its pods and its progress."""
        metadata, spec = deployment["metadata"], deployment["spec"]
        key = key_of(deployment)
        ready = sum(_reported(each, "readyReplicas") for each in sets.values())
        total = sum(_reported(each, "replicas") for each in sets.values())
        current = sets.get(new, {})
        updated = _reported(current, "replicas")
        updated_ready = _reported(current, "readyReplicas")
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
                self._loop.call_later(since + deadline - now + 0.01, lambda: self._soon.add(key))
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
        self._api.report("deployments", key, status, KUBERNETES)


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
    "httproutes",
    "grpcroutes",
)


def template_hash(template: Object) -> str:
    """Return the hash in the name of a ReplicaSet."""
    encoded = msgspec.json.encode(template, order="sorted")
    return hashlib.md5(encoded, usedforsecurity=False).hexdigest()[:9]


def _share(value: int | str, desired: int, rounded: Any) -> int:
    return rounded(desired * int(value[:-1]) / 100) if isinstance(value, str) else value


def _reported(replica_set: Object, field: str) -> int:
    """A number in the status of a ReplicaSet, 0 before the first report."""
    return int((replica_set.get("status") or {}).get(field, 0))
