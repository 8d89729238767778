"""`spec.smokeTests`: requests that every new replica is put to, read and checked.

What an answer is compared with, and how, is `moorage_operator.smoke`.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from .contract import DATATYPES, RANK_LIMIT, TENSOR_LIMIT
from .fields import Fields, abridged

__all__ = [
    "ExpectedTensor",
    "InputTensor",
    "SmokeTest",
    "SmokeTestPolicy",
    "digest_of",
    "parse_smoke_tests",
]

Scalar = bool | int | float | str

TEST_LIMIT = 16
ELEMENT_LIMIT = 16384
LATENCY_LIMIT_MILLISECONDS = 300_000
DEFAULT_TOLERANCE = 0.00001
DIGEST_LENGTH = 12

# Source: Open Inference Protocol V2, "Tensor Data Types".
INTEGERS: Mapping[str, range] = {
    **{f"INT{bits}": range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": range(2**bits) for bits in (8, 16, 32, 64)},
}
# The largest finite values of IEEE 754's binary16, 32 and 64.
LARGEST_FLOATS = {
    "FP16": 65504.0,
    "BF16": 3.3895313892515355e38,
    "FP32": 3.4028234663852886e38,
    "FP64": 1.7976931348623157e308,
}


class SmokeTestPolicy(StrEnum):
    """What a failed test leads to: words, or a replica that gets no traffic."""

    WARN = "Warn"
    ENFORCE = "Enforce"


@dataclass(frozen=True, slots=True)
class InputTensor:
    """A tensor to send; `data` is flat and row-major, as many elements as the shape has."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """What an output has to be: `data` flat and row-major; the tolerances are for numbers."""

    name: str
    data: tuple[Scalar, ...]
    absolute_tolerance: float = DEFAULT_TOLERANCE
    relative_tolerance: float = DEFAULT_TOLERANCE


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """One request; without outputs any answer is right, without a bound any time."""

    name: str
    inputs: tuple[InputTensor, ...]
    outputs: tuple[ExpectedTensor, ...] = ()
    max_latency_milliseconds: int | None = None


def digest_of(tests: Sequence[SmokeTest]) -> str:
    """A short hash that tells these tests from edited ones, "" where there are none."""
    if not tests:
        return ""
    text = json.dumps([asdict(test) for test in tests], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def parse_smoke_tests(fields: Fields, name: str) -> tuple[SmokeTest, ...]:
    """The tests with their defaults; what is wrong becomes problems, and the test is left out."""
    listed = fields.mappings(name)
    if len(listed) > TEST_LIMIT:
        fields.reject(name, f"{len(listed)} tests", f"at most {TEST_LIMIT} tests")
        return ()
    tests: dict[str, SmokeTest] = {}
    for item in _children(fields, name, listed):
        before = len(fields.problems)
        test = _parse_test(item)
        if test.name in tests:
            fields.reject(name, test.name, "every name once")
        if len(fields.problems) == before:
            tests[test.name] = test
    return tuple(tests.values())


def _parse_test(fields: Fields) -> SmokeTest:
    test = SmokeTest(
        name=_required_text(fields, "name", "the test's name"),
        inputs=tuple(map(_parse_input, _tensors(fields, "inputs"))),
        outputs=tuple(map(_parse_output, _tensors(fields, "outputs"))),
        max_latency_milliseconds=_parse_latency(fields),
    )
    if not test.inputs:
        fields.reject("inputs", [], "at least one tensor to send")
    for name, tensors in (("inputs", test.inputs), ("outputs", test.outputs)):
        if len({tensor.name for tensor in tensors}) < len(tensors):
            fields.reject(name, [tensor.name for tensor in tensors], "every name once")
    fields.unknown()
    return test


def _tensors(fields: Fields, name: str) -> list[Fields]:
    listed = fields.mappings(name)
    if len(listed) > TENSOR_LIMIT:
        fields.reject(name, f"{len(listed)} tensors", f"at most {TENSOR_LIMIT} tensors")
        return []
    return _children(fields, name, listed)


def _parse_latency(fields: Fields) -> int | None:
    name = "maxLatencyMilliseconds"
    if fields.raw(name) is None:
        return None
    return fields.integer(name, 1, 1, LATENCY_LIMIT_MILLISECONDS)


def _parse_input(fields: Fields) -> InputTensor:
    before = len(fields.problems)
    datatype = fields.text("datatype")
    if datatype not in DATATYPES:
        fields.reject("datatype", datatype, f"one of {', '.join(sorted(DATATYPES))}")
    tensor = InputTensor(
        _required_text(fields, "name", "the tensor's name"),
        datatype,
        _parse_shape(fields),
        _parse_data(fields),
    )
    if len(fields.problems) == before:
        _check_input(fields, tensor)
    fields.unknown()
    return tensor


def _check_input(fields: Fields, tensor: InputTensor) -> None:
    wanted = math.prod(tensor.shape)
    if len(tensor.data) != wanted:
        expected = f"{wanted} elements for shape {list(tensor.shape)}"
        fields.reject("data", f"{len(tensor.data)} elements", expected)
        return
    for index, value in enumerate(tensor.data):
        if not _fits(value, tensor.datatype):
            expected = f"a value of {tensor.datatype} as element {index}"
            fields.reject("data", value, expected)
            return


def _parse_output(fields: Fields) -> ExpectedTensor:
    tensor = ExpectedTensor(
        _required_text(fields, "name", "the tensor's name"),
        _parse_data(fields),
        _parse_tolerance(fields, "absoluteTolerance"),
        _parse_tolerance(fields, "relativeTolerance"),
    )
    if fields.raw("data") is None:
        fields.reject("data", None, "the elements that the output has to have")
    fields.unknown()
    return tensor


def _parse_tolerance(fields: Fields, name: str) -> float:
    value = fields.raw(name)
    if value is None:
        return DEFAULT_TOLERANCE
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and value >= 0:
        return float(value)
    fields.reject(name, value, "a number that is not negative, such as 0.001")
    return DEFAULT_TOLERANCE


def _parse_shape(fields: Fields) -> tuple[int, ...]:
    value = fields.raw("shape")
    sizes = cast("Sequence[Any]", value) if isinstance(value, Sequence) else [None]
    if isinstance(value, str) or len(sizes) > RANK_LIMIT or not all(map(_is_size, sizes)):
        expected = f"a list of at most {RANK_LIMIT} sizes such as [1, 4], none of them -1"
        fields.reject("shape", value, expected)
        return (0,)
    return tuple(sizes)


def _parse_data(fields: Fields) -> tuple[Scalar, ...]:
    value = fields.raw("data")
    if value is None:
        return ()
    expected = f"a list of at most {ELEMENT_LIMIT} numbers, booleans or strings, nested or flat"
    if not isinstance(value, list):
        fields.reject("data", value, expected)
        return ()
    flat: list[Any] = cast("list[Any]", value)
    for _ in range(RANK_LIMIT):
        if not any(isinstance(item, list) for item in flat):
            break
        flat = [each for item in flat for each in _opened(item)]
    odd = [item for item in flat if not isinstance(item, bool | int | float | str)]
    if odd or len(flat) > ELEMENT_LIMIT:
        fields.reject("data", abridged(odd[0]) if odd else f"{len(flat)} elements", expected)
        return ()
    return tuple(flat)


def _opened(item: Any) -> list[Any]:
    return cast("list[Any]", item) if isinstance(item, list) else [item]


def _required_text(fields: Fields, name: str, expected: str) -> str:
    text = fields.text(name)
    if not text:
        fields.reject(name, text, expected)
    return text


def _children(fields: Fields, name: str, listed: Sequence[Mapping[str, Any]]) -> list[Fields]:
    return [
        Fields(item, f"{fields.at(name)}[{index}]", fields.problems)
        for index, item in enumerate(listed)
    ]


def _is_size(value: Any) -> bool:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and 0 <= value <= ELEMENT_LIMIT


def _fits(value: Scalar, datatype: str) -> bool:
    """Whether the datatype has the value; an unknown datatype was rejected already."""
    if datatype == "BYTES":
        return isinstance(value, str)
    if datatype == "BOOL":
        return isinstance(value, bool)
    if isinstance(value, bool | str):
        return False
    if datatype in INTEGERS:
        return isinstance(value, int) and value in INTEGERS[datatype]
    return abs(value) <= LARGEST_FLOATS.get(datatype, math.inf)
