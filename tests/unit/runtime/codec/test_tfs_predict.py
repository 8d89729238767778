"""Predict documents to tensors and back: rows, columns, names, and refusals."""

import numpy as np
import pytest

from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs.predict_request import decode_predict
from moorage_runtime.codec.tfs.predict_response import encode_predict
from moorage_runtime.codec.tfs.signatures import BoundSignature
from moorage_runtime.values.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor
from unit.runtime.tfs_fixtures import array, spec


def signature(*inputs, outputs=None) -> BoundSignature:
    named = {each.name: each for each in inputs}
    bound = None if outputs is None else {each.name: each for each in outputs}
    return BoundSignature("serving_default", "predict", named, bound or {}, derived=bound is None)


X = signature(spec("x", "FP32", -1))
F12 = signature(spec("x", "FP32", -1, 1, 2))
STRINGS = signature(spec("s", "BYTES", -1))
MULTI = signature(
    spec("tag", "BYTES", -1, 1), spec("signal", "INT32", -1, 5), spec("sensor", "INT32", -1, 2, 2)
)
OPTIONAL = signature(spec("x", "FP32", -1), spec("scale", "FP32", -1, optional=True))


def decode(body: bytes, bound: BoundSignature):
    call = decode_predict(tfs_document.parse_object(body), bound)
    for tensor in call.inputs:
        assert tensor.array.dtype == NUMPY_DTYPE[tensor.datatype]
    return {tensor.name: tensor.array for tensor in call.inputs}, call.row


@pytest.mark.parametrize(
    ("body", "bound", "expected", "row"),
    [
        (b'{"instances":[1.0,2.0,5.0]}', X, {"x": array("FP32", [1, 2, 5])}, True),
        (b'{"inputs":[3.0,4.0]}', X, {"x": array("FP32", [3, 4])}, False),
        (b'{"inputs":3}', X, {"x": array("FP32", 3)}, False),
        (
            b'{"instances":[[[1,2]],[[3,4]]]}',
            F12,
            {"x": array("FP32", [[[1, 2]], [[3, 4]]])},
            True,
        ),
        (b'{"instances":[{"x":1},{"x":2}]}', X, {"x": array("FP32", [1, 2])}, True),
        (b'{"inputs":{"x":[1],"ignored":"..."}}', X, {"x": array("FP32", [1])}, False),
        (b'{"instances":["foo","bar"]}', STRINGS, {"s": array("BYTES", [b"foo", b"bar"])}, True),
        (
            b'{"instances":[{"b64":"/w=="},"a"]}',
            STRINGS,
            {"s": array("BYTES", [b"\xff", b"a"])},
            True,
        ),
        (b'{"inputs":{"b64":"/w=="}}', STRINGS, {"s": array("BYTES", b"\xff")}, False),
        (b'{"instances":[{"s":{"b64":"/w=="}}]}', STRINGS, {"s": array("BYTES", [b"\xff"])}, True),
        (b'{"extra":[[1,[2]]],"instances":[1]}', X, {"x": array("FP32", [1])}, True),
        (b'{"instances":[1]}', OPTIONAL, {"x": array("FP32", [1])}, True),
        (
            b'{"instances":[{"x":1,"scale":2}]}',
            OPTIONAL,
            {"x": array("FP32", [1]), "scale": array("FP32", [2])},
            True,
        ),
        (
            b'{"instances":[1]}',
            signature(spec("x", "FP32", -1, optional=True)),
            {"x": array("FP32", [1])},
            True,
        ),
        (b'{"instances":[{"x":1}]}', OPTIONAL, {"x": array("FP32", [1])}, True),
        (b'{"inputs":{"x":[1]}}', OPTIONAL, {"x": array("FP32", [1])}, False),
        (
            (
                b'{"instances":['
                b'{"tag":["foo"],"signal":[1,2,3,4,5],"sensor":[[1,2],[3,4]]},'
                b'{"tag":["bar"],"signal":[3,4,1,2,5],"sensor":[[4,5],[6,8]]}]}'
            ),
            MULTI,
            {
                "tag": array("BYTES", [[b"foo"], [b"bar"]]),
                "signal": array("INT32", [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]]),
                "sensor": array("INT32", [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]),
            },
            True,
        ),
        (
            b'{"inputs":{"tag":[["a"]],"signal":[1],"sensor":[]}}',
            MULTI,
            {
                "tag": array("BYTES", [[b"a"]]),
                "signal": array("INT32", [1]),
                "sensor": array("INT32", []),
            },
            False,
        ),
    ],
)
def test_a_document_becomes_tensors(body, bound, expected, row):
    arrays, is_row = decode(body, bound)

    assert is_row is row
    assert list(arrays) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(arrays[name], expected[name], strict=True)


