"""Graphs in which an empty tensor would end the process: the request is refused instead."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.graph.emptiness import fatal_operator
from moorage_runtime.backends.onnx.graph.file import read
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

node = helper.make_node
RECURRENT = {"LSTM": 8, "GRU": 6}
MINE = "mine"


def write(path, nodes, constants=(), shape=("time", "batch", 3), functions=()):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MINE, 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)
    onnx.save(model, path)
    return path


def write_recurrent(path, operator):
    rows = RECURRENT[operator]
    weights = [(name, np.ones((1, rows, size), "f4")) for name, size in (("w", 3), ("r", 2))]
    return write(path, [node(operator, ["x", "w", "r"], ["y"], hidden_size=2)], weights)


def branch(*nodes):
    result = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    return helper.make_graph(list(nodes), "branch", [], [result])


def test_an_empty_tensor_on_which_an_operator_fails_is_an_error_of_the_request(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3))
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([helper.make_node("ArgMax", ["x"], ["y"], axis=0)], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, tmp_path / "model.onnx")
    model = OnnxBackend().load(ModelSource("m", "1", tmp_path / "model.onnx"))

    with pytest.raises(InvalidRequest) as error:
        model.infer(InferRequest("m", "1", (Tensor("x", Datatype.FP32, np.empty((0, 3), "f4")),)))

    expected = "input 'x' has shape [0, 3]: every dimension must be 1 or more, because the model "
    assert error.value.message.startswith(f"{expected}fails on empty tensors: ONNX Runtime: ")


@pytest.mark.parametrize("operator", RECURRENT)
@pytest.mark.parametrize("shape", [(4, 0, 3), (0, 2, 3), (0, 0, 3)])
def test_an_empty_tensor_is_refused(tmp_path, operator, shape):
    path = write_recurrent(tmp_path / "model.onnx", operator)
    model = OnnxBackend().load(ModelSource("m", "1", path))
    empty = Tensor("x", Datatype.FP32, np.empty(shape, np.float32))

    with pytest.raises(InvalidRequest) as error:
        model.infer(InferRequest("m", "1", (empty,)))

    assert error.value.message == (
        f"input 'x' has shape {list(shape)}: every dimension must be 1 or more, because operator "
        f"{operator} of the model does not support empty tensors"
    )


@pytest.mark.parametrize("operator", RECURRENT)
def test_a_tensor_with_elements_is_answered(tmp_path, operator):
    path = write_recurrent(tmp_path / "model.onnx", operator)
    model = OnnxBackend().load(ModelSource("m", "1", path))
    full = Tensor("x", Datatype.FP32, np.ones((4, 2, 3), np.float32))

    (answer,) = model.infer(InferRequest("m", "1", (full,)))

    assert answer.shape == (4, 1, 2, 2)


@pytest.mark.parametrize(
    ("attributes", "found"), [({}, ""), ({"axis": 0}, "Unique"), ({"axis": 1}, "Unique")]
)
def test_unique_values_of_all_elements_may_be_none(tmp_path, attributes, found):
    path = write(tmp_path / "model.onnx", [node("Unique", ["x"], ["y"], **attributes)])

    assert fatal_operator(read(path)) == found


def test_operators_within_control_flow_count(tmp_path):
    then = branch(node("Unique", ["x"], ["out"], axis=0))
    nodes = [
        node(
            "If",
            ["yes"],
            ["y"],
            then_branch=then,
            else_branch=branch(node("Identity", ["x"], ["out"])),
        )
    ]
    path = write(tmp_path / "model.onnx", nodes, [("yes", np.array([1], bool))])

    assert fatal_operator(read(path)) == "Unique"


@pytest.mark.parametrize(("operator", "found"), [("Wrapped", "Unique"), ("Identity", "")])
def test_operators_of_a_function_count_if_it_is_called(tmp_path, operator, found):
    body = [node("Unique", ["a"], ["b"], axis=0)]
    wrapped = helper.make_function(
        MINE, "Wrapped", ["a"], ["b"], body, [helper.make_opsetid("", 17)]
    )
    called = node(operator, ["x"], ["y"], domain=MINE if operator == "Wrapped" else "")
    path = write(tmp_path / "model.onnx", [called], functions=[wrapped])

    assert fatal_operator(read(path)) == found


def test_other_operators_accept_empty_tensors(tmp_path):
    path = write(tmp_path / "model.onnx", [node("Relu", ["x"], ["y"])])
    model = OnnxBackend().load(ModelSource("m", "1", path))
    empty = Tensor("x", Datatype.FP32, np.empty((4, 0, 3), np.float32))

    (answer,) = model.infer(InferRequest("m", "1", (empty,)))

    assert answer.shape == (4, 0, 3)
