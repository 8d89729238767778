"""What the kernel tells about a program and its child processes."""

import asyncio
import re
import time
from pathlib import Path

from .slopes import MIB, Sample

SAMPLE_SECONDS = 5.0
_SIZES = re.compile(r"^(Rss|Pss): +(\d+) kB$", re.MULTILINE)


def sample(pid: int, at: float) -> Sample:
    """One sample of a program.

    Raises:
        ProcessLookupError: The program has ended.
    """
    rss = pss = descriptors = threads = 0
    for member in (pid, *_descendants(pid)):
        process = Path("/proc") / str(member)
        try:
            sizes = dict(_SIZES.findall((process / "smaps_rollup").read_text()))
            rss += int(sizes["Rss"]) * 1024
            pss += int(sizes["Pss"]) * 1024
            descriptors += len(list((process / "fd").iterdir()))
            threads += len(list((process / "task").iterdir()))
        except (OSError, KeyError) as error:
            if member == pid:
                raise ProcessLookupError(f"process {pid} has ended") from error
    return Sample(at, rss / MIB, pss / MIB, descriptors, threads)


async def sample_all(programs: dict[str, int], seconds: float) -> dict[str, list[Sample]]:
    """Samples of programs, by process id, every few seconds; prints one in sixty."""
    samples: dict[str, list[Sample]] = {name: [] for name in programs}
    began = time.monotonic()
    while (at := time.monotonic() - began) < seconds:
        for name, pid in programs.items():
            samples[name].append(sample(pid, at))
            if len(samples[name]) % 60 == 1:
                print(f"{at:6.0f} s  {name}: {samples[name][-1]}", flush=True)
        await asyncio.sleep(SAMPLE_SECONDS)
    return samples


def _descendants(pid: int) -> list[int]:
    # A child is listed by the thread that started it.
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    try:
        direct = [int(each) for task in tasks for each in task.read_text().split()]
    except OSError:
        return []
    return [each for child in direct for each in (child, *_descendants(child))]
