"""Statistics of a few measured values. Pure."""

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("no values to take the median of")
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which this share of the values lies, between neighbours by a straight line.

    The least value is the 0th percentile, the greatest the 100th: of 1, 2, 3, 4, 5 the 90th is
    4.6.

    Raises:
        ValueError: There are no values, or the share is not from 0 to 100.
    """
    if not values or not 0 <= percent <= 100:
        raise ValueError(f"no {percent}th percentile of {len(values)} values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def spread_percent(values: Sequence[float]) -> float:
    """Half the distance from the least to the greatest value, in percent of the median."""
    return (max(values) - min(values)) / 2 / median(values) * 100
