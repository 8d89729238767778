"""Kubelets for a control plane without nodes: each pod runs at once and has real probes.

Ready follows the pod's own readiness probe and readiness gates, as with a real kubelet; a pod
whose image cannot be pulled waits. Source: Kubernetes, "Pod Lifecycle", container probes and pod
readiness.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any, Self

import aiohttp

from .api import Api, Object, Refused

PULL_FAILS = "missing"
"""An image whose reference contains this cannot be pulled."""

PROBE_SECONDS = 0.25

PROBE_TIMEOUT_SECONDS = 10
"""A server of the testbed answers at once or not at all; only a busy machine is slower."""


class Kubelets:
    """Runs the pods of all namespaces, as an async context."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._pods: dict[str, Object] = {}
        self._reported: dict[str, tuple[Any, ...]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=PROBE_TIMEOUT_SECONDS)
        )
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._probe())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(Refused, aiohttp.ClientError, TimeoutError):
                async with contextlib.aclosing(self._api.watch("Pod")) as events:
                    async for type_, pod in events:
                        await self._take(type_, pod)
            await asyncio.sleep(0.2)

    async def _take(self, type_: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if type_ == "DELETED" or "deletionTimestamp" in pod["metadata"]:
            self._pods.pop(uid, None)
            self._reported.pop(uid, None)
        else:
            self._pods[uid] = pod
            await self._report(pod)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await asyncio.gather(*(self._report(pod) for pod in list(self._pods.values())))

    async def _report(self, pod: Object) -> None:
        uid, container = pod["metadata"]["uid"], runtime_of(pod)
        pulled = PULL_FAILS not in container["image"]
        passes = pulled and await self._passes(container)
        gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
        given = {each["type"]: each for each in pod.get("status", {}).get("conditions") or []}
        open_ = all(given.get(gate, {}).get("status") == "True" for gate in gates)
        reported = (pulled, passes, open_)
        if self._reported.get(uid) == reported:
            return
        self._reported[uid] = reported
        status = _status(pod, container, pulled=pulled, passes=passes, ready=passes and open_)
        metadata = pod["metadata"]
        try:
            await self._api.patch(
                "Pod",
                metadata["namespace"],
                metadata["name"],
                {"metadata": {"uid": uid}, "status": status},
                part="status",
                how="strategic-merge",
            )
        except (Refused, aiohttp.ClientError, TimeoutError):
            self._reported.pop(uid, None)  # gone, or the API server is away: looked at again

    async def _passes(self, container: Object) -> bool:
        probe = container.get("readinessProbe") or {}
        if http := probe.get("httpGet"):
            port = http["port"]
            if isinstance(port, str):
                port = next(p["containerPort"] for p in container["ports"] if p["name"] == port)
            # A kubelet does not verify certificates.
            url = f"{http.get('scheme', 'HTTP').lower()}://127.0.0.1:{port}{http['path']}"
            try:
                async with self._session.get(url, ssl=False) as answer:
                    return 200 <= answer.status < 400
            except (aiohttp.ClientError, TimeoutError, ValueError):
                return False
        return True


def runtime_of(pod: Object) -> Object:
    """The container that serves the model."""
    containers = pod["spec"]["containers"]
    return next((each for each in containers if each["name"] == "runtime"), containers[0])


def _status(
    pod: Object, container: Object, *, pulled: bool, passes: bool, ready: bool
) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    started = pod["metadata"]["creationTimestamp"]
    waiting = {"reason": "ImagePullBackOff", "message": "the image does not exist"}
    state = {"running": {"startedAt": started}} if pulled else {"waiting": waiting}
    verdicts = {"PodScheduled": True, "ContainersReady": passes, "Ready": ready}
    status: dict[str, Any] = {
        "phase": "Running" if pulled else "Pending",
        "conditions": [
            {
                "type": type_,
                "status": str(verdict),
                "message": "" if verdict else "the kubelet says why",
                "lastTransitionTime": now,
            }
            for type_, verdict in verdicts.items()
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "sha256:0",
                "containerID": f"containerd://{pod['metadata']['uid']}" if pulled else "",
                "ready": passes,
                "started": pulled,
                "restartCount": 0,
                "state": state,
            }
        ],
    }
    if pulled:
        address = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        status |= {**address, "startTime": started}
    return status
