"""The server under test: this repository's runtime, or any server at a given address.

    pytest tests/conformance/test_vectors.py --http-address HOST:8000 --grpc-address HOST:8001

The other server must serve the models of `make fixtures`; only the main set is tested then.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import odd_models
from support.environments import environment
from support.runtime import Runtime, running, serving
from support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "build" / "fixtures"
REPOSITORIES = {
    "main": FIXTURES,
    "loading": ROOT / "build" / "fixtures-loading",
    "raw": ROOT / "build" / "fixtures-raw",
}


@dataclass(frozen=True)
class Server:
    """The addresses of the server under test."""

    http: str
    grpc: str


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A server with unusual models."""
    with serving(odd_models.write(tmp_path_factory.mktemp("odd"))) as runtime:
        yield runtime


@pytest.fixture(scope="session")
def fixtures() -> None:
    """The model repositories in build/, created if they are missing."""
    subprocess.run([sys.executable, ROOT / "tests" / "fixtures" / "make.py"], check=True)


@pytest.fixture(scope="session")
def server_of(request: pytest.FixtureRequest, fixtures: None) -> Iterator[Callable[..., Server]]:
    """The server with a set of models and a gRPC transport, started on first use."""
    http, grpc = (
        request.config.getoption("--http-address"),
        request.config.getoption("--grpc-address"),
    )
    servers: dict[tuple[str, str], Server] = {}
    with ExitStack() as stack:

        def find(name: str, grpc_transport: str = "native") -> Server:
            if http or grpc:
                if (name, grpc_transport) != ("main", "native"):
                    pytest.skip("another server is asked about the main set only")
                return Server(http, grpc)
            if (name, grpc_transport) not in servers:
                repository = REPOSITORIES[name]
                transport = f"--grpc-transport={grpc_transport}"
                control = "--grps-traffic-control=true"
                if name == "loading":
                    options = f"--model-repository={repository}", transport, control
                    runtime = stack.enter_context(running(*options))
                    eventually(
                        "every model but one is ready",
                        lambda: runtime.get("/v2/models/your_model/ready").status_code,
                        lambda status: status == 200,
                        30,
                    )
                else:
                    runtime = stack.enter_context(serving(repository, transport, control))
                servers[name, grpc_transport] = Server(runtime.http, runtime.grpc)
            return servers[name, grpc_transport]

        yield find


@pytest.fixture(scope="session")
def server(server_of: Callable[..., Server]) -> Server:
    """The server with the main set."""
    return server_of("main")


@pytest.fixture(scope="session", params=["native", "grpcio"])
def grpc_transport(request: pytest.FixtureRequest) -> str:
    """Each gRPC transport in turn."""
    return request.param


@pytest.fixture(scope="session")
def grpc_server(server_of: Callable[..., Server], grpc_transport: str) -> Server:
    """The server with the main set, with each gRPC transport."""
    return server_of("main", grpc_transport)


@pytest.fixture(scope="session")
def clients() -> Path:
    """A virtual environment with the third-party clients, which need an older protobuf."""
    return environment("clients")
