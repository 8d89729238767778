"""How long a server takes from its command to ready, and the memory that it then holds."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moorage_benchmarks import figures, memory, procfs, programs
from moorage_benchmarks.report import Report, Table

WORKERS = (1, 2)
HOW = (
    "The digits model from a file. Ready is the time from starting the command to the first 200 "
    "of /v2/health/ready, by the clock, so that other programs on the machine are in it; CPU is "
    "what all processes of the server used until then, which they are not. Memory is at rest: "
    "RSS of all processes counts shared pages for each, PSS once. Medians of the rounds."
)


@dataclass(frozen=True)
class Start:
    """One start."""

    ready_seconds: float
    cpu_seconds: float


def measure(*, rounds: int) -> Report:
    """Servers of one and of two workers, in turns.

    Raises:
        BenchmarkError: A server does not start.
    """
    starts: dict[int, list[Start]] = {workers: [] for workers in WORKERS}
    resting: dict[int, procfs.Memory] = {}
    for _ in range(rounds):
        for workers in WORKERS:
            before = time.monotonic()
            with programs.runtime(*programs.DIGITS_OPTIONS, f"--workers={workers}") as runtime:
                ready = time.monotonic() - before
                pids = procfs.family(runtime.pid)
                starts[workers].append(Start(ready, sum(map(procfs.cpu_seconds, pids))))
                if workers not in resting:
                    memory.at_rest(runtime.pid)
                    resting[workers] = procfs.total(map(procfs.memory, pids))
    return make_report(starts, resting)


def make_report(starts: dict[int, list[Start]], resting: dict[int, procfs.Memory]) -> Report:
    """A row for each number of workers. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for workers, found in starts.items():
        ready = figures.median([start.ready_seconds for start in found])
        cpu = figures.median([start.cpu_seconds for start in found])
        held = resting[workers]
        rows.append(
            [
                f"{workers} worker{'s' if workers > 1 else ''}",
                f"{ready:.2f}",
                f"{cpu:.2f}",
                f"{held.rss / 2**20:.0f}",
                f"{held.pss / 2**20:.0f}",
            ]
        )
        data[f"{workers}_workers"] = {
            "ready_seconds": ready,
            "cpu_seconds_until_ready": cpu,
            "rss_bytes": held.rss,
            "pss_bytes": held.pss,
        }
    head = ["server", "ready s", "CPU s", "RSS MiB", "PSS MiB"]
    return Report("From start to ready", HOW, Table(head, rows), data)
