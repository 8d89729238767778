"""spec.smokeTests with tensors: what is read, what is said of the rest, and the digest."""

import math
from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.fields import Fields
from moorage_operator.api.json_tests import JsonRequest
from moorage_operator.api.smoke_tests import (
    ExpectedTensor,
    InputTensor,
    SmokeTest,
    SmokeTestPolicy,
    SmokeTests,
    digest_of,
    parse_smoke_tests,
)
from support.operator_values import model
from support.spec_sentences import DATATYPES, UNKNOWN

X = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[0.5, 1]]}
Y = {"name": "y", "data": [1]}
ONE = {"name": "one", "inputs": [X]}
SHAPE = "a list of at most 32 sizes, such as [1, 4], without -1"
DATA = "a flat or nested list of numbers, booleans and strings"
TOLERANCE = "a number of 0 or greater, such as 0.001"
SHAPES = "must have inputs for tensors, or request for JSON"


def read(**test: Any) -> Any:
    return model(smokeTests={"tests": [{**ONE, **test}]})


def sent(datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    """A test with one input."""
    shape = [len(data)] if shape is None else shape
    return {"inputs": [{"name": "x", "datatype": datatype, "shape": shape, "data": data}]}


def test_a_test_is_read_with_its_defaults():
    (test,) = read(outputs=[{"name": "y", "data": [[1], [2]]}]).smoke_tests.tests

    assert test.inputs == (InputTensor("x", "FP32", (1, 2), (0.5, 1)),)
    assert test.outputs == (ExpectedTensor("y", (1, 2), 0.00001, 0.00001),)
    assert test.max_latency_milliseconds is None


def test_every_field_of_a_test_is_read():
    output = {**Y, "absoluteTolerance": 0, "relativeTolerance": 0.5}
    parsed = read(outputs=[output], maxLatencyMilliseconds=300_000)

    assert parsed.problems == ()
    (test,) = parsed.smoke_tests.tests
    assert test.outputs == (ExpectedTensor("y", (1,), 0.0, 0.5),)
    assert test.max_latency_milliseconds == 300_000


@pytest.mark.parametrize(
    ("section", "enforced"),
    [
        ({"tests": [ONE]}, False),
        ({"policy": "Enforce", "tests": [ONE]}, True),
        ({"policy": "Enforce"}, False),
    ],
)
def test_only_existing_tests_are_enforced(section, enforced):
    assert model(smokeTests=section).smoke_tests.is_enforced is enforced


def test_defaults_that_are_spelled_out_are_not_written():
    tolerances = {"absoluteTolerance": 0.00001, "relativeTolerance": 0.00001}
    section = {"policy": "Warn", "tests": [{**ONE, "outputs": [{**Y, **tolerances}]}]}
    fields = Fields(section, "spec.smokeTests", [])
    parsed = parse_smoke_tests(fields)

    assert parsed.policy is SmokeTestPolicy.WARN
    assert fields.written() == {"tests": [{**ONE, "outputs": [Y]}]}


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("BOOL", [True, False]),
        ("BYTES", ["", "a"]),
        ("INT8", [-128, 127]),
        ("INT64", [-(2**63), 2**63 - 1]),
        ("UINT8", [0, 255]),
        ("UINT64", [2**64 - 1]),
        ("FP16", [65504, -65504.0]),
        ("BF16", [3.3895313892515355e38]),
        ("FP32", [1, 3.4028234663852886e38]),
        ("FP64", [1.7976931348623157e308]),
        ("FP32", []),
    ],
)
def test_elements_that_fit_the_datatype_are_accepted(datatype, data):
    parsed = read(**sent(datatype, data))

    assert parsed.problems == ()
    assert parsed.smoke_tests.tests[0].inputs[0].data == tuple(data)


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("BOOL", 1),
        ("BYTES", 1),
        ("FP32", "a"),
        ("FP32", True),
        ("FP32", 1e39),
        ("FP64", 10**400),
        ("FP32", math.nan),
        ("FP64", math.inf),
        ("FP16", 65505),
        ("BF16", 3.4e38),
        ("INT8", 128),
        ("INT8", 1.5),
        ("UINT8", 256),
        ("INT64", 2**63),
        ("UINT64", -1),
    ],
)
def test_the_first_element_that_does_not_fit_is_reported(datatype, value):
    good = {"BOOL": True, "BYTES": "a"}.get(datatype, 1)

    (problem,) = read(**sent(datatype, [good, value, value])).problems

    shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
    assert str(problem) == (
        f"spec.smokeTests.tests[0].inputs[0].data: element 1: {shown} is not a valid {datatype} "
        "value"
    )


