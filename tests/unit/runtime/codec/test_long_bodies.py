"""Bodies with many numbers in protocols other than OIP, and asynchronous responses."""

import json

import numpy as np
import pytest

from moorage_runtime.codec.grps import json_form as grps_json
from moorage_runtime.codec.grps.message import OK, Tensors
from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs import examples as tfs_examples
from moorage_runtime.codec.tfs import predict_request as tfs_predict_request
from moorage_runtime.codec.tfs import signatures as tfs_signatures
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import ModelMetadata
from moorage_runtime.values.tensors import Datatype, Tensor
from unit.runtime.tfs_fixtures import FakeDataplane, ask, half_plus_three, spec

MANY = 20_000
VALUES = [index / 8 for index in range(MANY)]


def predict(document, datatype="FP32", shape=(-1,), name="x"):
    declared = ModelMetadata("m", "1", ("1",), "p", (spec(name, datatype, *shape),), ())
    signature = tfs_signatures.signatures_of(declared)["serving_default"]
    parsed = tfs_document.parse_object(json.dumps(document).encode())
    (tensor,) = tfs_predict_request.decode_predict(parsed, signature).inputs
    return tensor.array


@pytest.mark.parametrize("document", [{"instances": VALUES}, {"inputs": VALUES}])
def test_a_long_list_is_a_tensor_in_rows_and_in_columns(document):
    np.testing.assert_array_equal(predict(document), np.array(VALUES, np.float32), strict=True)


def test_a_long_list_of_integers_may_be_floats():
    expected = np.ones(MANY, np.float32)

    np.testing.assert_array_equal(predict({"inputs": [1] * MANY}), expected, strict=True)


@pytest.mark.parametrize(
    ("datatype", "values", "message"),
    [
        ("BOOL", [1] * MANY, "JSON Value: 1 Type: Number is not of expected type: bool"),
        (
            "FP32",
            [VALUES, VALUES[1:]],
            "Encountered list at unexpected size: 19999 at level: 1 expected size: 20000",
        ),
    ],
)
def test_an_invalid_long_column_has_the_error_of_a_short_one(datatype, values, message):
    with pytest.raises(InvalidRequest) as error:
        predict({"inputs": values}, datatype)

    assert error.value.message == message


@pytest.mark.parametrize("name", ["x", "inputs", "instances"])
def test_named_columns_and_rows_may_be_long(name):
    expected = np.array([VALUES, VALUES], np.float32)

    columns = predict({"inputs": {name: [VALUES, VALUES]}}, name=name)
    rows = predict({"instances": [{name: VALUES}] * 2}, name=name)

    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("name", ["x", "inputs", "instances"])
def test_features_may_be_long(name):
    bound = tfs_signatures.BoundSignature("s", "classify", {name: spec(name, "FP32", -1, -1)}, {})

    for document in (
        {"examples": [{name: VALUES}]},
        {"context": {name: VALUES}, "examples": [{}]},
    ):
        parsed = tfs_document.parse_object(json.dumps(document).encode())
        (tensor,) = tfs_examples.decode_examples(parsed, bound)

        np.testing.assert_array_equal(tensor.array, np.array([VALUES], np.float32))


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
def test_long_lists_have_the_errors_of_short_ones(datatype, values, message):
    with pytest.raises(InvalidRequest) as error:
        predict({"instances": values}, datatype)

    assert message in error.value.message


def test_both_kinds_of_input_are_refused_at_any_length():
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
    with pytest.raises(InvalidRequest) as error:
        grps("flat_float32", [VALUES, VALUES], "DT_FLOAT32", [2, MANY])
    assert error.value.message == (
        "gtensors.tensors[0].flat_float32 contains an array: must be one flat array of elements"
    )


def test_a_long_ndarray_has_the_shape_of_its_nesting():
    body = json.dumps({"ndarray": np.array(VALUES).reshape(100, 200).tolist()}).encode()

    assert grps_json.decode(body).data.array.shape == (100, 200)
    for values, message in (
        ([VALUES, VALUES[1:]], "ndarray: the lists at depth 2 are empty or differ in length"),
        (
            [VALUES, [*VALUES[1:], None]],
            "ndarray[1][19999]: null is invalid: must be a number, as FP32 requires",
        ),
    ):
        with pytest.raises(InvalidRequest) as error:
            grps_json.decode(json.dumps({"ndarray": values}).encode())
        assert error.value.message == message


@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize("count", [2, 100_000])
async def test_tensorflow_serving_responses_do_not_depend_on_the_length(is_quick, count):
    dataplane = FakeDataplane(half_plus_three("half", "1"))
    dataplane.is_quick = is_quick
    body = json.dumps({"instances": [2.0] * count}).encode()

    answer = await ask(dataplane, "POST", "/v1/models/half:predict", body)

    assert json.loads(answer.body) == {"predictions": [4.0] * count}


