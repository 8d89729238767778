"""What one small write takes meanwhile: the least that a status could take at that time.

    case of `cases` --> while it runs, an object that nobody watches is written again and again

It is as far as the operator can come: whoever tells of a change has to write at least once, to an
API server that shares the machine with everybody else.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator

from moorage_benchmarks.scale import objects
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.kinds import Kind

CONFIG_MAPS = Kind("", "v1", "configmaps", frozenset({"patch"}))
PAUSE_SECONDS = 0.1


@contextlib.asynccontextmanager
async def small_writes(client: KubeClient) -> AsyncGenerator[list[float]]:
    """The seconds that each write has taken, for as long as the block runs; at least one.

    Raises:
        ApiError: A write was refused.
    """
    taken: list[float] = []
    writing = asyncio.create_task(_write(client, taken))
    try:
        yield taken
        while not taken and not writing.done():
            await asyncio.wait({writing}, timeout=PAUSE_SECONDS)
    finally:
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing


async def _write(client: KubeClient, taken: list[float]) -> None:
    for number in itertools.count():
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "small", "namespace": objects.NAMESPACES[0]},
            "data": {"number": str(number)},
        }
        began = time.monotonic()
        await client.apply(CONFIG_MAPS, body, field_manager="small")
        taken.append(time.monotonic() - began)
        await asyncio.sleep(PAUSE_SECONDS)
