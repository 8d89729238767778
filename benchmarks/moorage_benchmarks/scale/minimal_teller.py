"""The least that tells of a model what becomes of its pods: a watch, and a write for each change.

    python -m moorage_benchmarks.scale.minimal_teller KUBECONFIG -> tells until it is ended

The floor of how soon a status can say so. A process of its own, as the operator is, with nothing
of the operator in it. It asks no server, and what it writes is a condition.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from moorage_benchmarks.scale import objects
from moorage_benchmarks.scale.minimal_creator import connected
from moorage_benchmarks.scale.objects import MODEL_LABEL, Body

WATCHING = "watching"
LINE_BYTES = 1 << 20
PATH = "/api/v1/pods"
PODS = {"labelSelector": MODEL_LABEL}
APPLY = {"fieldManager": "by-hand", "force": "true", "fieldValidation": "Ignore"}


class Teller:
    """Tells of each change; of several that wait for one write, the newest.

    Args:
        session: To the API server.
        replicas: Pods of each model.
    """

    def __init__(self, session: aiohttp.ClientSession, replicas: int = 1) -> None:
        self._session = session
        self._replicas = replicas
        self._ready: defaultdict[str, set[str]] = defaultdict(set)
        self._said: dict[str, bool] = {}
        self._news: dict[str, Body] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Watch and tell until cancelled.

        Raises:
            aiohttp.ClientError: The API server cannot be reached, or refuses something.
        """
        pods = await listed(self._session, PATH, PODS)
        for pod in pods["items"]:
            model, told = self._take(pod)
            self._said[model] = told
        print(WATCHING, flush=True)
        async for event in changes(self._session, PATH, PODS, pods):
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
        if self._said.get(model, False) == ready:
            return
        self._said[model] = ready
        namespace = pod["metadata"]["namespace"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._news[model] = objects.model_status(namespace, model, str(ready), now)
        if model not in self._writing:  # else what is being written is followed by this
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
    """What the API server tells of a kind after a list of it, until cancelled.

    It ends the watch of who does not keep up, who then goes on where it has come to.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or refuses.
        KeyError: It has forgotten what came after that.
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


async def main(content: dict[str, Any]) -> None:
    """Tell as the user of a kubeconfig, who has a token."""
    async with connected(content, read_bufsize=LINE_BYTES) as session:
        await Teller(session).run()


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text())))
