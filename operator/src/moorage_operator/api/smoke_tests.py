"""`spec.smokeTests`: inference requests that every new replica has to answer, and the policy.

A test has tensors, or a request in JSON (`json_tests`). `values.smoke` and `values.json_answers`
compare the answers with what is expected.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from .contract import DATATYPES, RANK_LIMIT, TENSOR_LIMIT, parse_shape
from .fields import Fields, abridged
from .json_tests import Expectation, JsonRequest, parse_expectations, parse_request

__all__ = [
    "ExpectedTensor",
    "InputTensor",
    "SmokeTest",
    "SmokeTestPolicy",
    "SmokeTests",
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
    """Effect of a failed test: a condition and an event, or no traffic for the replica."""

    WARN = "Warn"
    ENFORCE = "Enforce"


@dataclass(frozen=True, slots=True)
class InputTensor:
    """A tensor to send; `data` is flat and row-major and fills the shape."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """An expected output; `data` is flat and row-major, and the tolerances apply to numbers."""

    name: str
    data: tuple[Scalar, ...]
    absolute_tolerance: float = DEFAULT_TOLERANCE
    relative_tolerance: float = DEFAULT_TOLERANCE


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """One request. Without expectations, any answer passes; without a bound, any latency.

    It has either `inputs` and `outputs`, or `request` and `expect`.
    """

    name: str
    inputs: tuple[InputTensor, ...] = ()
    outputs: tuple[ExpectedTensor, ...] = ()
    max_latency_milliseconds: int | None = None
    request: JsonRequest | None = None
    expect: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class SmokeTests:
    """`spec.smokeTests`: the tests and what a failed one does."""

    policy: SmokeTestPolicy = SmokeTestPolicy.WARN
    tests: tuple[SmokeTest, ...] = ()

    @property
    def is_enforced(self) -> bool:
        """Whether a replica that fails a test gets no traffic."""
        return bool(self.tests) and self.policy is SmokeTestPolicy.ENFORCE


def digest_of(tests: Sequence[SmokeTest]) -> str:
    """Return a short hash that identifies these tests, "" if there are none."""
    if not tests:
        return ""
    # Empty parts are left out, so that a new field of a newer version changes no digest.
    parts = [{k: v for k, v in asdict(test).items() if v not in (None, ())} for test in tests]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def parse_smoke_tests(fields: Fields) -> SmokeTests:
    """Read the section; record invalid tests as problems and leave them out."""
    parsed = SmokeTests(fields.choice("policy", SmokeTestPolicy.WARN), _parse_tests(fields))
    fields.unknown()
    return parsed


def _parse_tests(fields: Fields) -> tuple[SmokeTest, ...]:
    tests: dict[str, SmokeTest] = {}
    for item in fields.children("tests", TEST_LIMIT, "tests"):
        before = len(fields.problems)
        test = _parse_test(item)
        if test.name in tests:
            fields.reject_duplicate("tests", test.name)
        if len(fields.problems) == before:
            tests[test.name] = test
    return tuple(tests.values())


def _parse_test(fields: Fields) -> SmokeTest:
    test = SmokeTest(
        name=_required_text(fields, "name", "the name of the test"),
        inputs=tuple(map(_parse_input, fields.children("inputs", TENSOR_LIMIT, "tensors"))),
        outputs=tuple(map(_parse_output, fields.children("outputs", TENSOR_LIMIT, "tensors"))),
        max_latency_milliseconds=fields.optional_integer(
            "maxLatencyMilliseconds", 1, LATENCY_LIMIT_MILLISECONDS
        ),
        request=parse_request(fields.child("request")) if fields.has("request") else None,
        expect=parse_expectations(fields, "expect"),
    )
    _check_shape(fields, test)
    for name, tensors in (("inputs", test.inputs), ("outputs", test.outputs)):
        counts = Counter(tensor.name for tensor in tensors)
        if repeated := [each for each, count in counts.items() if count > 1]:
            fields.reject_duplicate(name, repeated[0])
    fields.unknown()
    return test


def _check_shape(fields: Fields, test: SmokeTest) -> None:
    """Report a test with neither or both of the two shapes, or with parts of the other one."""
    tensors = fields.has("inputs")
    if tensors == (test.request is not None):
        found = "both inputs and request" if tensors else "neither inputs nor request"
        fields.report("", f"has {found}: must have inputs for tensors, or request for JSON")
    elif fields.peek("inputs") == []:
        fields.require("inputs", "a list of at least one tensor")
    if not tensors and test.outputs:
        fields.report("outputs", "must go with inputs; with request, use expect")
    if test.request is None and test.expect:
        fields.report("expect", "must go with request; with inputs, use outputs")


def _parse_input(fields: Fields) -> InputTensor:
    before = len(fields.problems)
    datatype = fields.text("datatype")
    if datatype not in DATATYPES:
        fields.reject("datatype", datatype, f"one of {', '.join(sorted(DATATYPES))}")
    tensor = InputTensor(
        _required_text(fields, "name", "the name of a tensor"),
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
        sentence = f"has {len(tensor.data)} elements: must have {wanted} for shape "
        fields.report("data", f"{sentence}{list(tensor.shape)}")
        return
    for index, value in enumerate(tensor.data):
        if not _fits(value, tensor.datatype):
            sentence = f"element {index}: {abridged(value)} is not a valid {tensor.datatype} value"
            fields.report("data", sentence)
            return


def _parse_output(fields: Fields) -> ExpectedTensor:
    tensor = ExpectedTensor(
        _required_text(fields, "name", "the name of a tensor"),
        _parse_data(fields),
        _parse_tolerance(fields, "absoluteTolerance"),
        _parse_tolerance(fields, "relativeTolerance"),
    )
    if not fields.has("data"):
        fields.require("data", "the expected elements of the output")
    fields.unknown()
    return tensor


def _parse_tolerance(fields: Fields, name: str) -> float:
    value = fields.raw(name, DEFAULT_TOLERANCE)
    if value is None:
        return DEFAULT_TOLERANCE
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value <= LARGEST_FLOATS["FP64"]:
        return float(value)
    fields.reject(name, value, "a number of 0 or greater, such as 0.001")
    return DEFAULT_TOLERANCE


def _parse_shape(fields: Fields) -> tuple[int, ...]:
    expected = f"a list of at most {RANK_LIMIT} sizes, such as [1, 4], without -1"
    if not fields.has("shape"):
        fields.require("shape", expected)
    return parse_shape(fields, range(ELEMENT_LIMIT + 1), expected) or ()


def _parse_data(fields: Fields) -> tuple[Scalar, ...]:
    value = fields.raw("data")
    if value is None:
        return ()
    expected = "a flat or nested list of numbers, booleans and strings"
    if not isinstance(value, list):
        fields.reject("data", value, expected)
        return ()
    flat: list[Any] = cast("list[Any]", value)
    for _ in range(RANK_LIMIT):
        if not any(isinstance(item, list) for item in flat):
            break
        flat = [each for item in flat for each in _opened(item)]
    odd = [item for item in flat if not isinstance(item, bool | int | float | str)]
    if odd:
        fields.reject("data", odd[0], expected)
        return ()
    if len(flat) > ELEMENT_LIMIT:
        fields.reject_length("data", len(flat), ELEMENT_LIMIT, "elements")
        return ()
    return tuple(flat)


def _opened(item: Any) -> list[Any]:
    return cast("list[Any]", item) if isinstance(item, list) else [item]


def _required_text(fields: Fields, name: str, expected: str) -> str:
    text = fields.text(name)
    if not text:
        fields.require(name, expected)
    return text


def _fits(value: Scalar, datatype: str) -> bool:
    """Whether a value is valid for one of the datatypes."""
    if datatype == "BYTES":
        return isinstance(value, str)
    if datatype == "BOOL":
        return isinstance(value, bool)
    if isinstance(value, bool | str):
        return False
    if datatype in INTEGERS:
        return isinstance(value, int) and value in INTEGERS[datatype]
    return abs(value) <= LARGEST_FLOATS[datatype]
