"""Checks every written `Ready=True` with an inference at that time.

Requests go where the Service would send them: to the selected pods that are Ready, at the port
that its target port refers to. They verify the certificate and have the token that the Secrets of
the pod contain.
"""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Self

import aiohttp

from .api import Api, Object

REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}]}

LOOKS = 10
"""A status is written shortly after its observations, so a single look may happen while a pod
terminates and the readiness of its successor is not at the API server yet. Ten looks take about a
second. Each waits for the same API server as the operator does, so on a busy machine they take
longer, as the operator's next status does."""

PAUSE_SECONDS = 0.1


class Honesty:
    """Watches the models of a namespace, as an async context.

    Attributes:
        seen: How often a status with Ready=True was written.
        lies: The conditions without an answered inference, and each error that ended a look or
            the watch, because nothing was checked then.
        ahead: Conditions with a generation that did not exist yet.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self.seen = 0
        self.lies: list[str] = []
        self.ahead: list[str] = []
        self._api = api
        self._namespace = namespace
        self._last: dict[str, object] = {}
        self._looks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        self._task = asyncio.create_task(self._follow(), name="the watch of models")
        self._task.add_done_callback(self._ended)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, *self._looks, return_exceptions=True)
        await self._session.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._looks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.lies.append(f"{task.get_name()} failed: {type(error).__name__}: {error}")

    async def _follow(self) -> None:
        events = self._api.watch("InferenceModel", self._namespace)
        async with contextlib.aclosing(events):
            await self._look_at(events)

    async def _look_at(self, events: AsyncIterator[tuple[str, Object]]) -> None:
        async for type_, model in events:
            name, status = model["metadata"]["name"], model.get("status") or {}
            self.ahead += [
                f"{name}: {each['type']} reports generation {each['observedGeneration']} "
                f"of {model['metadata']['generation']} ({type_} {model['metadata']['uid']})"
                for each in status.get("conditions") or []
                if each["observedGeneration"] > model["metadata"]["generation"]
            ]
            ready = [each for each in status.get("conditions") or [] if each["type"] == "Ready"]
            is_new = self._last.get(name) != status
            self._last[name] = status
            if type_ != "DELETED" and is_new and ready and ready[0]["status"] == "True":
                self.seen += 1
                task = asyncio.create_task(self._look(model, ready[0]), name=f"a look at {name}")
                self._looks.add(task)
                task.add_done_callback(self._ended)

    async def _look(self, model: Object, ready: Object) -> None:
        name = model["metadata"]["name"]
        for _ in range(LOOKS):
            if await self._is_served(name):
                return
            now = await self._api.get("InferenceModel", self._namespace, name)
            if not now or (now.get("status") or {}) != (model.get("status") or {}):
                return  # it has changed already
            await asyncio.sleep(PAUSE_SECONDS)
        self.lies.append(f"{name}: {ready['reason']}: {ready['message']}")

    async def _is_served(self, name: str) -> bool:
        service = await self._api.get("Service", self._namespace, name)
        if not service:
            return False
        selector = ",".join(f"{k}={v}" for k, v in service["spec"]["selector"].items())
        target = service["spec"]["ports"][0]["targetPort"]
        model = await self._api.get("InferenceModel", self._namespace, name)
        if not model:
            return False  # deleted meanwhile
        if (model.get("spec") or {}).get("paused"):  # edits of the Service are not reverted
            selector, target = f"moorage.dev/model={name}", "http"
        served = ((model.get("status") or {}).get("model") or {}).get("name") or name
        for pod in await self._api.list("Pod", self._namespace, selector):
            if not _is_ready(pod):
                continue
            if await self._answers(
                pod, f"127.0.0.1:{_port(pod, target)}/v2/models/{served}/infer"
            ):
                return True
        return False

    async def _answers(self, pod: Object, address: str) -> bool:
        url, trusted, headers = f"http://{address}", None, {}
        if tls := await self._mounted(pod, "/mnt/tls"):
            url, trusted = f"https://{address}", ssl.create_default_context(cadata=tls["ca.crt"])
            trusted.check_hostname = False  # the certificate is not for an address
        if token := _token_of(await self._mounted(pod, "/mnt/tokens")):
            headers["Authorization"] = f"Bearer {token}"
        try:
            async with self._session.post(
                url, json=REQUEST, headers=headers, ssl=trusted or True
            ) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _mounted(self, pod: Object, path: str) -> dict[str, str]:
        """The content of the Secret that a pod mounts at a path; empty without one."""
        volumes = {each["name"]: each for each in pod["spec"].get("volumes") or []}
        mounts = pod["spec"]["containers"][0].get("volumeMounts") or []
        for mount in mounts:
            if mount["mountPath"] == path:
                name = volumes[mount["name"]]["secret"]["secretName"]
                secret = await self._api.get("Secret", self._namespace, name)
                data = secret.get("data") or {}
                return {key: base64.b64decode(value).decode() for key, value in data.items()}
        return {}


def _token_of(secret: Mapping[str, str]) -> str:
    """The first token that a request can have; "" without one."""
    lines = "\n".join(secret.values()).split("\n")
    return next((line for line in lines if re.fullmatch(r"[!-~]+", line)), "")


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _port(pod: Object, target: int | str) -> int:
    if isinstance(target, int):
        return target
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            if port.get("name") == target:
                return int(port["containerPort"])
    return 0
