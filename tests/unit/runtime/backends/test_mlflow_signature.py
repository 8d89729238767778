"""The signature in an MLmodel file as tensors."""

import json

import pytest

from moorage_runtime.backends.tables.mlflow_signature import specs_of
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import TensorSpec

TYPES = "boolean, integer, long, float, double, string, binary"
DTYPES = (
    "bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, float32, float64, "
    "str, object"
)


def tensor(**fields):
    return {"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 2], **fields}}


@pytest.mark.parametrize("form", [json.dumps, list])
def test_columns_and_tensors_have_names_and_datatypes(form):
    items = [
        {"name": "a", "type": "double"},
        {"type": "string"},
        {"name": "", **tensor()},
        {"name": 7, **tensor(dtype="int64", shape=[])},
        {"name": 0, "type": "double"},
    ]
    assert specs_of({"outputs": form(items)}, "outputs", "x") == (
        TensorSpec("a", "FP64", (-1,)),
        TensorSpec("x", "BYTES", (-1,)),
        TensorSpec("x", "FP32", (-1, 2)),
        TensorSpec("7", "INT64", ()),
        TensorSpec("0", "FP64", (-1,)),
    )


@pytest.mark.parametrize("signature", [None, {}, {"outputs": None}, {"inputs": "[]"}])
def test_a_signature_may_lack_a_side(signature):
    assert specs_of(signature, "outputs", "x") is None


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        (7, " is 7: must be a mapping"),
        (["x" * 50], f" is ['{'x' * 38}: must be a mapping"),
        (
            {"inputs": "[}"},
            ".inputs is not valid JSON: Expecting value: line 1 column 2 (char 1)",
        ),
        (
            {"inputs": "{}"},
            ".inputs is invalid: must be a list of columns or tensors",
        ),
        (
            {"inputs": [{}, 7]},
            ".inputs[0].type is None for column 'x': must be tensor or one of " + TYPES,
        ),
        (
            {"inputs": [{"type": "long"}, 7]},
            ".inputs[1] is 7: must be a mapping",
        ),
        (
            {"inputs": [{"name": "c", "type": ["long"]}]},
            f".inputs[0].type is ['long'] for column 'c': must be tensor or one of {TYPES}",
        ),
        (
            {"inputs": [tensor(dtype="complex64")]},
            f".inputs[0].tensor-spec.dtype is 'complex64': must be one of {DTYPES}",
        ),
        (
            {"inputs": [tensor(dtype={})]},
            f".inputs[0].tensor-spec.dtype is {{}}: must be one of {DTYPES}",
        ),
        (
            {"inputs": [{"type": "tensor", "tensor-spec": 7}]},
            ".inputs[0].tensor-spec is 7: must be a mapping",
        ),
        (
            {"inputs": [{"type": "tensor"}]},
            f".inputs[0].tensor-spec.dtype is None: must be one of {DTYPES}",
        ),
        *(
            (
                {"inputs": [tensor(shape=shape)]},
                f".inputs[0].tensor-spec.shape is {shape!r}: must be a list of sizes, -1 for any",
            )
            for shape in (None, 3, [-2], ["a"], [1.0], [True])
        ),
    ],
)
def test_an_invalid_signature_is_refused_with_its_field(signature, message):
    with pytest.raises(InvalidConfig) as error:
        specs_of(signature, "inputs", "x")
    assert error.value.message == f"MLmodel: signature{message}"
