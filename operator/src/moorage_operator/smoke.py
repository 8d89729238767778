"""What a smoke test's answer is compared with, and what comes of it; pure.

    targets: SmokeTask --> probe.smoke_runner (asks) --> **mismatch** --> SmokeOutcome --> replicas

An outcome belongs to a container and to a digest of the tests: a restart or an edit makes it void.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .api.smoke_tests import ExpectedTensor, Scalar, SmokeTest

__all__ = ["Outputs", "SmokeOutcome", "SmokeTask", "SmokeVerdict", "mismatch"]

SHOWN_CHARACTERS = 80

Outputs = Mapping[str, Sequence[Scalar]]
"""An answer's tensors by name, flat and row-major; "" names the only one of a protocol that
leaves names out."""


class SmokeVerdict(StrEnum):
    """How the tests ended; the values are those of the condition's reasons."""

    PASSED = "Passed"
    OUTPUT_MISMATCH = "OutputMismatch"
    LATENCY_EXCEEDED = "LatencyExceeded"
    REQUEST_REJECTED = "RequestRejected"


@dataclass(frozen=True, slots=True)
class SmokeOutcome:
    """How one container did; `message` is empty where it passed."""

    digest: str
    verdict: SmokeVerdict
    message: str = ""


@dataclass(frozen=True, slots=True)
class SmokeTask:
    """The tests for one container; `done` where it is known to have passed them already."""

    digest: str
    tests: tuple[SmokeTest, ...]
    done: bool = False


def mismatch(test: SmokeTest, outputs: Outputs) -> str:
    """How an answer differs from what is expected, "" where it does not.

    A number is right when |got - expected| <= absolute + relative * |expected|: with 0.001 and
    0.01, 102.0 is right for 101 and 103.0 is not. Between whole numbers the absolute tolerance
    alone counts, so that a label is never nearly right. Booleans count as 0 and 1; text has to be
    equal.
    """
    found = [_difference(expected, outputs) for expected in test.outputs]
    return "; ".join(sentence for sentence in found if sentence)


def _difference(expected: ExpectedTensor, outputs: Outputs) -> str:
    got = outputs.get(expected.name)
    if got is None and set(outputs) == {""}:
        got = outputs[""]
    where = f"output {expected.name}"
    if got is None:
        has = ", ".join(sorted(outputs)) or "none"
        return f"{where}: the answer has {_shown(has)}"
    if len(got) != len(expected.data):
        return f"{where}: {len(expected.data)} elements expected, got {len(got)}"
    wrong = [
        index
        for index, (one, other) in enumerate(zip(expected.data, got, strict=True))
        if not _is_right(expected, one, other)
    ]
    if not wrong:
        return ""
    first = wrong[0]
    more = f" (and {len(wrong) - 1} more of {len(got)} elements)" if len(wrong) > 1 else ""
    return (
        f"{where}, element {first}: expected {_shown(repr(expected.data[first]))}, "
        f"got {_shown(repr(got[first]))}{_tolerance(expected, first)}{more}"
    )


def _is_right(expected: ExpectedTensor, wanted: Scalar, got: Scalar) -> bool:
    if isinstance(wanted, str) or isinstance(got, str):
        return wanted == got
    if isinstance(wanted, int) and isinstance(got, int):
        return abs(got - wanted) <= expected.absolute_tolerance
    try:
        difference = abs(float(got) - float(wanted))
    except OverflowError:  # a whole number beyond every float
        return False
    allowed = expected.absolute_tolerance + expected.relative_tolerance * abs(wanted)
    return math.isfinite(difference) and difference <= allowed


def _tolerance(expected: ExpectedTensor, index: int) -> str:
    if isinstance(expected.data[index], str):
        return ""
    absolute, relative = expected.absolute_tolerance, expected.relative_tolerance
    return f" (absolute tolerance {absolute:g}, relative {relative:g})"


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
