"""The public Triton client works unchanged: both transports, blocking and asyncio."""

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parent / "clients" / "triton.py"


def ask(python: Path, transport: str, address: str) -> dict:
    done = subprocess.run(
        [python, SCRIPT, transport, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("transport", ["http", "http-asyncio"])
def test_triton_client_over_http(clients, server, transport):
    check(ask(clients, transport, server.http))


@pytest.mark.parametrize("transport", ["grpc", "grpc-asyncio"])
def test_triton_client_over_grpc(clients, grpc_server, transport):
    check(ask(clients, transport, grpc_server.grpc))


def check(seen: dict) -> None:
    assert "nosuch" in seen.pop("unknown model")
    refusal = seen.pop("wrong shape")
    assert "'x'" in refusal
    assert "INT32" in refusal
    name, extensions = seen.pop("server")
    assert name
    assert "binary_tensor_data" in extensions
    assert seen.pop("model") == ["my_model", ["v10"]]
    assert seen.pop("id") == "my id"
    assert dict.fromkeys(seen, True) == seen
