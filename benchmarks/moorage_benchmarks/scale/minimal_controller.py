"""The least that serves models: makes their children, and tells when all of their pods are ready.

    python -m moorage_benchmarks.scale.minimal_controller KUBECONFIG REPLICAS -> until it is ended

The floor of a crowd of new models: how soon they can have their children, and how soon a status
can say that they are ready, while the API server takes the models in and its controllers make
pods. Nothing of the operator is in it but what its children look like. It asks no server, creates
each child by one POST, Services before Deployments, and compares nothing with what is there.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from moorage_benchmarks.scale import copies, objects
from moorage_benchmarks.scale.minimal_creator import PARALLEL, connected, post
from moorage_benchmarks.scale.minimal_teller import LINE_BYTES, Teller, changes, listed
from moorage_benchmarks.scale.objects import Body

MODELS = "/apis/moorage.dev/v1alpha1/inferencemodels"
MINE = {"labelSelector": objects.BY_HAND_LABEL}


class Maker:
    """Makes the children of each new model, all Services that wait before what else waits.

    Args:
        session: To the API server.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._waiting: asyncio.PriorityQueue[tuple[int, int, Body]] = asyncio.PriorityQueue()
        self._count = 0
        self._children: tuple[Body, ...] = ()

    async def run(self) -> None:
        """Watch and make until cancelled.

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
            body = copies.copy(child, name, number, of_model=True)
            self._waiting.put_nowait((order, self._count, body))

    async def _make(self) -> None:
        while True:
            _, _, body = await self._waiting.get()
            await post(self._session, body)


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
