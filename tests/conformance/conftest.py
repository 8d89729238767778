"""The server under test: this repository's runtime, or any server at a given address.

    pytest tests/conformance/test_vectors.py --http-address HOST:8000 --grpc-address HOST:8001

The other server must hold the models of `make fixtures`; only the main set is asked then.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.environments import environment
from support.runtime import running, serving
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
    """Where the server under test answers."""

    http: str
    grpc: str


@pytest.fixture(scope="session")
def fixtures() -> None:
    """The model repositories in build/, made when they are not there."""
    subprocess.run([sys.executable, ROOT / "tests" / "fixtures" / "make.py"], check=True)


@pytest.fixture(scope="session")
def server_of(request: pytest.FixtureRequest, fixtures: None) -> Iterator[Callable[[str], Server]]:
    """The server with a set of models, started when it is first asked for."""
    http, grpc = (
        request.config.getoption("--http-address"),
        request.config.getoption("--grpc-address"),
    )
    servers: dict[str, Server] = {}
    with ExitStack() as stack:

        def find(name: str) -> Server:
            if http or grpc:
                if name != "main":
                    pytest.skip("another server is asked about the main set only")
                return Server(http, grpc)
            if name not in servers:
                repository = REPOSITORIES[name]
                if name == "loading":
                    runtime = stack.enter_context(running(f"--model-repository={repository}"))
                    eventually(
                        "every model but one is ready",
                        lambda: runtime.get("/v2/models/your_model/ready").status_code,
                        lambda status: status == 200,
                        30,
                    )
                else:
                    runtime = stack.enter_context(serving(repository))
                servers[name] = Server(runtime.http, runtime.grpc)
            return servers[name]

        yield find


@pytest.fixture(scope="session")
def server(server_of: Callable[[str], Server]) -> Server:
    """The server with the main set."""
    return server_of("main")


@pytest.fixture(scope="session")
def clients() -> Path:
    """A virtual environment with the third-party clients: apart, for their protobuf is older."""
    return environment("clients")
