"""How long health checks wait while a server reads the heaviest requests that it accepts.

The runtime is a process of its own. Three clients ask it for its health all the time, and one
sends it a large request; then the next. Without a request the same three clients give the floor.
"""

import http.client
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from moorage_benchmarks import figures, heavy_requests, programs
from moorage_benchmarks.health_probes import PERIOD_SECONDS, Probes, Wait
from moorage_benchmarks.heavy_requests import Heavy
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table

IDLE = "no request"
PATIENCE_SECONDS = 120
_CHUNK_BYTES = 2**20
# Some 20 ms at a time.
_JSON_STRINGS, _JSON_ROUNDS = 200_000, 9
HOW = (
    f"Bodies of {heavy_requests.BODY_BYTES >> 20} MiB, one at a time, for Python models that only "
    "count what they get. /v2/health/live, /v2/health/ready and gRPC's health are asked every "
    f"{PERIOD_SECONDS * 1000:.0f} ms over connections of their own, from before the request until "
    "some time after its answer. p50, p99 and longest are the waits of all three in milliseconds "
    "by the clock, a late check counting from when it was due: whatever else runs on the machine "
    "is in them, and in the first row, which has no request. CPU is the most that the server's "
    "process used between a check and its answer, also in milliseconds: about the longest wait "
    "where nothing else runs."
)


@dataclass(frozen=True)
class Waits:
    """What health checks waited beside one kind of request.

    Attributes:
        status: How the request was answered.
        seconds: How long each request took.
        by_probe: One for each answer.
    """

    status: str
    seconds: Sequence[float]
    by_probe: Mapping[str, Sequence[Wait]]


def measure(*, rounds: int, seconds: float, requests: Sequence[Heavy] | None = None) -> Report:
    """Every heavy request so many times.

    Args:
        rounds: Times that each is sent.
        seconds: How long health is asked for without any request.
        requests: All of the largest size where none are given.

    Raises:
        BenchmarkError: The server fails, or does not answer a health check.
    """
    busy = os.getloadavg()[0]
    found: dict[str, Waits] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder))
        with programs.runtime(f"--model-repository={folder}") as runtime:
            found[IDLE] = _idle(runtime, seconds)
            for heavy in heavy_requests.all_of_them() if requests is None else requests:
                body = heavy.make()
                found[heavy.name] = _join([_one(runtime, heavy, body) for _ in range(rounds)])
    return make_report(found, busy, _python_json_seconds())


def write_models(folder: Path) -> None:
    """The models that the requests are for, as a model repository."""
    for name, source in heavy_requests.models().items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / "1" / "model.py").write_text(source)


def make_report(
    found: Mapping[str, Waits], load_average: float, python_json_seconds: float
) -> Report:
    """A row for each request. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {
        "load_average": load_average,
        "python_json_cpu_seconds": python_json_seconds,
    }
    for name, waits in found.items():
        together = [wait.seconds for probe in waits.by_probe.values() for wait in probe]
        longest = {
            probe: max(wait.cpu_seconds for wait in found)
            for probe, found in waits.by_probe.items()
        }
        middle, high = figures.median(together), figures.percentile(together, 99)
        took = figures.median(waits.seconds)
        shown = (middle, high, max(together), *longest.values())
        rows.append([name, waits.status, f"{took:.1f}", *(f"{wait * 1000:.1f}" for wait in shown)])
        data[name] = {
            "status": waits.status,
            "request_seconds": took,
            "checks": len(together),
            "median_wait_seconds": middle,
            "p99_wait_seconds": high,
            "longest_wait_seconds": max(together),
            "longest_wait_cpu_seconds": longest,
        }
    head = ["request", "status", "s", "p50", "p99", "longest", "CPU: live", "ready", "gRPC"]
    how = f"{HOW} The load average was {load_average:.1f} when it began."
    return Report("Health checks beside heavy requests", how, Table(head, rows), data)


def _python_json_seconds() -> float:
    """CPU time in which Python's own parser reads a list of strings: how fast the machine is."""
    text = json.dumps(["ab"] * _JSON_STRINGS)
    taken: list[float] = []
    for _ in range(_JSON_ROUNDS):
        before = time.thread_time()
        json.loads(text)
        taken.append(time.thread_time() - before)
    return figures.median(taken)


def _idle(runtime: programs.Runtime, seconds: float) -> Waits:
    with Probes(runtime) as probes:
        time.sleep(seconds)
    return Waits("", [seconds], {name: probe.waits for name, probe in probes.items()})


def _one(runtime: programs.Runtime, heavy: Heavy, body: bytes) -> Waits:
    with Probes(runtime) as probes:
        started = time.monotonic()
        status = _send(runtime, heavy, body)
        took = time.monotonic() - started
        # what is left of the request is freed after its answer
        time.sleep(took / 2)
    for name, probe in probes.items():
        if probe.failure is not None:
            raise BenchmarkError(f"{name} beside {heavy.name}: {probe.failure}")
    return Waits(status, [took], {name: probe.waits for name, probe in probes.items()})


def _join(parts: Sequence[Waits]) -> Waits:
    return Waits(
        parts[0].status,
        [seconds for part in parts for seconds in part.seconds],
        {
            name: [wait for part in parts for wait in part.by_probe[name]]
            for name in parts[0].by_probe
        },
    )


def _send(runtime: programs.Runtime, heavy: Heavy, body: bytes) -> str:
    """Send the request and read its answer; the status."""
    if heavy.headers is None:
        return _call(runtime.grpc_port, heavy.path, body)
    connection = http.client.HTTPConnection("127.0.0.1", runtime.http_port, PATIENCE_SECONDS)
    try:
        connection.request("POST", heavy.path, body, dict(heavy.headers))
        answer = connection.getresponse()
        while answer.read(_CHUNK_BYTES):
            pass
    except OSError as error:
        raise BenchmarkError(f"{heavy.name}: {error}") from error
    finally:
        connection.close()
    return str(answer.status)


def _call(port: int, method: str, message: bytes) -> str:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        try:
            channel.unary_unary(method, None, None)(message, timeout=PATIENCE_SECONDS)
        except grpc.RpcError as error:
            return error.code().name  # pyright: ignore[reportAttributeAccessIssue] # a call too
    return "OK"
