"""A baseline controller: creates the children of models and reports when all their pods are ready.

    python -m moorage_benchmarks.scale.minimal_controller KUBECONFIG REPLICAS -> until it is ended

It shows how soon children and statuses can exist while the API server accepts the models and its
controllers create pods. It shares no code with the operator, only the form of the children. It
polls no server, creates each child with one POST, Services before Deployments, compares nothing
with what exists, and writes one condition. A process of its own, as the operator is.
"""

import asyncio
import json
import ssl
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from moorage_benchmarks.scale import copies, objects
from moorage_benchmarks.scale.objects import MODEL_LABEL, PLACES, Body

WATCHING = "watching"
PARALLEL = 32
LINE_BYTES = 1 << 20
MODELS = "/apis/moorage.dev/v1alpha1/inferencemodels"
MINE = {"labelSelector": objects.BY_HAND_LABEL}
PODS = "/api/v1/pods"
OF_MODELS = {"labelSelector": MODEL_LABEL}
APPLY = {"fieldManager": "by-hand", "force": "true", "fieldValidation": "Ignore"}


class Maker:
    """Creates the children of each new model, all waiting Services before the other kinds.

    Args:
        session: To the API server.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._waiting: asyncio.PriorityQueue[tuple[int, int, Body]] = asyncio.PriorityQueue()
        self._count = 0
        self._children: tuple[Body, ...] = ()

    async def run(self) -> None:
        """Watch and create until cancelled.

        Raises:
            aiohttp.ClientError: The API server cannot be reached, or refuses something.
        """
        self._children = await copies.served_children(self._session)
        models = await listed(self._session, MODELS, MINE)
        for model in models["items"]:
            self._queue(model)
        async with asyncio.TaskGroup() as group:
            for _ in range(PARALLEL):
                group.create_task(self._make())
            async for event in changes(self._session, MODELS, MINE, models):
                if event["type"] == "ADDED":
                    self._queue(event["object"])

    def _queue(self, model: Body) -> None:
        name = model["metadata"]["name"]
        number = int(name.rpartition("-")[2])
        for order, child in enumerate(self._children):
            self._count += 1  # bodies have no order
            self._waiting.put_nowait((order, self._count, copies.copy(child, name, number)))

    async def _make(self) -> None:
        while True:
            _, _, body = await self._waiting.get()
            group, plural = PLACES[body["kind"]]
            path = f"{group}/namespaces/{body['metadata']['namespace']}/{plural}"
            async with self._session.post(path, json=body) as answer:
                await answer.read()


class Teller:
    """Reports each change of a model's readiness; of several that wait for one write, the newest.

    Args:
        session: To the API server.
        replicas: Pods of each model.
    """

    def __init__(self, session: aiohttp.ClientSession, replicas: int) -> None:
        self._session = session
        self._replicas = replicas
        self._ready: defaultdict[str, set[str]] = defaultdict(set)
        self._reported: dict[str, bool] = {}
        self._news: dict[str, Body] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Watch and report until cancelled.

        Raises:
            aiohttp.ClientError: The API server cannot be reached, or refuses something.
        """
        pods = await listed(self._session, PODS, OF_MODELS)
        for pod in pods["items"]:
            model, ready = self._take(pod)
            self._reported[model] = ready
        print(WATCHING, flush=True)
        async for event in changes(self._session, PODS, OF_MODELS, pods):
            self._see(event["object"])

    def _take(self, pod: Body) -> tuple[str, bool]:
        """The pod's model, and whether all of its pods are ready now."""
        metadata = pod["metadata"]
        model = metadata["labels"][MODEL_LABEL]
        keep = self._ready[model].add if _is_ready(pod) else self._ready[model].discard
        keep(metadata["name"])
        return model, len(self._ready[model]) == self._replicas

    def _see(self, pod: Body) -> None:
        model, ready = self._take(pod)
        if self._reported.get(model, False) == ready:
            return
        self._reported[model] = ready
        namespace = pod["metadata"]["namespace"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._news[model] = objects.model_status(namespace, model, str(ready), now)
        if model not in self._writing:  # otherwise the write under way is followed by this one
            self._writing[model] = asyncio.create_task(self._write(model))

    async def _write(self, model: str) -> None:
        while (status := self._news.pop(model, None)) is not None:
            namespace = status["metadata"]["namespace"]
            path = f"/apis/moorage.dev/v1alpha1/namespaces/{namespace}/inferencemodels/{model}"
            async with self._session.patch(
                f"{path}/status",
                params=APPLY,
                data=json.dumps(status),
                headers={"Content-Type": "application/apply-patch+yaml"},
            ) as answer:
                await answer.read()
        del self._writing[model]


def connected(content: dict[str, Any], **options: Any) -> aiohttp.ClientSession:
    """A session with the API server of a kubeconfig, as its user, who has a token."""
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    trusted = ssl.create_default_context(cafile=cluster["certificate-authority"])
    return aiohttp.ClientSession(
        cluster["server"],
        # besides those that create children there are watches and writes of statuses
        connector=aiohttp.TCPConnector(limit=2 * PARALLEL, ssl=trusted),
        headers={"Authorization": f"Bearer {user['token']}"},
        raise_for_status=True,
        **options,
    )


_NEVER = aiohttp.ClientTimeout(total=None)


async def listed(session: aiohttp.ClientSession, path: str, selected: Mapping[str, str]) -> Body:
    """All objects of a kind.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or refuses.
    """
    async with session.get(path, params=selected) as answer:
        return dict(await answer.json())


async def changes(
    session: aiohttp.ClientSession, path: str, selected: Mapping[str, str], since: Body
) -> AsyncGenerator[Body]:
    """The watch events of a kind after a list of it, until cancelled.

    The API server ends a watch whose client does not keep up; it then resumes where it was.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or refuses.
        KeyError: The API server no longer has the events after that version.
    """
    version = since["metadata"]["resourceVersion"]
    while True:
        words = {**selected, "watch": "1", "resourceVersion": version}
        async with session.get(path, params=words, timeout=_NEVER) as answer:
            async for line in answer.content:
                event = json.loads(line)
                version = event["object"]["metadata"]["resourceVersion"]
                yield event


def _is_ready(pod: Body) -> bool:
    conditions: list[Any] = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def main(content: dict[str, Any], replicas: int) -> None:
    """Serve as the user of a kubeconfig, who has a token."""
    async with (
        connected(content, read_bufsize=LINE_BYTES) as session,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(Maker(session).run())
        group.create_task(Teller(session, replicas).run())


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])))
