"""The least that makes the children of models in Python: POST after POST over aiohttp.

    python -m moorage_benchmarks.scale.minimal_creator KUBECONFIG MODELS -> JSON

A process of its own, so that its CPU time is that of the requests alone. Nothing of the operator
is in it: what makes the operator's client slower must not make the floor slower too.
"""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from moorage_benchmarks import figures
from moorage_benchmarks.scale import copies, objects
from moorage_benchmarks.scale.objects import PLACES, Body

PARALLEL = 32
ROUND_TRIPS = 100


def name(number: int) -> str:
    """Of the children that are made for a model."""
    return f"by-hand-{number}"


async def make(session: aiohttp.ClientSession, models: int) -> dict[str, float]:
    """Make them and tell what it took.

    Returns:
        ``began``: The monotonic clock's seconds at the first child. ``children_exist_seconds``:
        Until the last Service and Deployment. ``cpu_seconds``: Of this process for all children.
        ``write_seconds``: Median of small writes that nothing else keeps waiting.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or refuses an object.
    """
    write_seconds = await _round_trip(session)
    services, deployments, budgets = (
        [copies.copy(child, name(n), n, of_model=False) for n in range(models)]
        for child in await copies.served_children(session)
    )
    began, cpu = time.monotonic(), time.process_time()
    await _post_all(session, services)
    await _post_all(session, deployments)
    exist = time.monotonic() - began
    await _post_all(session, budgets)
    return {
        "began": began,
        "children_exist_seconds": exist,
        "cpu_seconds": time.process_time() - cpu,
        "write_seconds": write_seconds,
    }


async def _round_trip(session: aiohttp.ClientSession) -> float:
    taken: list[float] = []
    for number in range(ROUND_TRIPS):
        metadata = {"name": f"round-trip-{number}", "namespace": objects.NAMESPACES[0]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        began = time.monotonic()
        await post(session, body)
        taken.append(time.monotonic() - began)
    return figures.median(taken)


async def _post_all(session: aiohttp.ClientSession, bodies: Iterable[Body]) -> None:
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            await post(session, body)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


async def post(session: aiohttp.ClientSession, body: Body) -> None:
    """Create an object.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or refuses it.
    """
    group, plural = PLACES[body["kind"]]
    path = f"{group}/namespaces/{body['metadata']['namespace']}/{plural}"
    async with session.post(path, json=body) as answer:
        await answer.read()


def connected(content: dict[str, Any], **options: Any) -> aiohttp.ClientSession:
    """A session with the API server of a kubeconfig, as its user, who has a token."""
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    trusted = ssl.create_default_context(cafile=cluster["certificate-authority"])
    return aiohttp.ClientSession(
        cluster["server"],
        # beside those who make children there are watches, and writes of what became of them
        connector=aiohttp.TCPConnector(limit=2 * PARALLEL, ssl=trusted),
        headers={"Authorization": f"Bearer {user['token']}"},
        raise_for_status=True,
        **options,
    )


async def main(content: dict[str, Any], models: int) -> None:
    """Make them as the user of a kubeconfig, who has a token."""
    async with connected(content) as session:
        print(json.dumps(await make(session, models)))


if __name__ == "__main__":
    uvloop.run(main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])))
