"""Memory of both programs at rest: started, ready, and not asked for anything yet."""

import time
from dataclasses import asdict

from moorage_benchmarks import procfs, programs
from moorage_benchmarks.procfs import Memory
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table

# At rest: nothing was taken or given back for as long as the slowest periodic work takes.
SETTLED_SECONDS = 3
SETTLED_BYTES = 64 * 1024
DEADLINE_SECONDS = 60
HOW = (
    "At rest: ready, without a request or an object yet, and nothing allocated for "
    f"{SETTLED_SECONDS} s. The runtime has the digits model loaded, the operator watches an empty "
    "cluster. RSS counts shared pages in full, PSS divides them among the processes of this "
    "machine that share them, private is what ending the process would free."
)


def measure() -> Report:
    """Both programs, one after the other.

    Raises:
        BenchmarkError: A program does not start or does not come to rest.
    """
    with programs.runtime() as runtime:
        of_runtime = at_rest(runtime.pid)
    with programs.control_plane() as kubeconfig, programs.operator(kubeconfig) as pid:
        of_operator = at_rest(pid)
    measured = {"runtime": of_runtime, "operator": of_operator}
    rows = [
        [name, *(f"{size / 2**20:.1f}" for size in (found.rss, found.pss, found.private))]
        for name, found in measured.items()
    ]
    return Report(
        "Memory at rest",
        HOW,
        Table(["program", "RSS MiB", "PSS MiB", "private MiB"], rows),
        {f"{name}_bytes": asdict(found) for name, found in measured.items()},
    )


def at_rest(pid: int) -> Memory:
    """The memory of a process once it has stopped changing.

    Raises:
        BenchmarkError: It did not within the deadline.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    before = procfs.memory(pid)
    while True:
        time.sleep(SETTLED_SECONDS)
        now = procfs.memory(pid)
        if abs(now.private - before.private) <= SETTLED_BYTES:
            return now
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"process {pid} is not at rest after {DEADLINE_SECONDS} s: private memory went "
                f"from {before.private} to {now.private} bytes within {SETTLED_SECONDS} s"
            )
        before = now
