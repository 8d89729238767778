"""Simulated nodes: one is lost for a while, and its pods with it.

    lost --> network cut --> Ready=False --> deletionTimestamp --> kept until the node is
             at once         by the node     by the taint          back, or removed and
                             controller      manager               its pods collected

Until the node controller acts, the API server shows the pods as their kubelet last reported them.
It changes the condition Ready and nothing else. A pod that is being deleted stays, because only
its kubelet can confirm the end of its containers.

Source: pkg/controller/nodelifecycle (node_lifecycle_controller.go), pkg/controller/tainteviction,
pkg/controller/podgc, MarkPodsNotReady in pkg/controller/util/node.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simulation.api_server import ApiServer
from simulation.pods import KUBERNETES, is_over, key_of, make_condition
from simulation.servers import Servers
from simulation.stored import Key, Object

NAMES = ("node-a", "node-b", "node-c")

GRACE_SECONDS = (40.0, 50.0)
"""The node controller waits for at least 40 s, since Kubernetes 1.32 for 50 s."""

TOLERATIONS = (0.0, 10.0, 60.0, 300.0)
"""Seconds until the pods of a lost node are deleted; 300 unless a pod sets it."""

COLLECTED_SECONDS = (40.0, 60.0)
"""Pods of a removed node are deleted after so long."""

RETURNS = ("reconnected", "rebooted", "removed")


@dataclass(eq=False)
class Loss:
    """A lost node.

    Attributes:
        since: The time of the loss.
        is_removed: Whether the node was removed; its pods go a while later.
        addresses: The addresses of its pods.
        held: What its kubelet does once it is back.
    """

    since: float
    is_removed: bool = False
    addresses: list[str] = field(default_factory=list[str])
    held: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Nodes:
    """The nodes of a cluster, and which of them are lost.

    Attributes:
        lost: The lost nodes.
        resumed: Called with each remaining pod of a node that is back, and whether the node has
            restarted.
    """

    def __init__(
        self,
        api: ApiServer,
        servers: Servers,
        chance: random.Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.lost: dict[str, Loss] = {}
        self.resumed: Callable[[Object, bool], None] = lambda _, __: None
        self._api = api
        self._servers = servers
        self._chance = chance
        self._loop = loop
        self._node_of: dict[str, str] = {}

    def place(self, uid: str) -> None:
        """Choose a node for a pod."""
        alive = [name for name in NAMES if name not in self.lost]
        self._node_of[uid] = self._chance.choice(alive)

    def is_lost(self, pod: Object) -> bool:
        """Whether the pod is on a lost node."""
        return bool(self.lost) and self._node_of.get(pod["metadata"]["uid"]) in self.lost

    def run(self, uid: str, call: Callable[[], None]) -> None:
        """Let the kubelet of a pod act, when its node is back if it is lost."""
        loss = self.lost.get(self._node_of.get(uid, "")) if self.lost else None
        if loss:
            loss.held.append(call)
        else:
            call()

    @property
    def pods(self) -> list[Object]:
        """The pods of lost nodes."""
        return [pod for pod in self._api.all("pods") if self.is_lost(pod)]

    def lose(self) -> str:
        """Lose a node, if another one remains; return its name or ""."""
        used = sorted({self._node_of[pod["metadata"]["uid"]] for pod in self._placed()})
        alive = [name for name in used or NAMES if name not in self.lost]
        if not alive or len(self.lost) + 1 == len(NAMES):
            return ""
        name = self._chance.choice(alive)
        now = self._loop.time()
        loss = self.lost[name] = Loss(now)
        loss.addresses = [
            address for pod in self.pods if (address := pod["status"].get("podIP", ""))
        ]
        self._servers.lost |= dict.fromkeys(loss.addresses, now)
        grace = self._chance.uniform(*GRACE_SECONDS)
        self._later(name, grace, self._mark)
        self._later(name, grace + self._chance.choice(TOLERATIONS), self._evict)
        return name

    def restore(self, name: str, how: str) -> None:
        """Bring a lost node back, or remove it."""
        loss = self.lost.get(name)
        if loss is None or loss.is_removed:
            return
        pods = [pod for pod in self._placed() if self._node(pod) == name]
        if how == "removed":
            loss.is_removed = True
            keys = [(key_of(pod), pod["metadata"]["uid"]) for pod in pods]
            after = self._chance.uniform(*COLLECTED_SECONDS)
            self._loop.call_later(after, self._collect, name, keys)
            return
        del self.lost[name]
        for address in loss.addresses:
            self._servers.lost.pop(address, None)
        for pod in pods:
            self.resumed(pod, how == "rebooted")
        for call in loss.held:
            call()

    def _placed(self) -> list[Object]:
        return [pod for pod in self._api.all("pods") if self._node(pod)]

    def _node(self, pod: Object) -> str:
        return self._node_of.get(pod["metadata"]["uid"], "")

    def _later(self, name: str, seconds: float, act: Callable[[Object], None]) -> None:
        """Act on each pod of the node, if it is still lost then."""
        loss = self.lost[name]

        def run() -> None:
            if self.lost.get(name) is loss:
                for pod in [each for each in self.pods if self._node(each) == name]:
                    act(pod)

        self._loop.call_later(seconds, run)

    def _mark(self, pod: Object) -> None:
        """Report that a pod is not ready, as the node controller does."""
        if not is_over(pod):
            change = self._condition("Ready", "", verdict=False)
            self._api.edit("pods", key_of(pod), change, KUBERNETES, part="status")

    def _evict(self, pod: Object) -> None:
        """Delete a pod, as the taint manager does; only its kubelet can confirm it."""
        if "deletionTimestamp" in pod["metadata"]:
            return
        why = self._condition("DisruptionTarget", "DeletionByTaintManager", verdict=True)
        self._api.edit("pods", key_of(pod), why, KUBERNETES, part="status")
        self._api.delete("pods", key_of(pod), {}, KUBERNETES)

    def _collect(self, name: str, keys: list[tuple[Key, str]]) -> None:
        """Delete the pods of a removed node without a kubelet; a new node takes its name."""
        for address in self.lost.pop(name).addresses:
            self._servers.lost.pop(address, None)
        for key, uid in keys:
            pod = self._api.get("pods", key)
            if pod and pod["metadata"]["uid"] == uid:
                failed = lambda body: body["status"].update(phase="Failed")  # noqa: E731
                self._api.edit("pods", key, failed, KUBERNETES, part="status")
                self._api.delete("pods", key, {}, KUBERNETES, now=True)

    def _condition(self, type_: str, reason: str, *, verdict: bool) -> Any:
        def change(body: Object) -> None:
            found = {each["type"]: each for each in body["status"].get("conditions") or []}
            if type_ == "Ready" and found.get("Ready", {}).get("status") != "True":
                return
            found[type_] = make_condition(type_, verdict, reason, self._loop.time())
            body["status"]["conditions"] = list(found.values())

        return change
