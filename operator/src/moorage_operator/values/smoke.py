"""Compares the answer of a smoke test with the expected outputs; pure.

    poll_targets: SmokeTask --> smoke_runner (asks) --> **mismatch** --> SmokeOutcome --> replicas

An outcome is valid for one container and one digest of the tests, until a restart or an edit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from moorage_operator.api.smoke_tests import ExpectedTensor, Scalar, SmokeTest

from .words import printable

__all__ = ["Outputs", "SmokeOutcome", "SmokeTask", "SmokeVerdict", "mismatch"]

SHOWN_CHARACTERS = 80
NAMES_SHOWN = 10

Outputs = Mapping[str, Sequence[Scalar]]
"""The tensors of an answer by name, flat and row-major; "" is the only tensor of a protocol
without names."""


class SmokeVerdict(StrEnum):
    """The result of the tests; the values are reasons of the condition."""

    PASSED = "Passed"
    OUTPUT_MISMATCH = "OutputMismatch"
    LATENCY_EXCEEDED = "LatencyExceeded"
    REQUEST_REJECTED = "RequestRejected"
    REQUEST_UNAUTHORIZED = "RequestUnauthorized"


@dataclass(frozen=True, slots=True)
class SmokeOutcome:
    """The outcome for a container; `message` is empty if it passed."""

    digest: str
    verdict: SmokeVerdict
    message: str = ""


@dataclass(frozen=True, slots=True)
class SmokeTask:
    """The tests for a container; `done` if it is known to have passed."""

    digest: str
    tests: tuple[SmokeTest, ...]
    done: bool = False


def mismatch(test: SmokeTest, outputs: Outputs) -> str:
    """Describe how an answer differs from the expected outputs, "" if it does not.

    A number matches if |got - expected| <= absolute + relative * |expected|: with 0.001 and 0.01,
    102.0 matches 101 and 103.0 does not. For whole numbers only the absolute tolerance counts, so
    that a label must match exactly. Booleans count as 0 and 1; text must be equal.
    """
    found = [_difference(expected, outputs) for expected in test.outputs]
    return "; ".join(sentence for sentence in found if sentence)


def _difference(expected: ExpectedTensor, outputs: Outputs) -> str:
    got = outputs.get(expected.name)
    if got is None and set(outputs) == {""}:
        got = outputs[""]
    where = f"output {expected.name}"
    if got is None:
        has = ", ".join(sorted(outputs)[:NAMES_SHOWN]) or "none"
        return f"{where} is missing: the answer has {_shown(printable(has))}"
    if len(got) != len(expected.data):
        return f"{where}: expected {len(expected.data)} elements, got {len(got)}"
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
    except OverflowError:  # a whole number that no float can represent
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
