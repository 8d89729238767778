"""What a second worker gives for small requests: the cost of a request, and how even the load is.

On two cores the client takes from the workers what they would need, so the clock cannot tell. All
workers therefore share one core, which keeps them busy, and the client has the other. The CPU time
of a request then says how many a core can answer, and the shares of the workers how evenly the
kernel spreads the connections.
"""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from moorage_benchmarks import figures, procfs, programs, throughput, workloads
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.report import Report, Table

WORKERS = (1, 2)
CONNECTIONS = 64
WARM_SECONDS = 0.5
HOW = (
    "The digits model, one picture a request as OIP JSON, over as many connections as the "
    f"kernel shares among the workers: {CONNECTIONS}. Limit is what the server answers a second "
    "when each worker has a core of its own and is never idle: the number of workers over the "
    "CPU time of a request, measured with all of them on one core and the client on another. "
    "Gain is the limit over that of one worker. Busiest is the share of the worker that got the "
    "most connections. Medians of the rounds."
)


@dataclass(frozen=True)
class Sample:
    """One measurement: answers, and the CPU time of the workers and of their supervisor."""

    requests: int
    worker_cpu_seconds: tuple[float, ...]
    supervisor_cpu_seconds: float = 0.0

    @property
    def limit_per_second(self) -> float:
        """Answers a second when every worker has a core of its own and no idle time."""
        used = self.worker_cpu_seconds
        return len(used) * self.requests / sum(used)

    @property
    def cpu_microseconds(self) -> float:
        """CPU time of all processes for each request."""
        return (sum(self.worker_cpu_seconds) + self.supervisor_cpu_seconds) / self.requests * 1e6

    @property
    def busiest_share(self) -> float:
        """Of the busiest worker in the CPU time of all workers."""
        return max(self.worker_cpu_seconds) / sum(self.worker_cpu_seconds)


def measure(*, rounds: int, seconds: float) -> Report:
    """Servers of one and of two workers, side by side and in turns.

    Raises:
        BenchmarkError: A server fails or answers wrongly.
    """
    server_core, client_core = throughput.two_cores()
    workload = workloads.digits(programs.DIGITS)[0]
    samples: dict[int, list[Sample]] = {workers: [] for workers in WORKERS}
    with ExitStack() as stack:
        servers: dict[int, programs.Runtime] = {}
        for workers in WORKERS:
            options = (*programs.DIGITS_OPTIONS, f"--workers={workers}")
            with programs.pinned(server_core):
                servers[workers] = stack.enter_context(programs.runtime(*options))
        stack.enter_context(programs.pinned(client_core))
        for _, workers in itertools.product(range(rounds), WORKERS):
            server = servers[workers]
            # new connections in every round: how the kernel shares them out is part of it
            load = HttpLoad(server.http_port, workload.http_request(server.http_port), CONNECTIONS)
            load.run(WARM_SECONDS)
            samples[workers].append(_run(server.pid, load, seconds))
            load.close()
    return make_report(samples)


def make_report(samples: dict[int, list[Sample]]) -> Report:
    """A row for each number of workers. Pure."""
    limits = {
        workers: figures.median([sample.limit_per_second for sample in found])
        for workers, found in samples.items()
    }
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for workers, found in samples.items():
        cpu = figures.median([sample.cpu_microseconds for sample in found])
        share = figures.median([sample.busiest_share for sample in found])
        gain = limits[workers] / limits[WORKERS[0]]
        rows.append(
            [
                f"{workers} worker{'s' if workers > 1 else ''}",
                f"{limits[workers]:,.0f}",
                f"{gain:.2f}",
                f"{cpu:.1f}",
                f"{share * 100:.0f} %",
            ]
        )
        data[f"{workers}_workers"] = {
            "limit_per_second": limits[workers],
            "gain": gain,
            "cpu_microseconds_per_request": cpu,
            "busiest_share": share,
        }
    head = ["server", "limit/s", "gain", "CPU µs a request", "busiest"]
    return Report("A second worker", HOW, Table(head, rows), data)


def _run(pid: int, load: HttpLoad, seconds: float) -> Sample:
    pids = procfs.family(pid)
    before = {process: procfs.cpu_seconds(process) for process in pids}
    requests = load.run(seconds)
    used = {process: procfs.cpu_seconds(process) - before[process] for process in pids}
    own = used.pop(pid)
    return Sample(requests, tuple(used.values()), own) if used else Sample(requests, (own,))