@pytest.mark.parametrize(
    ("body", "bound", "message"),
    [
        (
            b'{"instances":[1],"inputs":[1]}',
            X,
            (
                'JSON Value: {"instances":[1],"inputs":[1]} Not formatted correctly expecting '
                "only one of 'inputs' or 'instances' keys to exist"
            ),
        ),
        (b'{"signature_name":"serving_default"}', X, "Missing 'inputs' or 'instances' key"),
        (
            b'{"instances":1.0}',
            X,
            "JSON Value: {\"instances\":1.0} Expecting 'instances' to be an list/array",
        ),
        (
            b'{"instances":{"x":[1]}}',
            X,
            'JSON Value: {"instances":{"x":[1]}} Expecting \'instances\' to be an list/array',
        ),
        (b'{"instances":[]}', X, "JSON Value: {\"instances\":[]} No values in 'instances' array"),
        (
            b'{"instances":[[[1,2]],[[3,4,5]]]}',
            F12,
            (
                "Failed to process element: 1 of 'instances' list. Error: Expecting shape "
                "[1,2] but got: [1,3]"
            ),
        ),
        (
            b'{"instances":[[[1,2]],[[3,4],[5]]]}',
            F12,
            (
                "Failed to process element: 1 of 'instances' list. Error: Encountered list at "
                "unexpected size: 1 at level: 1 expected size: 2"
            ),
        ),
        (
            b'{"instances":[1,2,"3"]}',
            X,
            (
                "Failed to process element: 2 of 'instances' list. Error: JSON Value: \"3\" "
                "Type: String is not of expected type: float"
            ),
        ),
        (
            b'{"instances":[[1,2,3]]}',
            MULTI,
            (
                "instances is a plain list, but expecting list of objects as multiple input "
                "tensors required as per tensorinfo_map: tag,signal,sensor"
            ),
        ),
        (
            b'{"inputs":[1]}',
            MULTI,
            (
                "inputs is a plain value/list, but expecting an object as multiple input "
                "tensors required as per tensorinfo_map: tag,signal,sensor"
            ),
        ),
        (
            b'{"instances":[{"tag":["a"]}]}',
            MULTI,
            (
                'Failed to process element: 0 of \'instances\' list. JSON object: {"tag":["a"]} '
                "keys must be equal to: sensor,signal,tag"
            ),
        ),
        (
            b'{"instances":[{"x":1,"y":2}]}',
            X,
            (
                'Failed to process element: 0 of \'instances\' list. JSON object: {"x":1,"y":2} '
                "keys must be equal to: x"
            ),
        ),
        (
            b'{"instances":[{"x":1},{"scale":1,"x":2}]}',
            OPTIONAL,
            (
                "Failed to process element: 1 of 'instances' list. JSON object: "
                '{"scale":1,"x":2} keys must be equal to: x'
            ),
        ),
        (b'{"instances":[{"x":1},2]}', X, "Expecting object but got list at item 1 of input list"),
        (
            b'{"instances":[1,{"x":2}]}',
            X,
            "Expecting value/list but got object at item 1 of input list",
        ),
        (
            b'{"instances":[{"x":1},{"x":[2]}]}',
            X,
            (
                "Failed to process element: 1 key: x of 'instances' list. Error: Expecting "
                "shape [] but got: [1]"
            ),
        ),
        (b'{"inputs":{"tag":[["a"]]}}', MULTI, "Missing named input: signal in 'inputs' object."),
        (
            b'{"inputs":[[1],[1,2]]}',
            X,
            "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
        ),
        (
            b'{"instances":[1]}',
            signature(),
            (
                "Failed to get input map for signature: serving_default; the model declares no "
                "inputs"
            ),
        ),
    ],
)
def test_invalid_documents_are_refused_with_the_text_of_tensorflow_serving(body, bound, message):
    with pytest.raises(InvalidRequest) as caught:
        decode(body, bound)

    assert caught.value.message == message


def test_an_input_without_a_json_form_is_unsupported():
    with pytest.raises(UnsupportedDatatype, match=r"to type: half$"):
        decode(b'{"instances":[1]}', signature(spec("x", "FP16", -1)))


