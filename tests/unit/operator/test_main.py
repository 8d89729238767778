"""The command as a process: invalid settings, waiting for the CRD, shutdown."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from aiohttp import web

from support.api_server import serving

COMMAND = (sys.executable, "-m", "moorage_operator")


async def ended(*flags: str, **environ: str) -> tuple[int | None, str]:
    """Exit status and standard error of the command."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *flags,
        env={"PATH": os.environ["PATH"], **environ},
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, error.decode()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "--runtime-image or MOORAGE_RUNTIME_IMAGE must be set"),
        ({"MOORAGE_RUNTIME_IMAGE": "r:1", "MOORAGE_WORKERS": "0"}, "MOORAGE_WORKERS: '0'"),
        ({"MOORAGE_RUNTIME_IMAGE": "r:1"}, "no API server is configured"),
        ({"MOORAGE_RUNTIME_IMAGE": "r:1", "KUBECONFIG": "/absent"}, "/absent cannot be read"),
    ],
)
async def test_an_invalid_setting_prints_one_line_and_exits_with_status_2(
    environ: dict[str, str], said: str
) -> None:
    status, error = await ended(**environ)

    assert status == 2
    assert error.startswith("moorage-operator: ")
    assert said in error
    assert error.count("\n") == 1


def kubeconfig(folder: Path, server: str) -> str:
    path = folder / "kubeconfig"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@asynccontextmanager
async def running(folder: Path, server: str) -> AsyncIterator[tuple[Any, str]]:
    """The process and the address of its health server."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("--health-host", "127.0.0.1", "--health-port", "0", "--log-format", "text"),
        env={
            "PATH": os.environ["PATH"],
            "KUBECONFIG": kubeconfig(folder, server),
            "MOORAGE_RUNTIME_IMAGE": "r:1",
        },
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stderr.readline(), 30)
        match = re.search(rb"port=(\d+)", line)
        assert match, line
        yield process, f"http://127.0.0.1:{match[1].decode()}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def readiness(address: str, said: str) -> httpx.Response:
    async with httpx.AsyncClient() as client, asyncio.timeout(10):
        while True:
            answer = await client.get(f"{address}/readyz")
            if said in answer.text:
                return answer
            await asyncio.sleep(0.02)


async def no_crd(_: web.Request) -> web.Response:
    return web.json_response({"message": "not found"}, status=404)


async def test_without_the_crd_the_operator_waits_and_is_live(tmp_path: Path) -> None:
    async with serving(no_crd) as server, running(tmp_path, server) as (process, address):
        answer = await readiness(address, "the CRD inferencemodels.moorage.dev is not installed")
        async with httpx.AsyncClient() as client:
            live = await client.get(f"{address}/livez")
            metrics = await client.get(f"{address}/metrics")
        process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(process.wait(), 5)

    assert answer.status_code == 503
    assert (live.status_code, live.text) == (200, "ok")
    assert 'moorage_models{ready="True"} 0.0' in metrics.text
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert status == 0


async def test_without_an_api_server_the_operator_waits_until_sigterm(tmp_path: Path) -> None:
    async with running(tmp_path, "http://127.0.0.1:1") as (process, address):
        await readiness(address, "the API server does not answer")
        process.send_signal(signal.SIGINT)

        assert await asyncio.wait_for(process.wait(), 5) == 0


async def test_a_port_in_use_is_reported_and_exits_with_status_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, error = await ended(
            "--health-host",
            "127.0.0.1",
            KUBECONFIG=kubeconfig(tmp_path, "http://127.0.0.1:1"),
            MOORAGE_RUNTIME_IMAGE="r:1",
            MOORAGE_HEALTH_PORT=str(taken.getsockname()[1]),
        )

    assert status == 1
    assert "health server cannot listen" in error
