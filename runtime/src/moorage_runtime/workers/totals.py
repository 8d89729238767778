"""The metrics of several workers as those of one server. Pure.

families of each worker -> total -> families of the server; counters of one that ended -> kept
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from moorage_runtime.workers.messages import Family

Combine = Callable[[float, float], float]

# Everything else is added up: counts, times, memory, open files.
_COMBINE: Final[Mapping[str, Combine]] = MappingProxyType(
    {
        # true of the server when it is true of each of them
        "moorage_model_ready": min,
        "process_start_time_seconds": min,
        # of the interpreter and of the limits, equal for all
        "python_info": max,
        "process_max_fds": max,
    }
)
_COUNTING: Final = ("counter", "histogram", "summary")
# When a series began; the oldest of them.
_BEGAN: Final = "_created"


def total(workers: Iterable[Sequence[Family]]) -> tuple[Family, ...]:
    """Each series once, added up or as its meaning asks for."""
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
    """Those that only grow: a server's count must not fall when one of its workers ends."""
    return tuple(family for family in families if family.kind in _COUNTING)


def _add(first: float, second: float) -> float:
    return first + second
