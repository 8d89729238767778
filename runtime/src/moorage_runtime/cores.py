"""How many processor cores this process may really use.

Libraries ask the host and start a thread per core of it; in a container that may use two of
sixty-four that is ruinous. The quota is in the control group's files (Linux, cgroups v1 and v2).
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
        root: Where the control group's files are looked up.
    """
    cores = len(os.sched_getaffinity(0))
    quota = _quota(root)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def _quota(root: pathlib.Path) -> float | None:
    """The quota in cores, None when there is none."""
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
