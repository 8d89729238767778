"""The number of processor cores that this process may use.

Libraries start one thread per core of the host. In a container that may use two of 64 cores, this
is far too many. The quota is in the files of the control group (Linux, cgroups v1 and v2).
"""

import math
import os
import pathlib
from typing import Final

_V2: Final = "sys/fs/cgroup/cpu.max"
_V1_QUOTA: Final = "sys/fs/cgroup/cpu/cpu.cfs_quota_us"
_V1_PERIOD: Final = "sys/fs/cgroup/cpu/cpu.cfs_period_us"


def usable(root: pathlib.Path = pathlib.Path("/")) -> int:
    """Cores by affinity and quota, at least 1; a fraction of a core counts as one.

    Args:
        root: Root folder of the control group's files.
    """
    cores = len(os.sched_getaffinity(0))
    quota = _quota(root)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def _quota(root: pathlib.Path) -> float | None:
    """The quota in cores, or None without a quota."""
    try:
        limit, period = (root / _V2).read_text().split()
    except (OSError, ValueError):
        try:
            limit, period = (root / _V1_QUOTA).read_text(), (root / _V1_PERIOD).read_text()
        except OSError:
            return None
    try:
        cores = int(limit) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return cores if cores > 0 else None
