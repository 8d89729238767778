"""Growth of a process over time, by linear regression. Pure.

samples -> without the warm-up -> slope per 10 minutes -> verdict
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PERIOD_SECONDS = 600.0
MIB = 1 << 20

LIMITS: Mapping[str, float] = {
    "rss": 1.0,
    "pss": math.inf,  # rises and falls with other processes that share the same pages
    "descriptors": 0.5,
    "threads": 0.5,
}
"""Largest slope that counts as flat, per 10 minutes: MiB of memory, and counts of the others.

A leak of 100 bytes per request at 100 requests per second is 5.7 MiB in 10 minutes, and one leaked
descriptor per edit is more than 20.
"""

WARM_UP = 0.25
"""Share of the run, from its start, in which caches fill and which does not count."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a program, with its child processes.

    Attributes:
        at: Seconds since the start of the run.
        rss: Resident memory, MiB.
        pss: Resident memory, MiB, where a shared page counts in part.
        descriptors: Open file descriptors.
        threads: Threads.
    """

    at: float
    rss: float
    pss: float
    descriptors: float
    threads: float


@dataclass(frozen=True, slots=True)
class Slope:
    """How one figure of a program developed after the warm-up.

    Attributes:
        figure: Its name in a sample.
        per_period: Growth per 10 minutes.
        error: Standard error of the growth.
        first: The first value after the warm-up.
        last: The last value.
    """

    figure: str
    per_period: float
    error: float
    first: float
    last: float

    @property
    def is_flat(self) -> bool:
        """Whether the growth is below the limit."""
        return self.per_period < LIMITS[self.figure]


def slopes(samples: Sequence[Sample]) -> list[Slope]:
    """The slope of every figure.

    Raises:
        ValueError: Fewer than three samples are left after the warm-up.
    """
    end = samples[-1].at if samples else 0.0
    kept = [each for each in samples if each.at >= end * WARM_UP]
    if len(kept) < 3:
        raise ValueError(f"samples after the warm-up: {len(kept)}, but a slope needs at least 3")
    times = [each.at for each in kept]
    found: list[Slope] = []
    for figure in LIMITS:
        values = [getattr(each, figure) for each in kept]
        slope, error = regression(times, values)
        scaled = slope * PERIOD_SECONDS, error * PERIOD_SECONDS
        found.append(Slope(figure, *scaled, values[0], values[-1]))
    return found


def regression(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Slope of the least-squares line through at least three points, and its standard error."""
    count = len(xs)
    mean_x, mean_y = sum(xs) / count, sum(ys) / count
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    residuals = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return slope, (residuals / (count - 2) / spread) ** 0.5
