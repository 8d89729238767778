"""Starts the servers that are measured beside the runtime, each from its wheels in its own venv.

    benchmarks/peers/NAME/requirements.txt -> build/benchmarks/peers/NAME -> Server, ready

Each serves the model ``small`` with ONNX Runtime and one thread, and speaks OIP over HTTP and
gRPC. The model's file goes to the peer's program in the environment variable MODEL_FILE.
"""

import contextlib
import os
import shutil
import socket
import sys
import venv
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moorage_benchmarks import programs

SOURCES = programs.ROOT / "benchmarks" / "peers"
VENVS = programs.ROOT / "build" / "benchmarks" / "peers"
READY_PATH = "/v2/models/small/ready"
_UVICORN = "Uvicorn running on"
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Server:
    """A running server that serves ``small``."""

    pid: int
    http_port: int
    grpc_port: int


@dataclass(frozen=True)
class Command:
    """How a peer is started.

    Attributes:
        words: The program and its options.
        pattern: What it logs when it listens; the model may not be ready yet.
        environment: Variables beside those that every peer gets.
    """

    words: Sequence[str]
    pattern: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@contextlib.contextmanager
def serve(name: str, model: Path) -> Generator[Server]:
    """The peer of this name, ready, on free ports of loopback.

    Args:
        name: One of ``COMMANDS``.
        model: The ONNX file.

    Raises:
        BenchmarkError: It cannot be installed, ended, or is not ready in time.
    """
    home = installed(name)
    http_port, grpc_port = _free_ports(2)
    command = COMMANDS[name](home, http_port, grpc_port)
    environment = {
        **command.environment,
        "MODEL_FILE": str(model),
        "PYTHONDONTWRITEBYTECODE": "1",
        # the Python in Triton's stub takes its packages from the venv that it finds there
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    with programs.process(command.words, command.pattern, environment) as (pid, _):
        ready = f"{name} serves the model"
        programs.wait_for(ready, lambda: programs.answers(http_port, READY_PATH))
        yield Server(pid, http_port, grpc_port)


def installed(name: str) -> Path:
    """The peer's venv, made on first use and again when its requirements change.

    Raises:
        BenchmarkError: pip fails.
    """
    requirements, home = SOURCES / name / "requirements.txt", VENVS / name
    stamp = home / "requirements.txt"
    if stamp.exists() and stamp.read_bytes() == requirements.read_bytes():
        return home
    venv.create(home, clear=True, with_pip=True)
    pip = [str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    programs.run([*pip, "--require-hashes", "-r", str(requirements)])
    if name == "triton":
        # the backend looks beside itself for the stub of this Python
        server = _tritonserver(home)
        for stub in (server / "python_backend_stubs" / _VERSION).iterdir():
            shutil.copy(stub, server / "backends" / "python")
    shutil.copy(requirements, stamp)
    return home


def _triton(home: Path, http_port: int, grpc_port: int) -> Command:
    """Triton with its Python backend; its stub needs libpython of this Python."""
    server = _tritonserver(home)
    words = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={SOURCES / 'triton' / 'models'}",
        f"--backend-directory={server / 'backends'}",
        "--http-address=127.0.0.1",
        f"--http-port={http_port}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={grpc_port}",
        "--allow-metrics=false",
    ]
    return Command(words, "Started HTTPService")


def _mlserver(home: Path, http_port: int, grpc_port: int) -> Command:
    """MLServer without its pool of inference processes, its quickest for a small model."""
    settings = {
        "HOST": "127.0.0.1",
        "HTTP_PORT": str(http_port),
        "GRPC_PORT": str(grpc_port),
        "METRICS_PORT": str(*_free_ports(1)),
        "METRICS_DIR": str(home / "metrics"),
        "PARALLEL_WORKERS": "0",
        "DEBUG": "false",
    }
    environment = {f"MLSERVER_{name}": value for name, value in settings.items()}
    words = [str(home / "bin" / "mlserver"), "start", str(SOURCES / "mlserver")]
    return Command(words, _UVICORN, environment)


def _kserve(home: Path, http_port: int, grpc_port: int) -> Command:
    """KServe's Python server with one worker and without a log line for each request."""
    words = [
        str(home / "bin" / "python"),
        str(SOURCES / "kserve" / "serve.py"),
        f"--http_port={http_port}",
        f"--grpc_port={grpc_port}",
        "--enable_latency_logging=false",
    ]
    return Command(words, _UVICORN)


COMMANDS: Mapping[str, Callable[[Path, int, int], Command]] = {
    "triton": _triton,
    "mlserver": _mlserver,
    "kserve": _kserve,
}


def _tritonserver(home: Path) -> Path:
    return home / "lib" / f"python{_VERSION}" / "site-packages" / "pytriton" / "tritonserver"


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that were free a moment ago; these servers cannot choose one."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
