"""Which of the requests that wait run next, and whether together.

    waiting requests -> take -> the next run -> RunCost: does merging pay?
                                             -> Trials: may this model be merged at all?

Pure. The head of the queue always runs next, so that no kind of request can starve another; those
behind it that fit go along.
"""

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

import msgspec

from moorage_runtime.tensors import Datatype, TensorSpec

# How fast old runs fade: the last fifty or so count.
_FADE: Final = 0.98
# Squared differences of rows from their mean, summed, from which the estimate is believed.
_LEAST_SPREAD: Final = 4.0
# Share of the fixed part in a run of one row from which merging is worth its copies, and that
# the other threads rest meanwhile.
_WORTH: Final = 0.2
# Merged runs that must give what the single ones gave.
_TRIALS: Final = 3
# Rows of such a run at most: the single ones come one after the other.
TRIAL_ROWS: Final = 4
# Sets of requested outputs that are tried; clients choose them, so there is an end.
_MOST_SETS: Final = 32


class BatchingPolicy(msgspec.Struct, frozen=True):
    """How the requests of one version are merged.

    Attributes:
        max_rows: Rows of one run at most; a larger request runs alone.
        max_delay_seconds: How long a request may wait for others while the model is idle.
        is_tried: Merged runs are compared with single ones before they are believed.
    """

    max_rows: int = 64
    max_delay_seconds: float = 0.0
    is_tried: bool = True


class Waiting(Protocol):
    """What the choice depends on.

    Attributes:
        key: Equal for requests that may be merged, None for one that must run alone.
        rows: Size of its batch.
    """

    key: Hashable
    rows: int


def take(waiting: Sequence[Waiting], max_rows: int) -> list[int]:
    """Places of those that run next, ascending: the first, and all that may go with it.

    One that does not fit any more ends the search among its like, so that no small request
    overtakes a large one of the same key.

    Args:
        waiting: In the order in which they came; at least one.
        max_rows: Rows of the run at most, unless the first has more.
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
    """Why requests for such a model cannot be merged; "" when every batch is variable."""
    for kind, specs in (("input", inputs), ("output", outputs)):
        for spec in specs:
            if not spec.any_shape and spec.shape[:1] != (-1,):
                return (
                    f"{kind} '{spec.name}' has shape {list(spec.shape)}, expected -1 as the first "
                    "dimension"
                )
    return ""


def suits(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bool:
    """Whether merging is tried unasked: a batch of numbers first in every declared tensor."""
    tensors = (*inputs, *outputs)
    return (
        bool(inputs and outputs)
        and not obstacle(inputs, outputs)
        and all(len(t.shape) > 1 and t.datatype is not Datatype.BYTES for t in tensors)
    )


class RunCost:
    """What a run costs beside its rows: seconds = fixed + each * rows, by least squares.

    Old runs fade, so that the estimate follows the machine and merging is tried again. Runs of 1
    and 5 rows that take 6 and 10 ms have a fixed part of 5 ms, most of the first: merging pays.
    """

    def __init__(self) -> None:
        self._weight = self._rows = self._seconds = self._squares = self._products = 0.0

    def record(self, rows: int, seconds: float) -> None:
        """Learn from one run."""
        self._weight = self._weight * _FADE + 1
        self._rows = self._rows * _FADE + rows
        self._seconds = self._seconds * _FADE + seconds
        self._squares = self._squares * _FADE + rows * rows
        self._products = self._products * _FADE + rows * seconds

    def pays(self) -> bool:
        """Whether one run of two rows is worth more than two of one; True while unknown."""
        spread = self._weight * self._squares - self._rows * self._rows
        if spread <= self._weight * _LEAST_SPREAD:
            return True
        each = (self._weight * self._products - self._rows * self._seconds) / spread
        fixed = (self._seconds - each * self._rows) / self._weight
        return fixed >= _WORTH * (fixed + each)


class Trials:
    """Whether the rows of a model are known not to influence one another, by set of outputs.

    A model whose answer mixes the rows of a batch (a softmax over the wrong dimension, the mean
    of the batch, noise) must not be merged, and its file does not tell.
    """

    def __init__(self, *, is_tried: bool) -> None:
        self._left: dict[frozenset[str], int] = {}
        self._needed = _TRIALS if is_tried else 0
        self._is_refuted = False

    @property
    def is_refuted(self) -> bool:
        """A merged run gave something else, so that there are no more."""
        return self._is_refuted

    def is_due(self, outputs: frozenset[str]) -> bool:
        """Whether merged runs for these outputs are still compared with single ones."""
        return self._left.get(outputs, self._needed) > 0

    def may_merge(self, outputs: frozenset[str]) -> bool:
        """Whether runs for these outputs may be merged, be it as a trial."""
        return not self._is_refuted and (
            not self._needed or outputs in self._left or len(self._left) < _MOST_SETS
        )

    def agreed(self, outputs: frozenset[str]) -> None:
        """A trial gave what the single runs gave."""
        self._left[outputs] = max(self._left.get(outputs, self._needed) - 1, 0)

    def refute(self) -> None:
        """A merged run gave something else, or failed where the single ones did not."""
        self._is_refuted = True