def tensor(name: str, datatype: str, values) -> Tensor:
    return Tensor(name, Datatype(datatype), array(datatype, values))


@pytest.mark.parametrize(
    ("tensors", "row", "body"),
    [
        ([tensor("y", "FP32", [3.5, 4])], True, b'{"predictions":[3.5,4.0]}'),
        ([tensor("y", "FP32", [3.5, 4])], False, b'{"outputs":[3.5,4.0]}'),
        (
            [tensor("y", "FP32", [np.nan, np.inf, -np.inf])],
            True,
            b'{"predictions":[NaN,Infinity,-Infinity]}',
        ),
        ([tensor("y", "INT64", 3)], False, b'{"outputs":3}'),
        ([tensor("y", "FP32", [])], True, b'{"predictions":[]}'),
        ([tensor("y", "FP32", np.zeros((2, 0)))], True, b'{"predictions":[[],[]]}'),
        ([tensor("y", "BYTES", [b"foo"])], True, b'{"predictions":["foo"]}'),
        ([tensor("y_bytes", "BYTES", [b"foo"])], True, b'{"predictions":[{"b64":"Zm9v"}]}'),
        ([tensor("y_bytes", "BYTES", [b"foo"])], False, b'{"outputs":[{"b64":"Zm9v"}]}'),
        ([tensor("y_bytes", "INT8", [1])], True, b'{"predictions":[1]}'),
        (
            [tensor("a", "INT8", [1, 2]), tensor("s", "BYTES", [b"x,y", b"]],[["])],
            True,
            b'{"predictions":[{"a":1,"s":"x,y"},{"a":2,"s":"]],[["}]}',
        ),
        ([tensor("y", "BYTES", [b"\xff", b"a"])], True, b'{"predictions":[{"b64":"/w=="},"a"]}'),
        (
            [tensor("a", "FP32", [1, 2]), tensor("b", "INT64", [[1, 2], [3, 4]])],
            True,
            b'{"predictions":[{"a":1.0,"b":[1,2]},{"a":2.0,"b":[3,4]}]}',
        ),
        (
            [
                tensor("a", "FP32", [[[1], [np.nan]], [[3], [4]]]),
                tensor("s", "BYTES", [b"x", b"y"]),
            ],
            True,
            b'{"predictions":[{"a":[[1.0],[NaN]],"s":"x"},{"a":[[3.0],[4.0]],"s":"y"}]}',
        ),
        (
            [tensor("a", "FP32", np.zeros((1, 0, 2))), tensor("b", "BOOL", [True])],
            True,
            b'{"predictions":[{"a":[],"b":true}]}',
        ),
        (
            [tensor("a", "FP32", [1, 2]), tensor("b", "INT64", 5)],
            False,
            b'{"outputs":{"a":[1.0,2.0],"b":5}}',
        ),
        ([tensor("a", "FP32", []), tensor("b", "INT8", [])], True, b'{"predictions":[]}'),
    ],
)
def test_tensors_become_a_document(tensors, row, body):
    assert encode_predict(tensors, X, row=row) == body


def test_a_declared_signature_names_the_outputs():
    bound = BoundSignature(
        "s", "predict", {}, {"score": spec("y", "FP32", -1), "label_bytes": spec("l", "BYTES", -1)}
    )

    body = encode_predict(
        [tensor("l", "BYTES", [b"a"]), tensor("y", "FP32", [1])], bound, row=True
    )

    assert body == b'{"predictions":[{"score":1.0,"label_bytes":{"b64":"YQ=="}}]}'


@pytest.mark.parametrize(
    ("tensors", "row", "message"),
    [
        ([tensor("y", "FP32", 1)], True, "Tensor name: y has no shape information"),
        (
            [tensor("a", "FP32", [1, 2, 3]), tensor("b", "INT64", [3])],
            True,
            "Tensor name: b has inconsistent batch size: 1 expecting: 3",
        ),
        ([], True, "Cannot convert empty tensor map to JSON"),
        ([tensor("y", "FP16", [1])], True, "Failed to write JSON value for tensor type: half"),
        (
            [tensor("y", "BF16", [1])],
            False,
            "Failed to write JSON value for tensor type: bfloat16",
        ),
    ],
)
def test_outputs_without_a_json_form_are_refused(tensors, row, message):
    with pytest.raises(InvalidRequest) as error:
        encode_predict(tensors, X, row=row)
    assert error.value.message == message
