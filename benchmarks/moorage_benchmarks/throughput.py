"""What an inference costs over each protocol, compared with a minimal server.

The server is bound to one core and the client to another. Rounds take every load in turn, so
that a slow minute of the machine hits all of them; the medians of the rounds are compared.
CPU time is the server process's own, as the kernel counts it, so the client is not in it.
"""

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from moorage_benchmarks import figures, minimal_http, models, procfs, programs, workloads
from moorage_benchmarks.grpc_load import GrpcLoad
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.workloads import Workload

# Requests under way: enough that the server never waits for the client's next one.
CONCURRENCY = workloads.UNDER_WAY
WARM_SECONDS = 0.5
FLOOR = "small: minimal server"
HOW = (
    "Requests are for the digits model, with one picture of 64 floats each. Loads marked "
    "small use a model of 4 features and 3 probabilities, and loads marked image one of "
    "1x3x224x224 floats. The server is bound to one core and the client to another, with "
    f"{CONCURRENCY} concurrent requests, except for the loads that state 32 and the image as "
    "JSON, which has one. CPU µs per request is the user and kernel CPU time of the server's "
    "process, and requests/s of one core is its inverse. Times minimal compares it with the "
    "minimal server, which answers the request of the row small: OIP JSON in the same rounds "
    "on the same core. That server uses uvloop, httptools and orjson, and has no checks, "
    "counters or limits. Answers/s is what the single client received, and busy is the share "
    "of its core that the server then used; for the rest it waited for the client or for other "
    "programs on the machine. Each HTTP request has a new traceparent header, except in the "
    "row with equal headers. Figures are medians of the rounds; ± is half the range."
)


class Load(Protocol):
    """A client that repeats one request."""

    def ask(self) -> bytes:
        """One answer."""
        ...

    def run(self, seconds: float) -> int:
        """The number of answers within so long."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


@dataclass(frozen=True)
class Sample:
    """One measurement: answers, and how long they took by the clock and by the CPU."""

    requests: int
    wall_seconds: float
    cpu_seconds: float

    @property
    def cpu_microseconds(self) -> float:
        """CPU time for each request."""
        return self.cpu_seconds / self.requests * 1e6


def measure(*, rounds: int, seconds: float) -> Report:
    """Every protocol and the minimal server.

    Args:
        rounds: Times that each is measured.
        seconds: Length of one measurement.

    Raises:
        BenchmarkError: There is one core only, or the server fails or answers wrongly.
    """
    server_core, client_core = two_cores()
    prepared = (*workloads.digits(programs.DIGITS), *workloads.small(), *workloads.image())
    loads: dict[str, tuple[int, Load]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models.write(folder, programs.DIGITS / "model.onnx")
        small = models.file(folder, "small")
        with programs.pinned(server_core):
            runtime = stack.enter_context(programs.runtime(f"--model-repository={folder}"))
            floor, port = stack.enter_context(programs.minimal(minimal_http, str(small)))
        stack.enter_context(programs.pinned(client_core))
        for workload in prepared:
            load = make_load(workload, runtime.http_port, runtime.grpc_port)
            loads[workload.name] = runtime.pid, load
            warm(load, workload)
        asked = workloads.small()[0]
        loads[FLOOR] = floor, make_load(asked, port, 0)
        warm(loads[FLOOR][1], asked)
        samples: dict[str, list[Sample]] = {name: [] for name in loads}
        for _, (name, (pid, load)) in itertools.product(range(rounds), loads.items()):
            samples[name].append(take(pid, load, seconds))
        for _, load in loads.values():
            load.close()
    return make_report(samples)


def make_report(samples: dict[str, list[Sample]]) -> Report:
    """The medians of each load's samples, compared with the minimal server's. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    floor = figures.median([sample.cpu_microseconds for sample in samples[FLOOR]])
    for name, found in samples.items():
        cpu = [sample.cpu_microseconds for sample in found]
        rate = figures.median([sample.requests / sample.wall_seconds for sample in found])
        busy = figures.median([sample.cpu_seconds / sample.wall_seconds for sample in found])
        cost = figures.median(cpu)
        rows.append(
            [
                name,
                f"{cost:.1f} ± {figures.spread_percent(cpu):.0f} %",
                f"{cost / floor:.2f}",
                f"{1e6 / cost:,.0f}",
                f"{rate:,.0f}",
                f"{busy * 100:.0f} %",
            ]
        )
        data[name] = {
            "cpu_microseconds_per_request": cost,
            "times_minimal": cost / floor,
            "requests_per_core_second": 1e6 / cost,
            "answered_per_second": rate,
            "server_core_busy": busy,
            "rounds_cpu_microseconds_per_request": cpu,
        }
    head = ["load", "CPU µs per request", "times minimal", "requests/s of one core"]
    return Report("Cost of an inference", HOW, Table([*head, "answers/s", "busy"], rows), data)


def two_cores() -> tuple[int, int]:
    """One core for the server and one for the client.

    Raises:
        BenchmarkError: There is only one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchmarkError(
            "server and client need one core each, but this process can use only one"
        )
    return cores[0], cores[1]


def make_load(workload: Workload, http_port: int, grpc_port: int) -> Load:
    """The client of a workload."""
    if workload.is_grpc:
        return GrpcLoad(grpc_port, workload.target, workload.body, workload.under_way)
    return HttpLoad(http_port, workload.http_requests(http_port), workload.under_way)


def warm(load: Load, workload: Workload) -> None:
    """Check one answer and send requests for a while.

    Raises:
        BenchmarkError: The answer is not the right one.
    """
    answer = load.ask()
    if workload.answer_holds not in answer:
        raise BenchmarkError(
            f"{workload.name}: {workload.answer_holds!r} is not in the answer: {answer[:500]!r}"
        )
    load.run(WARM_SECONDS)


def take(pid: int, load: Load, seconds: float) -> Sample:
    """One measurement of a server by its process id; the processes below it count as well."""
    cpu, wall = procfs.family_cpu_seconds(pid), time.monotonic()
    requests = load.run(seconds)
    return Sample(requests, time.monotonic() - wall, procfs.family_cpu_seconds(pid) - cpu)
