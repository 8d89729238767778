"""How long a server takes from its command to ready, and the memory that it then holds.

Servers of one and of two workers and the least start of all take turns in each round.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from moorage_benchmarks import figures, memory, minimal_start, procfs, programs
from moorage_benchmarks.report import Report, Table

FLOOR = "floor"
# Key of the data to row of the table.
SERVERS = {
    FLOOR: "ONNX Runtime and the model alone",
    "1_workers": "1 worker",
    "2_workers": "2 workers",
}
MODEL = programs.DIGITS / "model.onnx"
HOW = (
    "The digits model from a file. Ready is the time from starting the command to the first 200 "
    "of /v2/health/ready, by the clock, so that other programs on the machine are in it; CPU is "
    "what all processes of the server used until then, which they are not. Memory is at rest: "
    "RSS of all processes counts shared pages for each, PSS once. Alone is a Python that imports "
    "ONNX Runtime, loads the model, and listens nowhere. Medians of the rounds."
)


@dataclass(frozen=True)
class Start:
    """One start."""

    ready_seconds: float
    cpu_seconds: float


def measure(*, rounds: int) -> Report:
    """Every server, in turns.

    Raises:
        BenchmarkError: A server does not start.
    """
    serving: dict[str, Callable[[], contextlib.AbstractContextManager[int]]] = {
        FLOOR: _alone,
        "1_workers": partial(_serving, 1),
        "2_workers": partial(_serving, 2),
    }
    starts: dict[str, list[Start]] = {name: [] for name in serving}
    resting: dict[str, procfs.Memory] = {}
    for _ in range(rounds):
        for name, started in serving.items():
            before = time.monotonic()
            with started() as pid:
                ready = time.monotonic() - before
                pids = procfs.family(pid)
                starts[name].append(Start(ready, sum(map(procfs.cpu_seconds, pids))))
                if name not in resting:
                    memory.at_rest(pid)
                    resting[name] = procfs.total(map(procfs.memory, pids))
    return make_report(starts, resting)


def make_report(
    starts: Mapping[str, Sequence[Start]], resting: Mapping[str, procfs.Memory]
) -> Report:
    """A row for each of SERVERS that was started. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for name, found in starts.items():
        ready = figures.median([start.ready_seconds for start in found])
        cpu = figures.median([start.cpu_seconds for start in found])
        held = resting[name]
        rows.append(
            [
                SERVERS[name],
                f"{ready:.2f}",
                f"{cpu:.2f}",
                f"{held.rss / 2**20:.0f}",
                f"{held.pss / 2**20:.0f}",
            ]
        )
        data[name] = {
            "ready_seconds": ready,
            "cpu_seconds_until_ready": cpu,
            "rss_bytes": held.rss,
            "pss_bytes": held.pss,
        }
    head = ["server", "ready s", "CPU s", "RSS MiB", "PSS MiB"]
    return Report("From start to ready", HOW, Table(head, rows), data)


@contextlib.contextmanager
def _serving(workers: int) -> Generator[int]:
    with programs.runtime(*programs.DIGITS_OPTIONS, f"--workers={workers}") as runtime:
        yield runtime.pid


@contextlib.contextmanager
def _alone() -> Generator[int]:
    words = [sys.executable, minimal_start.__file__, str(MODEL)]
    # as the runtime has it: numpy's library would start a thread for each core
    environment = {"OPENBLAS_NUM_THREADS": "1"}
    with programs.process(words, minimal_start.LOADED, environment) as (pid, _):
        yield pid
