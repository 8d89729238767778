"""Combines the metrics of several workers. Pure.

families of each worker -> total -> families of the server; counters of an ended worker are kept
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from moorage_runtime.workers.shared.messages import Family

Combine = Callable[[float, float], float]

# All other metrics are summed: counts, times, memory, open files.
_COMBINE: Final[Mapping[str, Combine]] = MappingProxyType(
    {
        # 1 for the server only if it is 1 for every worker
        "moorage_model_ready": min,
        "process_start_time_seconds": min,
        # properties of the interpreter and limits, equal for all workers
        "python_info": max,
        "process_max_fds": max,
    }
)
_COUNTING: Final = ("counter", "histogram", "summary")
# Creation time of a series; the earliest counts.
_BEGAN: Final = "_created"


def total(workers: Iterable[Sequence[Family]]) -> tuple[Family, ...]:
    """Each series once, combined by sum or by its own rule."""
    families: dict[str, Family] = {}
    series: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in (family for worker in workers for family in worker):
        families.setdefault(family.name, family)
        values = series.setdefault(family.name, {})
        for name, labels, value in family.samples:
            key = (name, tuple(labels.items()))
            combine = min if name.endswith(_BEGAN) else _COMBINE.get(family.name, _add)
            values[key] = combine(values[key], value) if key in values else value
    return tuple(
        Family(
            family.name,
            family.documentation,
            family.kind,
            [(name, dict(labels), value) for (name, labels), value in series[family.name].items()],
        )
        for family in families.values()
    )


def counters(families: Iterable[Family]) -> tuple[Family, ...]:
    """Counters only: the counters of a server must not decrease when a worker ends."""
    return tuple(family for family in families if family.kind in _COUNTING)


def _add(first: float, second: float) -> float:
    return first + second