def test_data_may_be_nested_like_the_shape_or_flat():
    for data in ([["a"], ["bc"]], ["a", "bc"], [["a"], "bc"]):
        parsed = read(**sent("BYTES", data, [2, 1]))

        assert parsed.problems == ()
        assert parsed.smoke_tests.tests[0].inputs[0].data == ("a", "bc")


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def test_the_largest_tensors_are_accepted():
    parsed = read(
        inputs=[
            {"name": "wide", "datatype": "INT8", "shape": [16384], "data": [0] * 16384},
            {"name": "deep", "datatype": "INT8", "shape": [1] * 32, "data": nested(7, 33)},
            {"name": "empty", "datatype": "INT8", "shape": [16384, 0], "data": []},
            {"name": "scalar", "datatype": "INT8", "shape": [], "data": [7]},
        ]
    )

    assert parsed.problems == ()
    assert [each.shape for each in parsed.smoke_tests.tests[0].inputs] == [
        (16384,), (1,) * 32, (16384, 0), ()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ({"name": ""}, ".name: is required and must be the name of the test"),
        ({"inputs": []}, ".inputs: is required and must be a list of at least one tensor"),
        ({"inputs": None}, f": has neither inputs nor request: {SHAPES}"),
        ({"request": {"path": "/p", "method": "GET"}}, f": has both inputs and request: {SHAPES}"),
        (
            {"inputs": None, "request": {"path": "/p", "method": "GET"}, "outputs": [Y]},
            ".outputs: must go with inputs; with request, use expect",
        ),
        (
            {"expect": [{"jsonPath": "a", "exists": True}]},
            ".expect: must go with request; with inputs, use outputs",
        ),
        ({"inputs": [X, X]}, ".inputs: duplicate name 'x': names must be unique"),
        ({"outputs": [Y, Y]}, ".outputs: duplicate name 'y': names must be unique"),
        (
            {"inputs": [{**X, "name": str(at)} for at in range(257)]},
            ".inputs: has 257 tensors: must have at most 256",
        ),
        (
            {"outputs": [{**Y, "name": str(at)} for at in range(257)]},
            ".outputs: has 257 tensors: must have at most 256",
        ),
        (
            {"inputs": [{**X, "name": ""}]},
            ".inputs[0].name: is required and must be the name of a tensor",
        ),
        (
            {"outputs": [{"data": [1]}]},
            ".outputs[0].name: is required and must be the name of a tensor",
        ),
        (
            {"inputs": [{**X, "datatype": "FLOAT"}]},
            f".inputs[0].datatype: 'FLOAT' is invalid: must be one of {DATATYPES}",
        ),
        (
            {"inputs": [{**X, "shape": [-1, 2]}]},
            f".inputs[0].shape: [-1, 2] is invalid: must be {SHAPE}",
        ),
        (
            {"inputs": [{**X, "shape": [16385]}]},
            f".inputs[0].shape: [16385] is invalid: must be {SHAPE}",
        ),
        ({"inputs": [{**X, "shape": "2"}]}, f".inputs[0].shape: '2' is invalid: must be {SHAPE}"),
        ({"inputs": [{**X, "shape": 2}]}, f".inputs[0].shape: 2 is invalid: must be {SHAPE}"),
        ({"inputs": [{**X, "shape": None}]}, f".inputs[0].shape: is required and must be {SHAPE}"),
        (
            {"inputs": [{**X, "data": [1]}]},
            ".inputs[0].data: has 1 elements: must have 2 for shape [1, 2]",
        ),
        (
            {"inputs": [{**X, "data": None}]},
            ".inputs[0].data: has 0 elements: must have 2 for shape [1, 2]",
        ),
        ({"inputs": [{**X, "data": 1}]}, f".inputs[0].data: 1 is invalid: must be {DATA}"),
        (
            {"inputs": [{**X, "data": [1, {"a": 2}]}]},
            f".inputs[0].data: {{'a': 2}} is invalid: must be {DATA}",
        ),
        (
            {"inputs": [{**X, "data": nested(1, 34)}]},
            f".inputs[0].data: [1] is invalid: must be {DATA}",
        ),
        (
            {"inputs": [{**X, "data": [0] * 16385}]},
            ".inputs[0].data: has 16385 elements: must have at most 16384",
        ),
        ({"inputs": [{**X, "size": 1}]}, f".inputs[0].size: {UNKNOWN}"),
        (
            {"outputs": [{"name": "y"}]},
            ".outputs[0].data: is required and must be the expected elements of the output",
        ),
        ({"outputs": [{**Y, "datatype": "FP32"}]}, f".outputs[0].datatype: {UNKNOWN}"),
        (
            {"outputs": [{**Y, "absoluteTolerance": -1}]},
            f".outputs[0].absoluteTolerance: -1 is invalid: must be {TOLERANCE}",
        ),
        (
            {"outputs": [{**Y, "relativeTolerance": "a"}]},
            f".outputs[0].relativeTolerance: 'a' is invalid: must be {TOLERANCE}",
        ),
        (
            {"outputs": [{**Y, "relativeTolerance": True}]},
            f".outputs[0].relativeTolerance: True is invalid: must be {TOLERANCE}",
        ),
        (
            {"outputs": [{**Y, "absoluteTolerance": math.nan}]},
            f".outputs[0].absoluteTolerance: nan is invalid: must be {TOLERANCE}",
        ),
        (
            {"outputs": [{**Y, "absoluteTolerance": 10**400}]},
            f".outputs[0].absoluteTolerance: 1{'0' * 76}... is invalid: must be {TOLERANCE}",
        ),
        (
            {"maxLatencyMilliseconds": 0},
            ".maxLatencyMilliseconds: 0 is invalid: must be a whole number from 1 to 300000",
        ),
        ({"repeat": 1}, f".repeat: {UNKNOWN}"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_reported_with_its_value(test, expected):
    parsed = read(**test)

    assert [str(each) for each in parsed.problems] == [f"spec.smokeTests.tests[0]{expected}"]
    assert parsed.smoke_tests.tests == ()


def test_the_largest_tolerance_is_that_of_fp64():
    largest = 1.7976931348623157e308
    parsed = read(outputs=[{**Y, "absoluteTolerance": largest}])

    assert parsed.problems == ()
    assert parsed.smoke_tests.tests[0].outputs[0].absolute_tolerance == largest


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ([ONE, {**ONE, "name": "two"}, ONE], "duplicate name 'one': names must be unique"),
        ([{**ONE, "name": str(n)} for n in range(17)], "has 17 tests: must have at most 16"),
        ({}, "{} is invalid: must be a list"),
        ([1], "1 is invalid: must be a list of objects"),
    ],
)
def test_an_invalid_list_is_reported(tests, expected):
    (problem,) = model(smokeTests={"tests": tests}).problems

    assert str(problem) == f"spec.smokeTests.tests: {expected}"


