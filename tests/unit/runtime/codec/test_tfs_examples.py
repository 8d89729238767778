"""Classify and regress documents: features to tensors, outputs to results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs.examples import decode_examples
from moorage_runtime.codec.tfs.results import encode_classification, encode_regression
from moorage_runtime.codec.tfs.signatures import BoundSignature
from moorage_runtime.values.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor
from unit.runtime.tfs_fixtures import array, spec


def signature(outputs=(), **features) -> BoundSignature:
    return BoundSignature(
        "serving_default", "classify", features, {each.name: each for each in outputs}
    )


def decode(body: bytes, bound: BoundSignature):
    tensors = decode_examples(tfs_document.parse_object(body), bound)
    for tensor in tensors:
        assert tensor.array.dtype == NUMPY_DTYPE[tensor.datatype]
    return {tensor.name: tensor.array for tensor in tensors}


IMAGE = signature(image=spec("pixels", "BYTES", -1), caption=spec("text", "BYTES", -1))
FLOATS = signature(x=spec("x", "FP32", -1, -1))
FLOAT = signature(x=spec("x", "FP32", -1))
INTS = signature(x=spec("x", "INT32", -1, -1))
SQUARE = signature(x=spec("x", "FP32", -1, 2, 2))
OPEN = signature(x=spec("x", "FP32", -1, -1, 2))
FLAGS = signature(x=spec("x", "BOOL", -1, -1))
MAYBE = signature(x=spec("x", "FP32", -1), y=spec("y", "FP32", -1, optional=True))


@pytest.mark.parametrize(
    ("body", "bound", "expected"),
    [
        (
            (
                b'{"examples":[{"image":{"b64":"aW1hZ2UgYnl0ZXM="},"caption":"seaside"},'
                b'{"image":{"b64":"YXdlc29tZSBpbWFnZSBieXRlcw=="},"caption":"mountains"}]}'
            ),
            IMAGE,
            {
                "pixels": array("BYTES", [b"image bytes", b"awesome image bytes"]),
                "text": array("BYTES", [b"seaside", b"mountains"]),
            },
        ),
        (
            b'{"context":{"caption":"common"},"examples":[{"image":"a"},{"image":"b"}]}',
            IMAGE,
            {"pixels": array("BYTES", [b"a", b"b"]), "text": array("BYTES", [b"common"] * 2)},
        ),
        (
            b'{"examples":[{"x":[1.0,-3.14,NaN,Infinity]}]}',
            FLOATS,
            {"x": array("FP32", [[1, -3.14, np.nan, np.inf]])},
        ),
        (b'{"examples":[{"x":1.5},{"x":2}]}', FLOAT, {"x": array("FP32", [1.5, 2])}),
        (b'{"examples":[{"x":[1]},{"x":[2.5]}]}', FLOATS, {"x": array("FP32", [[1], [2.5]])}),
        (
            b'{"examples":[{"x":[-9223372036854775808,9223372036854775807]}]}',
            signature(x=spec("x", "INT64", -1, -1)),
            {"x": array("INT64", [[-(2**63), 2**63 - 1]])},
        ),
        (b'{"examples":[{"x":[1,true,false]}]}', INTS, {"x": array("INT32", [[1, 1, 0]])}),
        (b'{"examples":[{"x":[0,1,true]}]}', FLAGS, {"x": array("BOOL", [[False, True, True]])}),
        (b'{"examples":[{"x":[1,2,3,4]}]}', SQUARE, {"x": array("FP32", [[[1, 2], [3, 4]]])}),
        (b'{"examples":[{"x":[1,2]}]}', OPEN, {"x": array("FP32", [[[1, 2]]])}),
        (
            b'{"examples":[{"x":[]}]}',
            signature(x=spec("x", "FP32", -1, 0)),
            {"x": array("FP32", np.zeros((1, 0)))},
        ),
        (b'{"examples":[{"x":[]},{"x":[]}]}', FLOATS, {"x": array("FP32", np.zeros((2, 0)))}),
        (b'{"examples":[{"x":1,"other":"ignored"}]}', FLOAT, {"x": array("FP32", [1])}),
        (b'{"examples":[{"x":1}]}', MAYBE, {"x": array("FP32", [1])}),
        (
            b'{"examples":[{"x":1,"y":2}]}',
            MAYBE,
            {"x": array("FP32", [1]), "y": array("FP32", [2])},
        ),
    ],
)
def test_examples_become_tensors(body, bound, expected):
    arrays = decode(body, bound)

    assert list(arrays) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(arrays[name], expected[name], strict=True)


@pytest.mark.parametrize(
    ("body", "bound", "message"),
    [
        (b"{}", FLOAT, "JSON Value: {} key 'examples' is expected and was not found"),
        (
            b'{"example":[{"x":1}]}',
            FLOAT,
            'JSON Value: {"example":[{"x":1}]} key \'examples\' is expected and was not found',
        ),
        (
            b'{"examples":{"x":1}}',
            FLOAT,
            ('JSON Value: {"examples":{"x":1}} Expecting \'examples\' value to be an list/array'),
        ),
        (
            b'{"examples":[]}',
            FLOAT,
            "JSON Value: {\"examples\":[]} 'examples' value is an empty array",
        ),
        (b'{"examples":[1]}', FLOAT, "Example must be JSON object but got JSON Number"),
        (
            b'{"context":[],"examples":[{"x":1}]}',
            FLOAT,
            "Example must be JSON object but got JSON Array",
        ),
        (
            b'{"context":{"x":1},"examples":[{},{"x":2}]}',
            FLOAT,
            "Feature: x is in 'context' and must not be in example 1 as well",
        ),
        (
            b'{"examples":[{"x":null}]}',
            FLOAT,
            "Feature: x has element with unexpected JSON type: Null",
        ),
        (
            b'{"examples":[{"x":[[1]]}]}',
            FLOAT,
            "Feature: x has element with unexpected JSON type: Array",
        ),
        (
            b'{"examples":[{"x":{"y":1}}]}',
            FLOAT,
            "Feature: x has element with unexpected JSON type: Object",
        ),
        (
            b'{"examples":[{"x":1,"other":null}]}',
            FLOAT,
            "Feature: other has element with unexpected JSON type: Null",
        ),
        (
            b'{"examples":[{"x":[1.0,2]}]}',
            FLOATS,
            "Unexpected element type in feature: x expecting type: float",
        ),
        (
            b'{"examples":[{"x":[{"b64":"YQ=="},1]}]}',
            FLOATS,
            "Unexpected element type in feature: x expecting type: bytes",
        ),
        (
            b'{"examples":[{"x":[1,"a"]}]}',
            FLOATS,
            "Unexpected element type in feature: x expecting type: int64",
        ),
        (
            b'{"examples":[{"x":9223372036854775808}]}',
            FLOAT,
            "Feature: x has element 9223372036854775808. Only int64 is supported.",
        ),
        (
            b'{"examples":[{"x":18446744073709551616}]}',
            FLOAT,
            "Feature: x has element 18446744073709551616. Only int64 is supported.",
        ),
        (
            b'{"examples":[{"x":[1.5]}]}',
            INTS,
            "Feature: x: JSON Value: 1.5 Type: Number is not of expected type: int32",
        ),
        (
            b'{"examples":[{"x":[2147483648]}]}',
            INTS,
            "Feature: x: JSON Value: 2147483648 Type: Number is not of expected type: int32",
        ),
        (
            b'{"examples":[{"x":[2]}]}',
            FLAGS,
            "Feature: x: JSON Value: 2 Type: Number is not of expected type: bool",
        ),
        (
            b'{"examples":[{"x":{"b64":"YQ=="}}]}',
            FLAGS,
            'Feature: x: JSON Value: {"b64":"YQ=="} Type: Object is not of expected type: bool',
        ),
        (
            b'{"examples":[{"x":[1.0]}]}',
            FLAGS,
            "Feature: x: JSON Value: 1.0 Type: Number is not of expected type: bool",
        ),
        (
            b'{"examples":[{"x":"a"}]}',
            FLOAT,
            'Feature: x: JSON Value: "a" Type: String is not of expected type: float',
        ),
        (
            b'{"examples":[{"x":1},{}]}',
            FLOAT,
            "Feature: x is required but could not be found in example 1",
        ),
        (
            b'{"examples":[{"x":1,"y":2},{"x":1}]}',
            MAYBE,
            "Feature: y is required but could not be found in example 1",
        ),
        (
            b'{"examples":[{"x":[1]},{"x":[1,2]}]}',
            FLOATS,
            "Feature: x has 2 values in example 1 but 1 in example 0; the numbers must be equal",
        ),
        (
            b'{"examples":[{"x":[1,2]}]}',
            FLOAT,
            "Feature: x has 2 values per example, which do not fit input 'x' of shape [-1]",
        ),
        (
            b'{"examples":[{"x":[1,2,3]}]}',
            SQUARE,
            (
                "Feature: x has 3 values per example, which do not fit input 'x' of shape [-1, "
                "2, 2]"
            ),
        ),
        (
            b'{"examples":[{"x":[1,2,3]}]}',
            OPEN,
            (
                "Feature: x has 3 values per example, which do not fit input 'x' of shape [-1, "
                "-1, 2]"
            ),
        ),
        (
            b'{"examples":[{"x":[]}]}',
            signature(x=spec("x", "FP32", -1, -1, 0)),
            (
                "Feature: x has 0 values per example, which do not fit input 'x' of shape [-1, "
                "-1, 0]"
            ),
        ),
        (
            b'{"examples":[{"x":-9223372036854775809}]}',
            FLOAT,
            "Feature: x has element -9223372036854775809. Only int64 is supported.",
        ),
        (
            b'{"examples":[{"x":1}]}',
            signature(x=spec("x", "FP32")),
            "Feature: x has 1 values per example, which do not fit input 'x' of shape []",
        ),
        (
            b'{"examples":[{"x":1}]}',
            signature(x=spec("x", "FP32", -1, -1, -1)),
            (
                "Feature: x has 1 values per example, which do not fit input 'x' of shape [-1, "
                "-1, -1]"
            ),
        ),
        (
            b'{"examples":[{"x":{"b64":"!"}}]}',
            signature(x=spec("x", "BYTES", -1)),
            'Feature: x: Unable to base64 decode {"b64":"!"}: Only base64 data is allowed',
        ),
    ],
)
def test_unsuitable_examples_are_refused(body, bound, message):
    with pytest.raises(InvalidRequest) as caught:
        decode(body, bound)

    assert caught.value.message == message


def test_a_feature_without_a_json_form_is_unsupported():
    with pytest.raises(UnsupportedDatatype):
        decode(b'{"examples":[{"x":1}]}', signature(x=spec("x", "UINT16", -1)))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda children: (
            st.lists(children)
            | st.dictionaries(st.sampled_from(["x", "y", "image", "b64"]), children)
        ),
    ),
    st.sampled_from([FLOATS, INTS, FLAGS, IMAGE, MAYBE, SQUARE]),
)
def test_any_examples_give_tensors_or_invalid_request(value, bound):
    try:
        tensors = decode_examples({"examples": value, "context": {"y": 1}}, bound)
    except InvalidRequest:
        return
    assert all(tensor.shape[0] == len(value) for tensor in tensors)


def tensor(name: str, datatype: str, values) -> Tensor:
    return Tensor(name, Datatype(datatype), array(datatype, values))


CLASSES, SCORES = spec("classes", "BYTES", -1, -1), spec("scores", "FP32", -1, -1)
LABELS = tensor("classes", "BYTES", [[b"cat", b""], [b"\xff", b'"']])
SCORED = tensor("scores", "FP32", [[0.2, 4], [np.nan, 1e-7]])


@pytest.mark.parametrize(
    ("declared", "outputs", "results"),
    [
        (
            [CLASSES, SCORES],
            [LABELS, SCORED],
            b'[[["cat",0.2],["",4.0]],[[{"b64":"/w=="},NaN],["\\"",1e-7]]]',
        ),
        ([SCORES], [SCORED], b'[[["",0.2],["",4.0]],[["",NaN],["",1e-7]]]'),
        (
            [CLASSES],
            [LABELS],
            b'[[["cat",0.0],["",0.0]],[[{"b64":"/w=="},0.0],["\\"",0.0]]]',
        ),
        ([SCORES], [tensor("scores", "FP64", np.zeros((2, 0)))], b"[[],[]]"),
    ],
)
def test_classes_and_scores_become_pairs_under_both_keys(declared, outputs, results):
    body = encode_classification(outputs, signature(declared), 2)

    assert body == b'{"results":' + results + b',"result":' + results + b"}"


@pytest.mark.parametrize(
    ("declared", "outputs", "message"),
    [
        (
            [],
            [],
            (
                "Expected classification signature outputs to contain at least one of "
                '"classes" or "scores". Signature: serving_default'
            ),
        ),
        (
            [CLASSES, SCORES],
            [LABELS, tensor("scores", "FP32", [[1], [2]])],
            "Tensors class and score should match in dim_size(1). Got 1 vs. 2",
        ),
        (
            [SCORES],
            [tensor("scores", "FP32", [1, 2])],
            "Expected Tensor shape: [batch_size num_classes] but got [2]",
        ),
        (
            [SCORES],
            [tensor("scores", "FP32", [[1, 2]])],
            "Expected scores output batch size of 2. Got: 1",
        ),
        (
            [SCORES],
            [tensor("scores", "INT64", [[1], [2]])],
            "Expected scores Tensor of DT_FLOAT. Got: DT_INT64",
        ),
        (
            [CLASSES],
            [tensor("classes", "INT64", [[1], [2]])],
            "Expected classes Tensor of DT_STRING. Got: DT_INT64",
        ),
    ],
)
def test_outputs_that_are_not_a_classification_are_refused(declared, outputs, message):
    with pytest.raises(InvalidRequest) as error:
        encode_classification(outputs, signature(declared), 2)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("values", "results"),
    [([1.5, np.inf], b"[1.5,Infinity]"), ([[2], [-0.0]], b"[2.0,-0.0]")],
)
def test_outputs_become_regressions_under_both_keys(values, results):
    bound = signature([spec("outputs", "FP32", -1)])

    body = encode_regression([tensor("outputs", "FP32", values)], bound, 2)

    assert body == b'{"results":' + results + b',"result":' + results + b"}"


@pytest.mark.parametrize(
    ("declared", "outputs", "batch", "message"),
    [
        (
            [],
            [],
            1,
            (
                'Expected regression signature outputs to contain "outputs". Signature: '
                "serving_default"
            ),
        ),
        (
            [spec("outputs", "FP32")],
            [tensor("outputs", "FP32", 1)],
            1,
            (
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but "
                "got []"
            ),
        ),
        (
            [spec("outputs", "FP32")],
            [tensor("outputs", "FP32", [[1, 2]])],
            1,
            (
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but "
                "got [1, 2]"
            ),
        ),
        (
            [spec("outputs", "FP32")],
            [tensor("outputs", "FP32", [1, 2])],
            1,
            "Input batch size did not match output batch size: 1 vs. 2",
        ),
        (
            [spec("outputs", "FP32")],
            [tensor("outputs", "INT8", [1])],
            1,
            "Expected outputs Tensor of DT_FLOAT. Got: DT_INT8",
        ),
        (
            [spec("outputs", "FP32")],
            [tensor("outputs", "FP32", [])],
            0,
            "Cannot convert empty results to JSON",
        ),
    ],
)
def test_invalid_regression_outputs_are_refused(declared, outputs, batch, message):
    with pytest.raises(InvalidRequest) as error:
        encode_regression(outputs, signature(declared), batch)
    assert error.value.message == message
