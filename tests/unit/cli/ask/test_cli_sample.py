"""Sample requests and the commands that send them."""

import json
import shlex

import pytest

from moorage_cli.ask.inference.sample import (
    SAMPLE_LIMIT_VALUES,
    SampleTensor,
    curl,
    describe,
    sample_request,
    sample_tensors,
)


@pytest.mark.parametrize(
    ("datatype", "shape", "sizes", "data"),
    [
        ("FP32", (-1, 2), [1, 2], [0.5, 0.5]),
        ("FP16", (), [], [0.5]),
        ("FP64", (-1, -1), [1, 1], [0.5]),
        ("INT64", (-1,), [1], [1]),
        ("UINT8", (2,), [2], [1, 1]),
        ("BOOL", (1,), [1], [True]),
        ("BYTES", (-1,), [1], ["some text"]),
        ("FP32", (0,), [0], []),
    ],
)
def test_a_sample_has_values_that_fit_the_datatype_and_1_for_any_size(
    datatype, shape, sizes, data
):
    made = sample_request([SampleTensor("x", datatype, shape)])

    tensor = {"name": "x", "shape": sizes, "datatype": datatype, "data": data}
    assert made == {"inputs": [tensor]}


@pytest.mark.parametrize("shapes", [[(10**9,)], [(-1, 10**15)], [(SAMPLE_LIMIT_VALUES,), (1,)]])
def test_a_sample_that_does_not_fit_into_memory_is_not_made(shapes):
    assert sample_request([SampleTensor("x", "FP32", shape) for shape in shapes]) is None


def test_a_sample_that_no_server_would_read_is_not_made():
    tensors = [SampleTensor("x", "FP32", (1,)), SampleTensor("y", "BF16", (1,))]

    assert sample_request(tensors) is None


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([{"name": "x", "datatype": "FP32", "shape": [-1, 4]}], "x FP32 [-1,4]"),
        ([{"name": "x", "datatype": "FP32", "shape": ["-1", "4"]}], "x FP32 [-1,4]"),
        ([{"name": "x", "datatype": "FP32"}], "not declared"),
        ([{"name": "x", "datatype": "FP32", "shape": ["n"]}], "not declared"),
        (["x"], "not declared"),
        (None, "not declared"),
    ],
)
def test_tensors_of_the_metadata_that_are_incomplete_are_left_out(listed, expected):
    assert describe(sample_tensors(listed)) == expected


@pytest.mark.parametrize("text", ["it's", 'a "b"', "$HOME `id`", "naïve"])
def test_a_shell_passes_on_the_body_unchanged(text):
    body = {"text": text}

    words = shlex.split(curl("http://localhost:8000/v2/models/a%20b/infer", body))

    assert words[:3] == ["curl", "-s", "http://localhost:8000/v2/models/a%20b/infer"]
    assert json.loads(words[-1]) == body
