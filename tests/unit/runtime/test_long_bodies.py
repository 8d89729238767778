"""Bodies of many numbers in the protocols beside OIP, and answers that come later."""

import json

import numpy as np
import pytest

from moorage_runtime.codec import grps_json, tfs_json, tfs_predict_request, tfs_signatures
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.inference import ModelMetadata
from unit.runtime.tfs_fixtures import FakeDataplane, ask, half_plus_three, spec

MANY = 20_000
VALUES = [index / 8 for index in range(MANY)]


def predict(document, datatype="FP32", shape=(-1,)):
    declared = ModelMetadata("m", "1", ("1",), "p", (spec("x", datatype, *shape),), ())
    signature = tfs_signatures.signatures_of(declared)["serving_default"]
    parsed = tfs_json.parse_object(json.dumps(document).encode())
    (tensor,) = tfs_predict_request.decode_predict(parsed, signature).inputs
    return tensor.array


@pytest.mark.parametrize("document", [{"instances": VALUES}, {"inputs": VALUES}])
def test_a_long_list_is_a_tensor_in_rows_and_in_columns(document):
    np.testing.assert_array_equal(predict(document), np.array(VALUES, np.float32))


def test_named_columns_and_rows_may_be_long():
    expected = np.array([VALUES, VALUES], np.float32)

    np.testing.assert_array_equal(predict({"inputs": {"x": [VALUES, VALUES]}}), expected)
    np.testing.assert_array_equal(predict({"instances": [{"x": VALUES}] * 2}), expected)


def test_the_shape_of_a_long_nesting_is_the_tensors():
    nested = np.array(VALUES).reshape(10, 20, 100).tolist()

    assert predict({"instances": nested}).shape == (10, 20, 100)


@pytest.mark.parametrize(
    ("datatype", "values", "message"),
    [
        ("INT64", [*range(MANY), 1.5], "20000 of 'instances' list. Error: JSON Value: 1.5 "),
        ("INT8", [*[1] * MANY, 300], "20000 of 'instances' list. Error: JSON Value: 300"),
        ("FP32", [VALUES, VALUES[1:]], "Expecting shape [20000] but got: [19999]"),
        ("BOOL", [1] * MANY, "JSON Value: 1 Type: Number is not of expected type: bool"),
    ],
)  # fmt: skip
def test_errors_are_those_of_short_lists(datatype, values, message):
    with pytest.raises(InvalidRequest) as error:
        predict({"instances": values}, datatype)

    assert message in error.value.message


def test_both_kinds_of_input_are_refused_however_long():
    with pytest.raises(InvalidRequest, match="expecting only one of 'inputs' or 'instances'"):
        predict({"instances": VALUES, "inputs": VALUES})


def grps(field, values, dtype, shape):
    tensor = {"name": "x", "dtype": dtype, "shape": shape, field: values}
    return grps_json.decode(json.dumps({"gtensors": {"tensors": [tensor]}}).encode())


@pytest.mark.parametrize("field", ["flat_float32", "flatFloat32"])
def test_grps_tensors_may_be_long(field):
    (tensor,) = grps(field, VALUES, "DT_FLOAT32", [2, MANY // 2]).data.tensors

    np.testing.assert_array_equal(tensor.array, np.array(VALUES, np.float32).reshape(2, -1))


def test_a_long_grps_field_must_be_flat():
    with pytest.raises(InvalidRequest, match="holds an array"):
        grps("flat_float32", [VALUES, VALUES], "DT_FLOAT32", [2, MANY])


def test_a_long_ndarray_has_the_shape_of_its_nesting():
    body = json.dumps({"ndarray": np.array(VALUES).reshape(100, 200).tolist()}).encode()

    assert grps_json.decode(body).data.array.shape == (100, 200)
    with pytest.raises(InvalidRequest, match="differ in length"):
        grps_json.decode(json.dumps({"ndarray": [VALUES, VALUES[1:]]}).encode())


@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize("count", [2, 100_000])
async def test_tensorflow_serving_answers_the_same_at_once_and_later(is_quick, count):
    dataplane = FakeDataplane(half_plus_three("half", "1"))
    dataplane.is_quick = is_quick
    body = json.dumps({"instances": [2.0] * count}).encode()

    answer = await ask(dataplane, "POST", "/v1/models/half:predict", body)

    assert json.loads(answer.body) == {"predictions": [4.0] * count}


@pytest.mark.parametrize("count", [2, 100_000])
async def test_tensorflow_serving_refuses_the_same_however_long(count):
    dataplane = FakeDataplane(half_plus_three("half", "1"))
    body = json.dumps({"instances": ["x"] * count}).encode()

    answer = await ask(dataplane, "POST", "/v1/models/half:predict", body)

    assert answer.status == 400
    assert b"is not of expected type: float" in answer.body
