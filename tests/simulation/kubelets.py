"""Simulated kubelets: pods start, load, become ready, restart and terminate.

Source: Kubernetes, "Pod Lifecycle": container states, restart policy, readiness gates.
"""

import asyncio
import random
from typing import Any

from simulation.api_server import ApiServer
from simulation.clock import timestamp
from simulation.nodes import Nodes
from simulation.pods import KUBERNETES, is_over, key_of, make_condition
from simulation.servers import IMAGES, Image, Server, Servers
from simulation.stored import Key, Object, Write

BACK_OFF_FIRST_SECONDS = 10.0
BACK_OFF_LAST_SECONDS = 300.0


class Kubelets:
    """Runs pods from start to termination, with readiness and restarts."""

    def __init__(
        self,
        api: ApiServer,
        servers: Servers,
        nodes: Nodes,
        chance: random.Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._api = api
        self._servers = servers
        self._nodes = nodes
        self._chance = chance
        self._loop = loop
        self._addresses = 0
        nodes.resumed = self._resume

    def follow(self, write: Write) -> None:
        """Handle a new pod, a deletion, or a changed readiness gate."""
        key = write.key
        if write.before is None and write.after is not None:
            uid = write.after["metadata"]["uid"]
            self._later(uid, 0.05, 0.8, lambda: self._start(key, uid))
        elif write.after is None and write.before is not None:
            self._servers.running.pop(_address(write.before), None)
        elif write.after is not None and write.before is not None:
            is_marked = "deletionTimestamp" in write.after["metadata"]
            uid = write.after["metadata"]["uid"]
            if is_marked and "deletionTimestamp" not in write.before["metadata"]:
                self._later(uid, 0.3, 2.0, lambda: self._end(key, uid))
            elif write.part and write.who != KUBERNETES:
                self._later(uid, 0.01, 0.1, lambda: self._judge(key, uid))

    def restart(self, pod: Object) -> None:
        """Terminate the pod's container, which then restarts."""
        if self._nodes.is_lost(pod):
            return
        self._ended(key_of(pod), pod["metadata"]["uid"], 137)

    def evict(self, pod: Object) -> None:
        """Evict a pod from a node without memory; it stays as a failed one and is replaced."""
        if "deletionTimestamp" in pod["metadata"] or is_over(pod) or self._nodes.is_lost(pod):
            return

        def change(body: Object) -> None:
            status = body["status"]
            status |= {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
            status["conditions"] = [
                self._now(each["type"], verdict=False)
                if each["type"] in {"Ready", "ContainersReady"}
                else each
                for each in status.get("conditions") or []
            ]
            ended = {
                "reason": "Error",
                "exitCode": 137,
                "finishedAt": timestamp(self._loop.time()),
            }
            for each in status.get("containerStatuses") or []:
                each |= {"ready": False, "started": False, "state": {"terminated": ended}}

        self._api.edit("pods", key_of(pod), change, KUBERNETES, part="status")
        self._servers.running.pop(_address(pod), None)

    def _later(self, uid: str, least: float, most: float, call: Any) -> None:
        delay = least + (most - least) * self._chance.random()
        self._loop.call_later(delay, self._nodes.run, uid, call)

    def _resume(self, pod: Object, has_restarted: bool) -> None:
        """Report a pod of a node that is back; a node that has restarted runs it anew."""
        key, uid = key_of(pod), pod["metadata"]["uid"]
        if has_restarted:
            self._later(uid, 0.0, 1.0, lambda: self._ended(key, uid, 255))
        self._later(uid, 0.0, 1.0, lambda: self._judge(key, uid))

    def _pod(self, key: Key, uid: str) -> Object | None:
        """The pod, unless it has ended."""
        pod = self._api.get("pods", key)
        return pod if pod and pod["metadata"]["uid"] == uid and not is_over(pod) else None

    def _end(self, key: Key, uid: str) -> None:
        pod = self._api.get("pods", key)
        if pod and pod["metadata"]["uid"] == uid:
            self._api.delete("pods", key, {}, KUBERNETES, now=True)

    def _start(self, key: Key, uid: str) -> None:
        pod = self._pod(key, uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        self._nodes.place(uid)
        image = IMAGES.get(_image(pod), Image())
        conditions = [self._now("PodScheduled"), self._now("Initialized")]
        if not image.pulls:
            waiting = {"reason": "ImagePullBackOff", "message": "the image does not exist"}
            self._write(key, conditions, {"waiting": waiting}, ready=False, started=False)
            return
        self._addresses += 1
        address = f"10.0.{self._addresses // 250}.{self._addresses % 250 + 1}"
        self._run(key, uid, image, address, conditions)

    def _run(
        self, key: Key, uid: str, image: Image, address: str, conditions: list[Object]
    ) -> None:
        """Start a container of a pod with an address."""
        now = self._loop.time()
        server = self._servers.running[address] = Server(image, now)
        state = {"running": {"startedAt": timestamp(now)}}
        self._write(key, conditions, state, ready=False, started=False, address=address)
        if image.crashes:
            self._later(uid, 1.0, 2.0, lambda: self._ended(key, uid, 1))
        elif image.loads:
            # The kubelet probes once a second.
            self._later(
                uid,
                image.load_seconds,
                image.load_seconds + 1.0,
                lambda: self._pass(key, uid, address, server),
            )

    def _pass(self, key: Key, uid: str, address: str, server: Server) -> None:
        """Let the startup and readiness probes pass."""
        pod = self._pod(key, uid)
        if pod is None or self._servers.running.get(address) is not server:
            return
        if "deletionTimestamp" in pod["metadata"]:
            return
        state = pod["status"]["containerStatuses"][0]["state"]
        self._write(key, [], state, ready=True, started=True)

    def _ended(self, key: Key, uid: str, code: int) -> None:
        pod = self._pod(key, uid)
        if pod is None or not pod["status"].get("containerStatuses"):
            return
        container = pod["status"]["containerStatuses"][0]
        running = container["state"].get("running")
        if running is None or "deletionTimestamp" in pod["metadata"]:
            return
        now, address = self._loop.time(), _address(pod)
        restarts = container["restartCount"] + 1
        ended = {
            "terminated": {
                "reason": "Error",
                "exitCode": code,
                "startedAt": running["startedAt"],
                "finishedAt": timestamp(now),
            }
        }
        wait = min(BACK_OFF_LAST_SECONDS, BACK_OFF_FIRST_SECONDS * 2.0 ** (restarts - 2))
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting the container"}
        state = {"waiting": waiting} if restarts > 1 else ended
        self._write(key, [], state, ready=False, started=False, restarts=restarts, last=ended)
        self._servers.running.pop(address, None)
        image = IMAGES.get(_image(pod), Image())

        def again() -> None:
            alive = self._pod(key, uid)
            if alive and "deletionTimestamp" not in alive["metadata"]:
                self._run(key, uid, image, address, [])

        wait = wait if restarts > 1 else 0.5
        self._loop.call_later(wait, self._nodes.run, uid, again)

    def _judge(self, key: Key, uid: str) -> None:
        """Compute the Ready condition from the containers and the gates."""
        pod = self._pod(key, uid)
        if pod and pod["status"].get("containerStatuses"):
            container = pod["status"]["containerStatuses"][0]
            self._write(
                key, [], container["state"], ready=container["ready"], started=container["started"]
            )

    def _write(
        self,
        key: Key,
        given: list[Object],
        state: Object,
        *,
        ready: bool,
        started: bool,
        address: str = "",
        restarts: int | None = None,
        last: Object | None = None,
    ) -> None:
        def change(pod: Object) -> None:
            status = pod["status"]
            before = (status.get("containerStatuses") or [{"restartCount": 0}])[0]
            count = before["restartCount"] if restarts is None else restarts
            is_running = "running" in state
            conditions = {each["type"]: each for each in status.get("conditions") or []}
            conditions |= {each["type"]: each for each in given}
            gates = [each["conditionType"] for each in pod["spec"].get("readinessGates") or []]
            are_open = all(conditions.get(g, {}).get("status") == "True" for g in gates)
            verdicts = {"ContainersReady": ready, "Ready": ready and are_open}
            for type_, verdict in verdicts.items():
                if conditions.get(type_, {}).get("status") != str(verdict):
                    conditions[type_] = self._now(type_, verdict)
            container = {
                "name": "runtime",
                "image": _image(pod),
                "ready": ready,
                "started": started,
                "restartCount": count,
                "state": state,
                "lastState": last if last is not None else before.get("lastState", {}),
                "containerID": f"containerd://{pod['metadata']['uid']}-{count}"
                if is_running
                else before.get("containerID", ""),
            }
            status["phase"] = "Running" if is_running or count else "Pending"
            status["conditions"] = list(conditions.values())
            status["containerStatuses"] = [container]
            if address:
                status["podIP"] = address

        self._api.edit("pods", key, change, KUBERNETES, part="status")

    def _now(self, type_: str, verdict: bool = True) -> Object:
        message = "" if verdict else "the kubelet says why"
        return make_condition(type_, verdict, "", self._loop.time(), message)


def crash(api: ApiServer) -> bool:
    """Whether a container keeps crashing, or will: a Deployment may have no pods yet."""
    pods = [pod["spec"] for pod in api.all("pods")]
    pods += [body["spec"]["template"]["spec"] for body in api.all("deployments")]
    images = {each["containers"][0]["image"] for each in pods}
    return any(image in IMAGES and IMAGES[image].crashes for image in images)


def _image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _address(pod: Object) -> str:
    return str((pod.get("status") or {}).get("podIP", ""))