@pytest.mark.parametrize("count", [2, 100_000])
async def test_tensorflow_serving_errors_do_not_depend_on_the_length(count):
    dataplane = FakeDataplane(half_plus_three("half", "1"))
    body = json.dumps({"instances": ["x"] * count}).encode()

    answer = await ask(dataplane, "POST", "/v1/models/half:predict", body)

    assert answer.status == 400
    assert b"is not of expected type: float" in answer.body


STRINGS = [f'"{index}", é' for index in range(MANY)]
ENCODED = [text.encode() for text in STRINGS]


@pytest.mark.parametrize(
    "document",
    [{"instances": STRINGS}, {"inputs": STRINGS}, {"inputs": {"x": STRINGS}}],
)
def test_a_long_list_of_strings_is_a_tensor(document):
    assert predict(document, "BYTES").tolist() == ENCODED


def test_rows_of_one_string_are_a_column():
    array = predict({"instances": [[text] for text in STRINGS]}, "BYTES", (-1, 1))

    assert array.shape == (MANY, 1)
    assert array.reshape(-1).tolist() == ENCODED


@pytest.mark.parametrize(
    ("datatype", "values", "message"),
    [
        ("INT64", STRINGS, 'element: 0 of \'instances\' list. Error: JSON Value: "\\"0\\", é" '),
        ("BYTES", [*STRINGS, 7], "20000 of 'instances' list. Error: JSON Value: 7 Type: Number"),
        ("BYTES", [[*STRINGS], STRINGS[1:]], "Expecting shape [20000] but got: [19999]"),
    ],
)  # fmt: skip
def test_long_lists_of_strings_have_the_errors_of_short_ones(datatype, values, message):
    with pytest.raises(InvalidRequest) as error:
        predict({"instances": values}, datatype)

    assert message in error.value.message


def test_grps_strings_may_be_long():
    (tensor,) = grps("flat_string", STRINGS, "DT_STRING", [MANY]).data.tensors

    assert tensor.array.tolist() == ENCODED


@pytest.mark.parametrize("odd", ["1", "-9223372036854775808", 7, " 8 ", "+9", "1_0"])
def test_grps_numbers_in_strings_may_be_long(odd):
    numbers = [odd, *map(str, range(MANY))]

    (tensor,) = grps("flat_int64", numbers, "DT_INT64", [MANY + 1]).data.tensors

    assert tensor.array.tolist() == list(map(int, numbers))


@pytest.mark.parametrize("odd", ["1,2", "", "true", "x", "[1", "null"])
def test_grps_refuses_strings_that_are_not_numbers_at_any_length(odd):
    with pytest.raises(InvalidRequest) as error:
        grps("flat_int64", [*map(str, range(MANY)), odd], "DT_INT64", [MANY + 1])

    assert f"flat_int64[{MANY}]: " in error.value.message


def tensor_of(array, datatype):
    return Tensor("x", Datatype(datatype), array)


@pytest.mark.parametrize(
    "shape", [(32 * 1024,), (50_000,), (50_000, 2), (2, 50_000), (100_000, 1), (2, 3, 20_000)]
)
@pytest.mark.parametrize("datatype", ["BYTES", "FP32", "INT64"])
def test_long_responses_equal_those_of_one_piece(shape, datatype):
    numbers = np.arange(np.prod(shape)).reshape(shape)
    if datatype == "BYTES":
        array = np.empty(shape, object)
        array.reshape(-1)[:] = [b'"%d"' % number for number in range(numbers.size)]
        expected = np.char.add(np.char.add('"', numbers.astype(str)), '"').tolist()
        text = tfs_document.encode_strings(array, binary=False)
    else:
        array = numbers.astype(np.float32 if datatype == "FP32" else np.int64)
        expected = array.tolist()
        text = tfs_document.encode_numbers(array)
    answer = grps_json.encode(OK, Tensors((tensor_of(array, datatype),)))
    (item,) = json.loads(answer)["gtensors"]["tensors"]
    (values,) = (value for key, value in item.items() if key.startswith("flat_"))

    assert json.loads(text) == expected
    flat = np.array(expected, object).reshape(-1).tolist()
    assert values == (list(map(str, flat)) if datatype == "INT64" else flat)


def test_every_piece_of_a_long_response_has_tokens_for_nonfinite_numbers():
    array = np.ones(100_000, np.float32)
    array[[5, 50_000, 99_999]] = [np.nan, np.inf, -np.inf]

    text = tfs_document.encode_numbers(array)

    np.testing.assert_array_equal(np.array(json.loads(text), np.float32), array)