def test_an_invalid_test_is_left_out():
    tests = [{**ONE, "name": "two", "inputs": [{**X, "data": []}]}, ONE]

    parsed = model(smokeTests={"tests": tests, "policy": "Off"})

    assert parsed.smoke_tests == SmokeTests(
        tests=(SmokeTest("one", (InputTensor("x", "FP32", (1, 2), (0.5, 1)),)),)
    )
    assert [str(each) for each in parsed.problems] == [
        "spec.smokeTests.policy: 'Off' is invalid: must be one of Warn, Enforce",
        ("spec.smokeTests.tests[0].inputs[0].data: has 0 elements: must have 2 for shape [1, 2]"),
    ]


def test_the_digest_changes_with_every_part_of_a_test():
    base = SmokeTest("a", (InputTensor("x", "FP32", (1,), (1.0,)),), (ExpectedTensor("y", (1,)),))
    edited = [
        replace(base, name="b"),
        replace(base, inputs=(replace(base.inputs[0], data=(2.0,)),)),
        replace(base, outputs=()),
        replace(base, outputs=(replace(base.outputs[0], relative_tolerance=0.5),)),
        replace(base, max_latency_milliseconds=9),
    ]

    digests = {digest_of([test]) for test in (base, *edited)}

    assert len(digests) == len(edited) + 1
    assert digest_of([base]) == digest_of([replace(base)])
    assert digest_of([]) == ""


def test_the_order_of_the_names_in_a_body_changes_no_digest():
    body = {"model": "llama", "max_tokens": 8}
    turned = dict(reversed(body.items()))

    assert digest_of([SmokeTest("a", request=JsonRequest(body=body))]) == digest_of(
        [SmokeTest("a", request=JsonRequest(body=turned))]
    )
