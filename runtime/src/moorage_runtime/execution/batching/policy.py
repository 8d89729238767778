"""Selects the waiting requests for the next run.

    waiting requests -> take -> the next run -> RunCost: does merging pay off?

Pure. The head of the queue is always in the next run, so no kind of request can starve another.
Requests behind it join if they can be merged with it.
"""

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

import msgspec

from moorage_runtime.values.tensors import TensorSpec

# Decay of old runs: about the last fifty count.
_FADE: Final = 0.98
# Minimum sum of squared deviations of the rows at which the estimate is used.
_LEAST_SPREAD: Final = 4.0
# Minimum share of the fixed cost in a run of one row at which merging is worth its copies and the
# idle time of the other threads.
_WORTH: Final = 0.2


class BatchingPolicy(msgspec.Struct, frozen=True):
    """How the requests of one version are merged.

    Attributes:
        max_rows: Maximum number of rows per run; a larger request runs alone.
        max_delay_seconds: How long a request may wait for others while the model is idle.
    """

    max_rows: int = 64
    max_delay_seconds: float = 0.0


class Waiting(Protocol):
    """The properties of a waiting request that the selection needs.

    Attributes:
        key: Equal for requests that can be merged; None for one that must run alone.
        rows: Size of its batch.
    """

    key: Hashable
    rows: int


def take(waiting: Sequence[Waiting], max_rows: int) -> list[int]:
    """Positions of the requests in the next run, ascending: the first, and all that can join it.

    A request that does not fit ends the search among requests with its key, so that no small
    request overtakes a large one.

    Args:
        waiting: The queue in order of arrival; at least one request.
        max_rows: Maximum number of rows per run, unless the first request has more.
    """
    first = waiting[0]
    places = [0]
    if first.key is None:
        return places
    total = first.rows
    for place in range(1, len(waiting)):
        if total >= max_rows:
            break
        item = waiting[place]
        if item.key != first.key:
            continue
        if total + item.rows > max_rows:
            break
        total += item.rows
        places.append(place)
    return places


def obstacle(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """Why requests for the model cannot be merged; "" if every batch dimension is variable."""
    for kind, specs in (("input", inputs), ("output", outputs)):
        for spec in specs:
            if not spec.any_shape and spec.shape[:1] != (-1,):
                return (
                    f"{kind} '{spec.name}' has shape {list(spec.shape)}: its first dimension must "
                    "be -1"
                )
    return ""


class RunCost:
    """Estimates the cost of a run by least squares: seconds = fixed + each * rows.

    Old runs decay, so the estimate follows the machine and merging is tried again. If runs of 1
    and 5 rows take 6 and 10 ms, the fixed cost is 5 ms, most of the first run, so merging pays
    off.

    Neither rule without an estimate suits every model, and no static property of a model tells
    which one suits it. With 32 clients:

    - One run at a time leaves threads idle. A Python model that takes 5 ms per row, without a
      fixed cost, then answers 200 requests per second with four threads; with the estimate, 560.
    - Merging only while all threads run makes small batches. A perceptron with six layers of 512
      units then takes 122 µs of CPU time per request with eight threads, and the model answers
      7,900 requests per second; with the estimate, 48 µs and 20,400.
    """

    def __init__(self) -> None:
        self._weight = self._rows = self._seconds = self._squares = self._products = 0.0

    def record(self, rows: int, seconds: float) -> None:
        """Update the estimate with one run."""
        self._weight = self._weight * _FADE + 1
        self._rows = self._rows * _FADE + rows
        self._seconds = self._seconds * _FADE + seconds
        self._squares = self._squares * _FADE + rows * rows
        self._products = self._products * _FADE + rows * seconds

    def pays(self) -> bool:
        """Whether one run of two rows is cheaper than two runs of one; True while unknown."""
        spread = self._weight * self._squares - self._rows * self._rows
        if spread <= self._weight * _LEAST_SPREAD:
            return True
        each = (self._weight * self._products - self._rows * self._seconds) / spread
        fixed = (self._seconds - each * self._rows) / self._weight
        return fixed >= _WORTH * (fixed + each)
