"""The server ends when it loses its GPU, so that Kubernetes or the supervisor restarts it."""

import asyncio
import socket
import threading

import pytest

from moorage_runtime import app, settings
from moorage_runtime.backends.onnx import providers
from moorage_runtime.values.errors import DeviceLost


async def test_a_lost_gpu_ends_the_server_with_an_error(monkeypatch, tmp_path, caplog):
    lost = asyncio.get_running_loop().create_future()
    # a machine without a GPU: only the report of the loss matters here
    monkeypatch.setattr(providers, "check_installed", lambda _: None)
    monkeypatch.setattr(app, "Device", lost.set_result)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chosen = settings.parse(
        [
            f"--model-repository={tmp_path}",
            "--execution-provider=cuda",
            "--host=127.0.0.1",
            f"--http-port={port}",
            "--grpc-port=0",
            "--drain-seconds=0",
        ],
        {},
    )
    serving = asyncio.create_task(app.run(chosen))
    report = await lost
    await asyncio.to_thread(_wait_for, port)

    for _ in range(2):
        thread = threading.Thread(target=report)
        thread.start()
        await asyncio.to_thread(thread.join)

    with pytest.raises(DeviceLost, match="GPU"):
        await serving
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def _wait_for(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            threading.Event().wait(0.02)
        else:
            return
    pytest.fail("the server does not listen")
