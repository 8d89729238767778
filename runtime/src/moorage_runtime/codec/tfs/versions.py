"""The int64 version numbers for TensorFlow Serving clients.

The registry names versions with strings; TensorFlow Serving numbers them. The number of a version
is the first of: itself if it is a number, the number after a ``v``, the number in the
configuration, its rank (1-based position among all versions in natural order). No two versions
share a number: the earlier rule wins, and a rank that is in use moves up to the next free number.

    "3", "alpha", "v10"  ->  3, 2, 10
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from moorage_runtime.values.inference import NO_VERSION_NUMBERS

_INT64_MAX: Final = 2**63 - 1
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_V_DIGITS: Final = re.compile(r"[vV]([0-9]{1,19})")
_DIGIT_RUN: Final = re.compile(r"([0-9]+)")


def version_numbers(
    versions: Iterable[str], configured: Mapping[str, int] = NO_VERSION_NUMBERS
) -> dict[str, int]:
    """Every version with its number, in ascending natural order of the versions.

    Args:
        versions: The registry's versions of one model.
        configured: Numbers of versions in the model's configuration.
    """
    # "7" before "007": the plain spelling keeps the number
    ordered = sorted(set(versions), key=lambda name: (natural_key(name), len(name), name))
    ways: tuple[Callable[[str], int | None], ...] = (_own_number, _v_number, configured.get)
    numbers: dict[str, int] = {}
    taken: set[int] = set()
    for way in ways:
        for version in ordered:
            number = way(version)
            if number is None or not 0 <= number <= _INT64_MAX:
                continue
            if version not in numbers and number not in taken:
                numbers[version] = number
                taken.add(number)
    for rank, version in enumerate(ordered, start=1):
        if version in numbers:
            continue
        number = rank
        while number in taken:
            number += 1
        numbers[version] = number
        taken.add(number)
    return {version: numbers[version] for version in ordered}


def natural_key(version: str) -> tuple[tuple[int, str], ...]:
    """Sort key in which runs of digits compare as numbers: "v9" before "v10"."""
    # int() refuses very long texts; length and then text order give the same result
    return tuple(
        (len(run.lstrip("0")), run.lstrip("0")) if index % 2 else (0, run)
        for index, run in enumerate(_DIGIT_RUN.split(version))
    )


def _own_number(version: str) -> int | None:
    return int(version) if _DIGITS.fullmatch(version) else None


def _v_number(version: str) -> int | None:
    match = _V_DIGITS.fullmatch(version)
    return int(match[1]) if match else None
