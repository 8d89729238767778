"""Whether something has become slower: ratios, the limits that recorded runs give, verdicts.

    ratios of a run (runtime_ratios, operator_ratios) -> compare with gate.json -> verdicts

Machines differ and are busy; a floor that is measured in the same run differs with them. What is
left is in the tolerance, which comes from repeated runs of the same program, best on several days:
a virtual machine is another one each day. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated

import msgspec

from moorage_benchmarks import figures
from moorage_benchmarks.report import Table

# Fewer than this is no change of the program that anybody would look for.
LEAST_TOLERANCE_PERCENT = 10
# A few runs do not show the worst that runs of the same program give.
TIMES_SEEN = 2

OK, BETTER, WORSE = "ok", "better", "WORSE"
NOT_MEASURED, NO_LIMIT = "NOT MEASURED", "NO LIMIT"
FAILED = {WORSE, NOT_MEASURED, NO_LIMIT}

NotNegative = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True)
class Run:
    """What was measured at a time.

    Attributes:
        date: Of that day, as ISO 8601 writes it.
        ratios: By name.
    """

    date: str
    ratios: Mapping[str, NotNegative]


@dataclass(frozen=True)
class Limit:
    """What a ratio was, and how far the same program's was from it; more is worse.

    Attributes:
        recorded: Median of the runs. 0 is a promise that something does not happen: it has no
            tolerance, whatever stands beside it.
        tolerance_percent: Of the recorded ratio, in both directions.
    """

    recorded: float
    tolerance_percent: float

    @property
    def greatest(self) -> float:
        """More is worse."""
        return self.recorded * (1 + self.tolerance_percent / 100)

    @property
    def least(self) -> float:
        """Less is better by so much that the limit should be recorded anew."""
        return self.recorded * (1 - self.tolerance_percent / 100)


@dataclass(frozen=True)
class Recording:
    """The runs of one part that give its limits.

    Attributes:
        machine: Facts about it.
        runs: One or more, in the order in which they were measured.
    """

    machine: Mapping[str, str]
    runs: Annotated[Sequence[Run], msgspec.Meta(min_length=1)]

    @cached_property
    def limits(self) -> Mapping[str, Limit]:
        """By the name of their ratio."""
        return calibrate([run.ratios for run in self.runs])


@dataclass(frozen=True)
class Verdict:
    """One ratio beside its limit; either may be missing, which fails too."""

    name: str
    measured: float | None
    limit: Limit | None

    @property
    def outcome(self) -> str:
        """One of the outcomes above."""
        if self.measured is None:
            return NOT_MEASURED
        if self.limit is None:
            return NO_LIMIT
        if self.measured > self.limit.greatest:
            return WORSE
        return BETTER if self.measured < self.limit.least else OK


def calibrate(runs: Sequence[Mapping[str, float]]) -> Mapping[str, Limit]:
    """Limits from the ratios of repeated runs: their median, and a multiple of the distance seen.

    What the last run measured has a limit; earlier runs may lack it.

    Raises:
        ValueError: There are no runs.
    """
    if not runs:
        raise ValueError("no runs to take limits from")
    return {name: _limit_of([run[name] for run in runs if name in run]) for name in runs[-1]}


def _limit_of(values: Sequence[float]) -> Limit:
    middle = figures.median(values)
    if not middle:
        return Limit(0, 0)
    seen = max(abs(value / middle - 1) for value in values) * 100
    tolerance = max(LEAST_TOLERANCE_PERCENT, TIMES_SEEN * seen)
    return Limit(float(f"{middle:.4g}"), round(tolerance, 1))


def compare(measured: Mapping[str, float], limits: Mapping[str, Limit]) -> Sequence[Verdict]:
    """A verdict for each limit, then for what was measured and has none."""
    names = [*limits, *(name for name in measured if name not in limits)]
    return [Verdict(name, measured.get(name), limits.get(name)) for name in names]


def as_table(verdicts: Sequence[Verdict]) -> Table:
    """What was measured, what is allowed, and what follows."""
    rows = [
        [
            each.name,
            f"{each.measured:.4g}" if each.measured is not None else "",
            f"{each.limit.recorded:.4g} ± {each.limit.tolerance_percent:.0f} %"
            if each.limit
            else "",
            each.outcome,
        ]
        for each in verdicts
    ]
    return Table(["what", "measured", "recorded", "outcome"], rows)


def encode(parts: Mapping[str, Recording]) -> str:
    """The file of runs."""
    return json.dumps({name: asdict(part) for name, part in parts.items()}, indent=2) + "\n"


def parse(text: str) -> Mapping[str, Recording]:
    """The recordings by their part, from the file's text.

    Raises:
        ValueError: It is no such file; the text says where, and what was expected.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, Recording])
    except msgspec.DecodeError as error:
        raise ValueError(f"gate.json: {error}") from error
