"""The public KServe clients work unchanged: both transports and the V1 protocol."""

import json
import subprocess
from pathlib import Path

import pytest

from support.environments import environment

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).parent / "clients" / "kserve_sdk.py"


@pytest.fixture(scope="module")
def python() -> Path:
    """Python with the KServe package, in a separate environment because of its dependencies."""
    return environment("clients-kserve")


@pytest.mark.parametrize("transport", ["http", "v1"])
def test_kserve_client_over_http(python, server, transport):
    check(python, transport, server.http)


def test_kserve_client_over_grpc(python, grpc_server):
    check(python, "grpc", grpc_server.grpc)


def check(python: Path, transport: str, address: str) -> None:
    done = subprocess.run(
        [python, SCRIPT, transport, address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "nosuch" in seen.pop("unknown model")
    assert seen
    assert dict.fromkeys(seen, True) == seen
