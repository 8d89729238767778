"""What Linux says of a process and of the machine, from /proc and a process's own clock.

The parsers are pure; the readers below them open one file each.

Source: proc(5), /proc/pid/smaps_rollup.
"""

import time
from collections.abc import Mapping
from pathlib import Path


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


def rss_bytes(pid: int) -> int:
    """Memory of a process, shared pages included.

    Raises:
        OSError: There is no such process.
    """
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup").read_text())["Rss"] * 1024


def family(pid: int) -> tuple[int, ...]:
    """A process and all those below it, whichever of its threads has started them."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for text in lists for child in text.read_text().split()]
    return (pid, *(process for child in children for process in family(child)))


def family_cpu_seconds(pid: int) -> float:
    """CPU time that a process and all those below it have used, as ``cpu_seconds``."""
    return sum(map(cpu_seconds, family(pid)))


def _kilobytes(text: str) -> Mapping[str, int]:
    """The lines of the form ``Key:   12 kB``."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB" and words[0].endswith(":"):
            sizes[words[0][:-1]] = int(words[1])
    return sizes
