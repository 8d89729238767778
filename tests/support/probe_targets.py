"""Targets for the operator's probe drivers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields as dataclass_fields
from typing import Any
from urllib.parse import urlsplit

from moorage_operator.values.plan import ProbeTarget, Way


def target(server: str = "http://127.0.0.1:1", **fields: Any) -> ProbeTarget:
    """A target at the server's address, for model `iris`, as the plan makes it."""
    url, of_way = urlsplit(server), dataclass_fields(Way)
    values: dict[str, Any] = {
        "pod_uid": "pod",
        "container_id": "containerd://1",
        "address": url.hostname,
        "port": url.port,
        "protocol": "OpenInference",
        "transport": "HTTP",
        "model_name": "iris",
        "model_version": "",
        "live_path": "/v2/health/live",
        "ready_path": "/v2/health/ready",
        "model_ready_path": "/v2/models/iris/ready",
        "metadata_path": "/v2/models/iris",
        "server_path": "/v2",
        "timeout_seconds": 2.0,
    }
    values |= fields
    way = Way(**{each.name: values.pop(each.name) for each in of_way if each.name in values})
    return ProbeTarget(**values, way=way)


def tensorflow_target(server: str, **fields: Any) -> ProbeTarget:
    """A target with TensorFlow Serving's REST API."""
    paths = {
        "protocol": "TensorFlowServing",
        "live_path": "",
        "ready_path": "",
        "model_ready_path": "",
        "metadata_path": "/v1/models/iris/metadata",
        "server_path": "/v1/models/iris",
    }
    return target(server, **{**paths, **fields})


def grps_target(server: str, **fields: Any) -> ProbeTarget:
    """A target with GRPS."""
    paths = {
        "protocol": "GRPS",
        "live_path": "/grps/v1/health/live",
        "ready_path": "/grps/v1/health/ready",
        "model_ready_path": "",
        "metadata_path": "/grps/v1/metadata/model",
        "server_path": "/grps/v1/metadata/server",
    }
    return target(server, **{**paths, **fields})


def openai_target(server: str, **fields: Any) -> ProbeTarget:
    """A target with OpenAI's API."""
    paths = {
        "protocol": "OpenAI",
        "live_path": "/health",
        "ready_path": "/health",
        "model_ready_path": "/v1/models",
        "metadata_path": "/v1/models",
        "server_path": "/v1/models",
        "infer_path": "/v1/chat/completions",
    }
    return target(server, **{**paths, **fields})


def plain_target(server: str, **fields: Any) -> ProbeTarget:
    """A target of which only the ready path is known."""
    paths = {
        "protocol": "None",
        "live_path": "",
        "ready_path": "/readyz",
        "model_ready_path": "",
        "metadata_path": "",
        "server_path": "",
    }
    return target(server, **{**paths, **fields})


@asynccontextmanager
async def byte_server(reply: bytes, *, hold: bool) -> AsyncIterator[str]:
    """The address of a server that reads a little, answers these bytes, and closes or holds."""
    open_: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_.add(task)
        try:
            await reader.read(65536)
            writer.write(reply)
            if hold:
                await reader.read()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            # A cancelled task would be reported to the loop as a failure of the server.
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)
