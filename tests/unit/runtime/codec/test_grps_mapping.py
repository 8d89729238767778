"""GRPS's kinds of data and a model's tensors, in both directions."""

import numpy as np
import pytest

from moorage_runtime.codec.grps import mapping as grps_mapping
from moorage_runtime.codec.grps import tensor_types as grps_tensors
from moorage_runtime.codec.grps.message import Blob, NestedArray, Table, Tensors, Text
from moorage_runtime.values.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.values.inference import ModelMetadata
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec


def as_array(values, datatype):
    array = np.empty(len(values), NUMPY_DTYPE[Datatype(datatype)])
    array[:] = values
    return array


def tensor(datatype, values, name="", shape=None):
    array = as_array(values, datatype)
    return Tensor(name, Datatype(datatype), array if shape is None else array.reshape(shape))


def model(*inputs, batching=False):
    specs = tuple(TensorSpec(f"x{i}", Datatype(d), shape) for i, (d, shape) in enumerate(inputs))
    return ModelMetadata("m", "1", ("1",), "p", specs, (), batching=batching, dynamic=not inputs)


def given_to(data, *inputs, **options):
    tensors = grps_mapping.inputs_of(data, model(*inputs, **options))
    return [(t.name, str(t.datatype), t.array.tolist()) for t in tensors]


@pytest.mark.parametrize(
    ("data", "inputs", "wanted"),
    [
        (Text("é"), [], [("str_data", "BYTES", ["é".encode()])]),
        (Text("a"), [("BYTES", (-1,))], [("x0", "BYTES", [b"a"])]),
        (Text("a"), [("BYTES", (-1, 1))], [("x0", "BYTES", [[b"a"]])]),
        (Text("a"), [("BYTES", ())], [("x0", "BYTES", b"a")]),
        (Blob(b"\xff"), [], [("bin_data", "BYTES", [b"\xff"])]),
        (Blob(b"\xff"), [("BYTES", (1,))], [("x0", "BYTES", [b"\xff"])]),
        (Blob(bytes(8)), [("FP32", (-1,))], [("x0", "FP32", [0.0, 0.0])]),
        (
            NestedArray(np.ones((1, 2), np.float32)),
            [("FP32", (-1, 2))],
            [("x0", "FP32", [[1.0, 1.0]])],
        ),
        (NestedArray(np.ones(1, np.float32)), [], [("", "FP32", [1.0])]),
        (Tensors((tensor("INT8", [1], "x0"),)), [("INT8", (1,))], [("x0", "INT8", [1])]),
        (
            Tensors((tensor("INT8", [1]), tensor("INT8", [2]))),
            [("INT8", (1,)), ("INT8", (1,))],
            [("x0", "INT8", [1]), ("x1", "INT8", [2])],
        ),
        (
            Tensors((tensor("INT8", [1]), tensor("INT8", [2]))),
            [],
            [("input0", "INT8", [1]), ("input1", "INT8", [2])],
        ),
        (
            Tensors((tensor("UINT8", [0, 2], "x0"),)),
            [("BOOL", (2,))],
            [("x0", "BOOL", [False, True])],
        ),
        (
            Tensors((tensor("INT32", [0, 65535], "x0"),)),
            [("UINT16", (2,))],
            [("x0", "UINT16", [0, 65535])],
        ),
        (
            Tensors((tensor("INT64", [2**63 - 1]),)),
            [("UINT64", (1,))],
            [("x0", "UINT64", [2**63 - 1])],
        ),
        (Tensors((tensor("INT8", [1], "other"),)), [("INT8", (1,))], [("other", "INT8", [1])]),
        (
            Table({"s_s": {"k": "v"}, "s_b": {"k": b"w"}, "s_i64": {"l": 2}}),
            [],
            [("s_s.k", "BYTES", [b"v"]), ("s_b.k", "BYTES", [b"w"]), ("s_i64.l", "INT64", [2])],
        ),
        (Table({"s_d": {"x0": 0.5}}), [("FP64", (-1, 1))], [("x0", "FP64", [[0.5]])]),
    ],
)
def test_data_becomes_the_inputs_of_the_model(data, inputs, wanted):
    assert given_to(data, *inputs) == wanted


