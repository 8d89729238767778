"""GRPS messages: JSON and protobuf in both directions, and refusals."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from moorage_runtime.codec._generated import grps_pb2 as pb
from moorage_runtime.codec.grps import json_form as grps_json
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.grps import tensor_types as grps_tensors
from moorage_runtime.codec.grps.message import (
    OK,
    Blob,
    Message,
    NestedArray,
    Status,
    Table,
    Tensors,
    Text,
)
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

STATUS = {"code": 200, "msg": "OK", "status": "SUCCESS"}


def as_array(values, datatype):
    array = np.empty(len(values), NUMPY_DTYPE[Datatype(datatype)])
    array[:] = values
    return array


def tensor(datatype, values, name="", shape=None):
    array = as_array(values, datatype)
    return Tensor(name, Datatype(datatype), array if shape is None else array.reshape(shape))


def read(document):
    return grps_json.decode(json.dumps(document).encode())


def tensors_of(message):
    return [
        (t.name, str(t.datatype), t.array.shape, t.array.tolist()) for t in message.data.tensors
    ]


# (datatype, dtype, flat field, values, values in the JSON of the response)
TENSORS = [
    ("UINT8", "DT_UINT8", "flat_uint8", [0, 255], [0, 255]),
    ("INT8", "DT_INT8", "flat_int8", [-128, 127], [-128, 127]),
    ("INT16", "DT_INT16", "flat_int16", [-(2**15), 1], [-(2**15), 1]),
    ("INT32", "DT_INT32", "flat_int32", [-(2**31), 1], [-(2**31), 1]),
    ("INT64", "DT_INT64", "flat_int64", [-(2**63), 2**63 - 1], [str(-(2**63)), str(2**63 - 1)]),
    ("FP16", "DT_FLOAT16", "flat_float16", [0.5, -math.inf], [0.5, "-Infinity"]),
    ("FP32", "DT_FLOAT32", "flat_float32", [1.5, math.inf], [1.5, "Infinity"]),
    ("FP64", "DT_FLOAT64", "flat_float64", [0.1, 1e300], [0.1, 1e300]),
    ("BYTES", "DT_STRING", "flat_string", ["é", ""], ["é", ""]),
]


@pytest.mark.parametrize(("number", "case"), list(enumerate(TENSORS, 1)))
def test_a_tensor_in_json_and_protobuf(number, case):
    datatype, dtype, field, values, spelled = case
    elements = [v.encode() for v in values] if datatype == "BYTES" else values
    wanted = [("x", datatype, (2, 1), [[e] for e in elements])]

    for enum in (dtype, number):
        for members in (
            {field: spelled},
            {
                field.replace("_f", "F")
                .replace("_u", "U")
                .replace("_i", "I")
                .replace("_s", "S"): spelled
            },
        ):
            document = {
                "gtensors": {"tensors": [{"name": "x", "dtype": enum, "shape": [2, 1], **members}]}
            }
            assert tensors_of(read(document)) == wanted

    item = pb.GenericTensor(name="x", dtype=dtype, shape=[2, 1], **{field: values})
    message = pb.GrpsMessage(gtensors=pb.GenericTensorData(tensors=[item]))
    decoded = grps_proto.decode(message)
    assert tensors_of(decoded) == wanted

    answer = json.loads(grps_json.encode(OK, decoded.data))
    assert answer == {
        "status": STATUS,
        "gtensors": {"tensors": [{"name": "x", "dtype": dtype, "shape": [2, 1], field: spelled}]},
    }
    again = pb.GrpsMessage.FromString(grps_proto.encode(OK, decoded.data))
    assert again.gtensors == message.gtensors
    assert (again.status.code, again.status.msg, again.status.status) == (200, "OK", 1)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"str_data": "a"}, Message("", Text("a"))),
        ({"strData": "a", "model": "m-1"}, Message("m-1", Text("a"))),
        ({"str_data": "", "unknown": [1]}, Message("", Text(""))),
        ({"str_data": None, "model": None}, Message("", None)),
        ({}, Message("", None)),
        ({"gtensors": {}}, Message("", Tensors(()))),
        ({"gmap": {}}, Message("", Table({}))),
        (
            {
                "gmap": {
                    "s_s": {"k": "v"},
                    "sB": {"k": "AP8"},
                    "s_i32": {"k": 1},
                    "s_i64": {"k": "-9223372036854775808", "l": 2},
                    "s_f": {"k": "NaN"},
                    "s_d": {"k": 0.1, "l": "1.5"},
                    "s_t": {"ignored": 1},
                }
            },
            None,
        ),
    ],
)
def test_json_members_have_two_spellings_and_presence_counts(document, message):
    got = read(document)
    if message is not None:
        assert got == message
        return
    maps = got.data.maps
    assert math.isnan(maps["s_f"].pop("k"))
    assert maps == {
        "s_s": {"k": "v"},
        "s_b": {"k": b"\0\xff"},
        "s_i32": {"k": 1},
        "s_i64": {"k": -(2**63), "l": 2},
        "s_f": {},
        "s_d": {"k": 0.1, "l": 1.5},
    }


@pytest.mark.parametrize(
    ("value", "shape"), [(3, ()), ([1, 2], (2,)), ([[1], [2]], (2, 1)), ([[[1.5, 0]]], (1, 1, 2))]
)
def test_ndarray_has_the_shape_of_its_nesting(value, shape):
    array = read({"ndarray": value}).data.array
    assert (array.shape, array.dtype, array.tolist()) == (shape, np.float32, value)


def test_ndarray_accepts_the_form_of_responses():
    assert read({"ndarray": ["Infinity"]}).data.array.tolist() == [math.inf]


def one(**members):
    return {"gtensors": {"tensors": [{"dtype": "DT_INT32", "shape": [1], **members}]}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"str_data": 1}, "str_data: 1 is invalid: must be a string"),
        ({"model": 1}, "model: 1 is invalid: must be a string"),
        (
            {"bin_data": "AA=="},
            "bin_data is not supported in JSON: send the bytes as application/octet-stream",
        ),
        ({"str_data": "a", "gmap": {}}, "str_data and gmap are both set: set only one"),
        (
            {"str_data": "a", "strData": "b"},
            "str_data and strData are both set: set only one",
        ),
        ({"gtensors": []}, "gtensors: an array is invalid: must be an object"),
        (
            {"gtensors": {"tensors": {}}},
            "gtensors.tensors: an object is invalid: must be an array",
        ),
        ({"gtensors": {"tensors": [1]}}, "gtensors.tensors[0]: 1 is invalid: must be an object"),
        (one(name=1, flat_int32=[1]), "gtensors.tensors[0].name: 1 is invalid: must be a string"),
        (
            one(dtype="DT_BOOL"),
            (
                'gtensors.tensors[0].dtype: "DT_BOOL" is invalid: must be the name or number '
                "of one of DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, "
                "DT_FLOAT32, DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            one(dtype=0),
            (
                "gtensors.tensors[0].dtype: 0 is invalid: must be the name or number of one of "
                "DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, DT_FLOAT32, "
                "DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            one(dtype=True),
            (
                "gtensors.tensors[0].dtype: true is invalid: must be the name or number of one "
                "of DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, DT_FLOAT32, "
                "DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            one(dtype=None),
            (
                "gtensors.tensors[0].dtype: null is invalid: must be the name or number of one "
                "of DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, DT_FLOAT32, "
                "DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            one(dtype=[1]),
            (
                "gtensors.tensors[0].dtype: an array is invalid: must be the name or number of "
                "one of DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, "
                "DT_FLOAT32, DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            one(shape=[-1]),
            (
                "gtensors.tensors[0].shape[0]: -1 is invalid: must be an integer from 0 to "
                "4294967295, the range of UINT32"
            ),
        ),
        (one(shape=["x"]), 'gtensors.tensors[0].shape[0]: "x" is not a valid number'),
        (one(shape=1), "gtensors.tensors[0].shape: 1 is invalid: must be an array"),
        (
            one(shape=[2**31] * 3),
            (
                "gtensors.tensors[0].shape: the product of dimensions 0 to 1 is too large for "
                "a tensor"
            ),
        ),
        (
            one(flat_int32=[1, 2]),
            "gtensors.tensors[0].flat_int32 has 2 elements: shape [1] requires 1",
        ),
        (one(), "gtensors.tensors[0].flat_int32 has 0 elements: shape [1] requires 1"),
        (
            one(flat_int32=[2**31]),
            (
                "gtensors.tensors[0].flat_int32[0]: 2147483648 is invalid: must be an integer "
                "from -2147483648 to 2147483647, the range of INT32"
            ),
        ),
        (
            one(flat_int32=["1x"]),
            'gtensors.tensors[0].flat_int32[0]: "1x" is not a valid number',
        ),
        (
            one(flat_int32=[[1]]),
            (
                "gtensors.tensors[0].flat_int32 contains an array: must be one flat array of "
                "elements"
            ),
        ),
        (
            one(flat_int32=[True]),
            (
                "gtensors.tensors[0].flat_int32[0]: true is invalid: must be an integer from "
                "-2147483648 to 2147483647, the range of INT32"
            ),
        ),
        (one(flat_int32=1), "gtensors.tensors[0].flat_int32: 1 is invalid: must be an array"),
        (
            one(flat_float32=[1]),
            "gtensors.tensors[0].flat_float32 has values: DT_INT32 requires flat_int32",
        ),
        (
            one(flat_double=[1]),
            "gtensors.tensors[0].flat_double has values: DT_INT32 requires flat_int32",
        ),
        (
            one(dtype="DT_FLOAT64", flat_double=[1], flat_float64=[1]),
            "gtensors.tensors[0]: flat_double and flat_float64 are both set: set only one",
        ),
        (
            one(dtype="DT_FLOAT32", flat_float32=["inf"]),
            'gtensors.tensors[0].flat_float32[0]: "inf" is not a valid number',
        ),
        (
            {"ndarray": [[1], [2, 3]]},
            "ndarray: the lists at depth 2 are empty or differ in length",
        ),
        ({"ndarray": [[], []]}, "ndarray: the lists at depth 2 are empty or differ in length"),
        ({"ndarray": [1, [2]]}, "ndarray: the lists at depth 2 are empty or differ in length"),
        ({"ndarray": [[2], 1]}, "ndarray: the lists at depth 2 are empty or differ in length"),
        ({"ndarray": []}, "ndarray: the lists at depth 1 are empty or differ in length"),
        (
            {"ndarray": [{}]},
            "ndarray[0]: an object is invalid: must be a number, as FP32 requires",
        ),
        ({"ndarray": ["1"]}, 'ndarray[0]: "1" is invalid: must be a number, as FP32 requires'),
        ({"gmap": {"s_s": 1}}, "gmap.s_s: 1 is invalid: must be an object"),
        ({"gmap": {"s_s": {"k": 1}}}, "gmap.s_s.k: 1 is invalid: must be a string"),
        ({"gmap": {"s_b": {"k": "?"}}}, 'gmap.s_b.k: "?" is not valid base64'),
        ({"gmap": {"s_b": {"k": "=YQ"}}}, 'gmap.s_b.k: "=YQ" is not valid base64'),
        ({"gmap": {"s_b": {"k": "é"}}}, 'gmap.s_b.k: "é" is not valid base64'),
        (
            {"gmap": {"s_i32": {"k": 2**31}}},
            (
                "gmap.s_i32.k[0]: 2147483648 is invalid: must be an integer from -2147483648 "
                "to 2147483647, the range of INT32"
            ),
        ),
        (
            {"gmap": {"s_i32": {"k": [1]}}},
            "gmap.s_i32.k: an array is invalid: must be a number",
        ),
        ({"gmap": 3}, "gmap: 3 is invalid: must be an object"),
        ({"gmap": {"s_b": {"k": "QQ==\n"}}}, 'gmap.s_b.k: "QQ==\\n" is not valid base64'),
        ({"gmap": {"s_i64": {"k": "1.5"}}}, 'gmap.s_i64.k[0]: "1.5" is not a valid number'),
        (
            {"gmap": {"s_d": {"k": True}}},
            "gmap.s_d.k[0]: true is invalid: must be a number, as FP64 requires",
        ),
    ],
)
def test_invalid_json_is_refused_with_the_member(document, message):
    with pytest.raises(InvalidRequest) as error:
        read(document)
    assert error.value.message == message


def test_a_shape_may_be_numbers_in_strings():
    document = one(shape=["2", 1], flat_int32=[1, 2])
    assert tensors_of(read(document)) == [("", "INT32", (2, 1), [[1], [2]])]


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("", b""),
        ("YQ", b"a"),
        ("YQ==", b"a"),
        ("YWI", b"ab"),
        ("YWJj", b"abc"),
        ("QUJX", b"ABW"),
        ("+/8=", b"\xfb\xff"),
        ("-_8", b"\xfb\xff"),
    ],
)
def test_bytes_are_base64_of_both_alphabets_with_or_without_padding(text, element):
    assert read({"gmap": {"s_b": {"k": text}}}).data == Table({"s_b": {"k": element}})


def test_the_printed_name_of_float64_elements_is_read():
    document = one(dtype="DT_FLOAT64", flat_double=[1.5])
    assert tensors_of(read(document)) == [("", "FP64", (1,), [1.5])]


@pytest.mark.parametrize(
    ("data", "members"),
    [
        (None, {}),
        (Text(""), {"str_data": ""}),
        (Blob(b"\0\xff"), {"bin_data": "AP8="}),
        (NestedArray(np.array([[1.5], [2]], np.float32)), {"ndarray": [[1.5], [2.0]]}),
        (NestedArray(np.array(1.5, np.float32)), {"ndarray": 1.5}),
        (NestedArray(np.array([[math.nan, 1]], np.float32)), {"ndarray": [["NaN", 1.0]]}),
        (Tensors(()), {"gtensors": {"tensors": []}}),
        (
            Tensors((tensor("FP32", [1.1], shape=()),)),
            {"gtensors": {"tensors": [{"dtype": "DT_FLOAT32", "flat_float32": [1.1]}]}},
        ),
        (
            Tensors((tensor("INT8", [], "e"),)),
            {"gtensors": {"tensors": [{"name": "e", "dtype": "DT_INT8", "shape": [0]}]}},
        ),
        (
            Table({"s_b": {"k": b"\0\xff"}, "s_i64": {"k": 1}, "s_i32": {}}),
            {"gmap": {"s_b": {"k": "AP8="}, "s_i64": {"k": "1"}}},
        ),
        (
            Table({"s_f": {"k": float(np.float32(1.1))}, "s_d": {"k": 1.1}}),
            {"gmap": {"s_f": {"k": 1.1}, "s_d": {"k": 1.1}}},
        ),
        (Table({"s_d": {"k": math.inf}}), {"gmap": {"s_d": {"k": "Infinity"}}}),
        (
            Table({"s_s": {"k": "a"}, "s_i32": {"k": 1}}),
            {"gmap": {"s_s": {"k": "a"}, "s_i32": {"k": 1}}},
        ),
        (
            Tensors((tensor("FP16", [0.1], "h"),)),
            {
                "gtensors": {
                    "tensors": [
                        {
                            "name": "h",
                            "dtype": "DT_FLOAT16",
                            "shape": [1],
                            "flat_float16": [0.0999755859375],
                        }
                    ]
                }
            },
        ),
    ],
)
def test_json_answers(data, members):
    assert json.loads(grps_json.encode(OK, data)) == {"status": STATUS, **members}


def test_a_failure_has_the_failure_flag():
    status = Status(404, "gone")
    wanted = {"status": {"code": 404, "msg": "gone", "status": "FAILURE"}}
    assert json.loads(grps_json.encode(status, None)) == wanted
    assert grps_proto.encode(status, None).hex() == "0a0b0894031204676f6e651802"


def test_strings_that_are_not_utf8_are_refused():
    data = Tensors((tensor("BYTES", [b"\xff"], "y"),))
    for encode in (grps_json.encode, grps_proto.encode):
        with pytest.raises(InvalidRequest) as error:
            encode(OK, data)
        assert error.value.message == (
            "output 'y' contains bytes that are not UTF-8, which gtensors do not support"
        )


@given(
    st.sampled_from([d for d in grps_tensors.FIELDS if d is not Datatype.BYTES]).flatmap(
        lambda d: st.tuples(st.just(d), hnp.arrays(NUMPY_DTYPE[d], hnp.array_shapes(min_side=0)))
    )
)
def test_tensors_survive_both_forms(case):
    datatype, array = case
    data = Tensors((Tensor("x", datatype, array),))
    from_json = grps_json.decode(grps_json.encode(OK, data)).data
    from_proto = grps_proto.decode(grps_proto.parse(grps_proto.encode(OK, data))).data
    for again in (from_json, from_proto):
        assert again.tensors[0].array.dtype == array.dtype
        np.testing.assert_array_equal(again.tensors[0].array, array)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["gtensors", "tensors", "ndarray", "gmap", "s_b", "dtype", "shape"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    )
)
def test_arbitrary_json_is_a_message_or_a_refusal(value):
    try:
        read({"gtensors": value} if not isinstance(value, dict) else value)
    except InvalidRequest as error:
        assert error.message  # noqa: PT017 - both outcomes are valid, but a refusal needs a message
