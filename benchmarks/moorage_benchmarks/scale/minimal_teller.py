"""The least that tells of a model what becomes of its pod: a watch, and a write for each change.

    python -m moorage_benchmarks.scale.minimal_teller KUBECONFIG -> tells until it is ended

The floor of how soon a status can say so. A process of its own, as the operator is, with nothing
of the operator in it. It asks no server, and what it writes is a condition.
"""

import asyncio
import json
import sys
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
PODS = {"labelSelector": MODEL_LABEL}
APPLY = {"fieldManager": "by-hand", "force": "true", "fieldValidation": "Ignore"}


class Teller:
    """Tells of each change; of several that wait for one write, the newest.

    Args:
        session: To the API server.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._said: dict[str, str] = {}
        self._news: dict[str, Body] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Watch and tell until cancelled.

        Raises:
            aiohttp.ClientError: The API server cannot be reached, or refuses something.
        """
        async with self._session.get("/api/v1/pods", params=PODS) as answer:
            pods = await answer.json()
        for pod in pods["items"]:
            self._said[pod["metadata"]["name"]] = _ready(pod)
        since = {**PODS, "watch": "1", "resourceVersion": pods["metadata"]["resourceVersion"]}
        async with self._session.get("/api/v1/pods", params=since, timeout=_NEVER) as answer:
            print(WATCHING, flush=True)
            async for line in answer.content:
                self._see(json.loads(line)["object"])

    def _see(self, pod: Body) -> None:
        name, ready = pod["metadata"]["name"], _ready(pod)
        if self._said.get(name) == ready:
            return
        self._said[name] = ready
        self._news[name] = pod
        if name not in self._writing:  # else what is being written is followed by this
            self._writing[name] = asyncio.create_task(self._write(name))

    async def _write(self, name: str) -> None:
        while (pod := self._news.pop(name, None)) is not None:
            metadata = pod["metadata"]
            namespace, model = metadata["namespace"], metadata["labels"][MODEL_LABEL]
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            status = objects.model_status(namespace, model, _ready(pod), now)
            path = f"/apis/moorage.dev/v1alpha1/namespaces/{namespace}/inferencemodels/{model}"
            async with self._session.patch(
                f"{path}/status",
                params=APPLY,
                data=json.dumps(status),
                headers={"Content-Type": "application/apply-patch+yaml"},
            ) as answer:
                await answer.read()
        del self._writing[name]


_NEVER = aiohttp.ClientTimeout(total=None)


def _ready(pod: Body) -> str:
    conditions: list[Any] = pod.get("status", {}).get("conditions") or []
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "False")


async def main(content: dict[str, Any]) -> None:
    """Tell as the user of a kubeconfig, who has a token."""
    async with connected(content, read_bufsize=LINE_BYTES) as session:
        await Teller(session).run()


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text())))