@pytest.mark.parametrize(
    ("data", "inputs", "message"),
    [
        (
            Text("a"),
            [("FP32", (1,))],
            "str_data requires a model with exactly one BYTES input, unlike 'm': use gtensors",
        ),
        (
            Text("a"),
            [("BYTES", (1,))] * 2,
            "str_data requires a model with exactly one BYTES input, unlike 'm': use gtensors",
        ),
        (
            Blob(b"a"),
            [("FP32", (-1,))],
            (
                "input 'x0' has 1 bytes: must be a multiple of 4, the size of one step of the "
                "variable dimension in [-1]"
            ),
        ),
        (
            Blob(b"a"),
            [("FP32", (-1,))] * 2,
            "a raw binary request requires a model with exactly one input: 'm' has 2",
        ),
        (
            Tensors((tensor("INT8", [1], "a"), tensor("INT8", [1]))),
            [("INT8", (1,))] * 2,
            "gtensors: only some tensors have a name: name all or none",
        ),
        (
            Tensors((tensor("INT8", [1]),) * 2),
            [("INT8", (1,))],
            "gtensors has 2 tensors: model 'm' has 1 inputs",
        ),
        (
            Tensors((tensor("INT32", [65536]),)),
            [("UINT16", (1,))],
            "input 'x0': 65536 is out of the range of UINT16",
        ),
        (
            Tensors((tensor("INT64", [-1]),)),
            [("UINT64", (1,))],
            "input 'x0': -1 is out of the range of UINT64",
        ),
    ],
)
def test_data_that_no_input_can_take_is_refused(data, inputs, message):
    with pytest.raises(InvalidRequest) as error:
        given_to(data, *inputs)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("outputs", "request_data", "answer"),
    [
        ([tensor("BYTES", [b"a"], "y")], Text(""), Text("a")),
        ([tensor("BYTES", [b"\xff"], "y")], Blob(b""), Blob(b"\xff")),
        (
            [tensor("INT32", [1], "y"), tensor("FP16", [0.5], "z"), tensor("BYTES", [b"a"], "t")],
            Table({}),
            Table({"s_i32": {"y": 1}, "s_f": {"z": 0.5}, "s_s": {"t": "a"}}),
        ),
        (
            [tensor("BYTES", [b"a"], "s_b.k"), tensor("BYTES", [b"\xff"], "t")],
            Table({}),
            Table({"s_b": {"k": b"a", "t": b"\xff"}}),
        ),
        ([tensor("INT32", [1], "s_f.k")], Table({}), Table({"s_i32": {"s_f.k": 1}})),
        ([tensor("BYTES", [b"a"], "s_s.k")], Table({}), Table({"s_s": {"k": "a"}})),
        ([tensor("BYTES", [b"a"], "s_b.k.l")], Table({}), Table({"s_b": {"k.l": b"a"}})),
        ([tensor("BYTES", [b"a"], "s_b")], Table({}), Table({"s_s": {"s_b": "a"}})),
        ([], Table({}), Table({})),
    ],
)
def test_the_response_has_the_form_of_the_request(outputs, request_data, answer):
    assert grps_mapping.answer_of(outputs, request_data) == answer


@pytest.mark.parametrize(
    ("outputs", "request_data"),
    [
        ([tensor("BYTES", [b"a", b"b"], "y")], Text("")),
        ([tensor("BYTES", [b"a"], "y"), tensor("BYTES", [b"a"], "z")], Blob(b"")),
        ([tensor("FP32", [1], "y")], Text("")),
        ([tensor("FP32", [1, 2], "y")], Table({})),
        ([tensor("FP32", [1], "y")], NestedArray(np.ones(1))),
    ],
)
def test_other_answers_are_tensors(outputs, request_data):
    assert grps_mapping.answer_of(outputs, request_data) == Tensors(tuple(outputs))


def test_a_text_answer_that_is_not_utf8_is_refused():
    for name, request in (("y", Text("")), ("s_s.k", Table({}))):
        with pytest.raises(InvalidRequest) as error:
            grps_mapping.answer_of([tensor("BYTES", [b"\xff"], name)], request)
        assert error.value.message == (
            f"output '{name}' contains bytes that are not UTF-8: send the request as bin_data"
        )


@pytest.mark.parametrize(("data", "name"), [(Text("a"), "str_data"), (Blob(b"a"), "bin_data")])
def test_a_model_without_inputs_takes_no_text(data, name):
    metadata = ModelMetadata("m", "1", ("1",), "p", (), ())
    with pytest.raises(InvalidRequest) as error:
        grps_mapping.inputs_of(data, metadata)
    assert error.value.message == (
        f"{name} requires a model with exactly one BYTES input, unlike 'm': use gtensors"
    )


@pytest.mark.parametrize("datatype", ["BOOL", "UINT16", "UINT64"])
def test_a_tensor_keeps_its_name_and_parameters_in_another_type(datatype):
    given = Tensor("x", Datatype(datatype), as_array([0, 1], datatype), {"k": 1})

    carried = grps_tensors.carry(given)
    restored = grps_tensors.restore(carried, Datatype(datatype))

    for found in (carried, restored):
        assert (found.name, dict(found.parameters)) == ("x", {"k": 1})
    assert (restored.datatype, restored.array.dtype) == (datatype, given.array.dtype)
    assert restored.array.tolist() == given.array.tolist()


@pytest.mark.parametrize(
    ("datatype", "values", "carrier", "carried"),
    [
        ("BOOL", [True, False], "UINT8", [1, 0]),
        ("UINT16", [65535], "INT32", [65535]),
        ("UINT32", [2**32 - 1], "INT64", [2**32 - 1]),
        ("UINT64", [2**63 - 1], "INT64", [2**63 - 1]),
        ("BF16", [0x3FC0, 0xC000], "FP32", [1.5, -2.0]),
        ("FP64", [0.1], "FP64", [0.1]),
    ],
)
def test_datatypes_without_a_grps_type_use_a_wider_one(datatype, values, carrier, carried):
    out = grps_tensors.carry(tensor(datatype, values))
    assert (out.datatype, out.array.dtype, out.array.tolist()) == (
        carrier,
        NUMPY_DTYPE[Datatype(carrier)],
        carried,
    )


def test_an_unsigned_element_above_int64_is_refused():
    with pytest.raises(UnsupportedDatatype) as error:
        grps_tensors.carry(tensor("UINT64", [2**63], "y"))
    assert error.value.message == (
        "output 'y' has UINT64 elements beyond INT64, which GRPS does not support"
    )


def test_only_one_fp32_tensor_is_an_ndarray():
    single = Tensors((tensor("FP32", [1.5]),))
    assert grps_mapping.nested_of(single).array.tolist() == [1.5]
    for data in (
        Tensors(()),
        Tensors(single.tensors * 2),
        Tensors((tensor("FP64", [1]),)),
        Text(""),
    ):
        with pytest.raises(InvalidRequest) as error:
            grps_mapping.nested_of(data)
        assert error.value.message == (
            "return-ndarray: the response is not exactly one DT_FLOAT32 tensor: send the "
            "request without it"
        )
