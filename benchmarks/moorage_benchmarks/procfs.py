"""What Linux says of a process and of the machine, from /proc and a process's own clock.

The parsers are pure; the readers below them open one file each.

Source: proc(5), /proc/pid/smaps_rollup.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """Memory of a process, in bytes.

    Attributes:
        rss: Pages that are in memory, shared ones in full.
        pss: The same, each shared page divided among those that share it.
        private: Pages that nobody shares: what ending the process would free.
    """

    rss: int
    pss: int
    private: int


def parse_memory(rollup: str) -> Memory:
    """The sums of /proc/pid/smaps_rollup.

    Raises:
        ValueError: A line is missing.
    """
    sizes = _kilobytes(rollup)
    try:
        private = sizes["Private_Clean"] + sizes["Private_Dirty"]
        return Memory(sizes["Rss"] * 1024, sizes["Pss"] * 1024, private * 1024)
    except KeyError as missing:
        raise ValueError(f"no line {missing.args[0]} in smaps_rollup") from missing


def parse_processor(cpuinfo: str) -> str:
    """The processor's name, "unknown" where the kernel gives none."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return "unknown"


def parse_total_memory(meminfo: str) -> int:
    """The machine's memory in bytes.

    Raises:
        ValueError: The line is missing.
    """
    total = _kilobytes(meminfo).get("MemTotal")
    if total is None:
        raise ValueError("no line MemTotal in meminfo")
    return total * 1024


def cpu_clock(pid: int) -> int:
    """The clock of a process's CPU time, for ``time.clock_gettime``.

    Source: clock_getcpuclockid(3) and the kernel's include/linux/posix-timers.h, CPUCLOCK_SCHED.
    """
    return ~pid << 3 | 2


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, ended ones included, in user and kernel mode.

    Raises:
        OSError: There is no such process.
    """
    return time.clock_gettime(cpu_clock(pid))


def memory(pid: int) -> Memory:
    """Memory that a process uses now."""
    return parse_memory(Path(f"/proc/{pid}/smaps_rollup").read_text())


def family(pid: int) -> tuple[int, ...]:
    """A process and all those below it, whichever of its threads has started them."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for text in lists for child in text.read_text().split()]
    return (pid, *(process for child in children for process in family(child)))


def family_cpu_seconds(pid: int) -> float:
    """CPU time that a process and all those below it have used, as ``cpu_seconds``."""
    return sum(map(cpu_seconds, family(pid)))


def total(memories: Iterable[Memory]) -> Memory:
    """The sums. Pure."""
    found = tuple(memories)
    return Memory(
        sum(memory.rss for memory in found),
        sum(memory.pss for memory in found),
        sum(memory.private for memory in found),
    )


def _kilobytes(text: str) -> Mapping[str, int]:
    """The lines of the form ``Key:   12 kB``."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB" and words[0].endswith(":"):
            sizes[words[0][:-1]] = int(words[1])
    return sizes
