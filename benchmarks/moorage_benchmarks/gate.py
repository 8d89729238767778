"""Whether the runtime has become slower: ratios against a floor of the same run, and their limits.

    reports of runtime and grpc -> ratios -> compare with gate.json -> verdicts

Machines differ and are busy; the floor, measured in the same rounds on the same core, differs with
them. What is left is in the tolerance, which comes from repeated runs of the same program. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage_benchmarks import figures
from moorage_benchmarks.grpc_transports import MINIMAL
from moorage_benchmarks.report import Table
from moorage_benchmarks.throughput import MINIMAL_HTTP, MODELS_ALONE

# Fewer than this is no change of the program that anybody would look for.
LEAST_TOLERANCE_PERCENT = 10
# A few runs do not show the worst that runs of the same program give.
TIMES_SEEN = 2

OK, BETTER, WORSE = "ok", "better", "WORSE"
NOT_MEASURED, NO_LIMIT = "NOT MEASURED", "NO LIMIT"
FAILED = {WORSE, NOT_MEASURED, NO_LIMIT}


@dataclass(frozen=True)
class Limit:
    """What a ratio was, and how far the same program's was from it.

    Attributes:
        recorded: Median of the runs.
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


def ratios(runtime: Mapping[str, Any], grpc: Mapping[str, Any]) -> Mapping[str, float]:
    """CPU time of a request over that of the floor of its run, by load.

    Args:
        runtime: Data of the measure ``runtime``; the floor is the model alone.
        grpc: Data of the measure ``grpc``; the floor is the minimal server on grpcio.
    """
    found = {
        name: entry["times_onnxruntime_alone"]
        for name, entry in runtime.items()
        if name not in MODELS_ALONE and name != MINIMAL_HTTP
    }
    for name, entry in grpc.items():
        server, _, size = name.rpartition(", ")
        if server != MINIMAL:
            floor = grpc[f"{MINIMAL}, {size}"]["cpu_microseconds_per_call"]
            found[f"gRPC, {name}"] = entry["cpu_microseconds_per_call"] / floor
    return found


def calibrate(runs: Sequence[Mapping[str, float]]) -> Mapping[str, Limit]:
    """Limits from the ratios of repeated runs: their median, and a multiple of the distance seen.

    Raises:
        ValueError: There are no runs.
    """
    if not runs:
        raise ValueError("no runs to take limits from")
    limits: dict[str, Limit] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        middle = figures.median(values)
        seen = max(abs(value / middle - 1) for value in values) * 100
        tolerance = max(LEAST_TOLERANCE_PERCENT, TIMES_SEEN * seen)
        limits[name] = Limit(round(middle, 3), round(tolerance, 1))
    return limits


def compare(measured: Mapping[str, float], limits: Mapping[str, Limit]) -> Sequence[Verdict]:
    """A verdict for each limit, then for what was measured and has none."""
    names = [*limits, *(name for name in measured if name not in limits)]
    return [Verdict(name, measured.get(name), limits.get(name)) for name in names]


def as_table(verdicts: Sequence[Verdict]) -> Table:
    """What was measured, what is allowed, and what follows."""
    rows = [
        [
            each.name,
            f"{each.measured:.2f}" if each.measured is not None else "",
            f"{each.limit.recorded:.2f} ± {each.limit.tolerance_percent:.0f} %"
            if each.limit
            else "",
            each.outcome,
        ]
        for each in verdicts
    ]
    return Table(["load", "times its floor", "recorded", "outcome"], rows)


def encode(limits: Mapping[str, Limit], facts: Mapping[str, str], runs: int) -> str:
    """The file of limits, with the machine that they come from."""
    document = {
        "machine": facts,
        "runs": runs,
        "limits": {
            name: {"recorded": limit.recorded, "tolerance_percent": limit.tolerance_percent}
            for name, limit in limits.items()
        },
    }
    return json.dumps(document, indent=2) + "\n"


def parse(text: str) -> Mapping[str, Limit]:
    """Limits from the file's text.

    Raises:
        ValueError: It is no such file; the text names the limit and what was expected.
    """
    try:
        found: Mapping[str, Mapping[str, Any]] = json.loads(text)["limits"]
    except (KeyError, TypeError) as error:
        raise ValueError('limits: expected an object with "limits"') from error
    return {name: _limit(name, entry) for name, entry in found.items()}


def _limit(name: str, entry: Mapping[str, Any]) -> Limit:
    values: list[float] = []
    for key in ("recorded", "tolerance_percent"):
        value = entry.get(key)
        if not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"limits[{name!r}].{key} is {value!r}: expected a number above 0")
        values.append(value)
    return Limit(*values)
