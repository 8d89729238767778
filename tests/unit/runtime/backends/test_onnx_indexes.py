"""Inputs that are indexes: the bounds of the analysis are those of ONNX Runtime on the CPU."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.graph.file import read
from moorage_runtime.backends.onnx.graph.indexes import find
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor
from support.absent_gpu import on_absent_gpu

node = helper.make_node
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
QUANTIZED = TABLE.astype(np.uint8)
HALF = TABLE.astype(np.float16)
LAST = [node("Gather", ["table", "ids"], ["y"])]
CONSTANTS = {
    "table": TABLE,
    "quantized": QUANTIZED,
    "half": HALF,
    "scale": np.float32(1),
    "zero": np.uint8(0),
    "flat": np.array([-1], np.int64),
    "first": np.array([0], np.int64),
    "low": np.int64(0),
    "high": np.int64(3),
}


def write(path, nodes, kind=TensorProto.INT64):
    used = {name for each in nodes for name in each.input}
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("ids", kind, ["n", 2])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in CONSTANTS.items() if n in used],
    )
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    onnx.save(model, path)
    return path


def is_accepted(session, element) -> bool:
    try:
        session.run(["y"], {"ids": np.array([[0, element]])})
    except Exception:  # noqa: BLE001 - the library has no class for it
        return False
    return True


@pytest.mark.parametrize(
    ("nodes", "size"),
    [
        pytest.param(LAST, 4, id="rows"),
        pytest.param([node("Gather", ["table", "ids"], ["y"], axis=1)], 3, id="columns"),
        pytest.param([node("Gather", ["table", "ids"], ["y"], axis=-1)], 3, id="last"),
        pytest.param([node("Gather", ["table", "ids"], ["y"], axis=-2)], 4, id="second last"),
        pytest.param([node("GatherElements", ["table", "ids"], ["y"], axis=1)], 3, id="elements"),
        *(
            pytest.param([node(*prepare), node("Gather", ["table", "i"], ["y"])], 4, id=prepare[0])
            for prepare in (
                ("Identity", ["ids"], ["i"]),
                ("Reshape", ["ids", "flat"], ["i"]),
                ("Unsqueeze", ["ids", "first"], ["i"]),
                ("Flatten", ["ids"], ["i"]),
                ("Transpose", ["ids"], ["i"]),
            )
        ),
        pytest.param(
            [
                node("Unsqueeze", ["ids", "first"], ["u"]),
                node("Squeeze", ["u", "first"], ["s"]),
                node("Cast", ["s"], ["i"], to=TensorProto.INT32),
                node("Gather", ["table", "i"], ["y"]),
            ],
            4,
            id="several steps",
        ),
        pytest.param(
            [
                node("DequantizeLinear", ["quantized", "scale", "zero"], ["t"]),
                node("Gather", ["t", "ids"], ["y"]),
            ],
            4,
            id="quantized",
        ),
        pytest.param(
            [
                node("Cast", ["half"], ["c"], to=TensorProto.FLOAT),
                node("Identity", ["c"], ["t"]),
                node("Gather", ["t", "ids"], ["y"]),
            ],
            4,
            id="half precision",
        ),
        pytest.param(
            [
                node("Gather", ["table", "ids"], ["a"], axis=1),
                node("Gather", ["table", "ids"], ["b"]),
                node("ReduceSum", ["a"], ["c"], keepdims=0),
                node("Add", ["b", "c"], ["y"]),
            ],
            3,
            id="two tables, the smaller first",
        ),
        pytest.param(
            [
                node("Gather", ["table", "ids"], ["b"]),
                node("Gather", ["table", "ids"], ["a"], axis=1),
                node("ReduceSum", ["a"], ["c"], keepdims=0),
                node("Add", ["b", "c"], ["y"]),
            ],
            3,
            id="two tables, the smaller last",
        ),
    ],
)
def test_bounds_are_those_of_the_cpu(nodes, size, tmp_path):
    path = write(tmp_path / "model.onnx", nodes)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    assert find(read(path)).inputs == {"ids": size}
    for element in (-size - 1, -size, 0, size - 1, size):
        assert is_accepted(session, element) is (-size <= element < size)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(
            [
                node("Clip", ["ids", "low", "high"], ["i"]),
                node("Gather", ["table", "i"], ["y"]),
            ],
            id="clipped",
        ),
        pytest.param([node("Gather", ["ids", "first"], ["y"])], id="indexed itself"),
        pytest.param(
            [node("Identity", ["table"], ["t"]), node("Mul", ["ids", "ids"], ["y"])], id="numbers"
        ),
        pytest.param(
            [
                node("Gather", ["table", "first"], ["row"]),
                node("Gather", ["row", "ids"], ["y"]),
            ],
            id="a table of unknown size",
        ),
        pytest.param([node("Gather", ["table"], ["y"])], id="an input is missing"),
        pytest.param([node("Gather", ["table", "ids"], ["y"], axis=2)], id="no such axis"),
        pytest.param([node("Gather", ["table", "ids"], ["y"], axis=-3)], id="no such last axis"),
        pytest.param([node("Gather", ["table", "ids"], ["y"], axis=[0])], id="many axes"),
        pytest.param(
            [node("Gather", ["table", "ids"], ["y"], domain="com.microsoft")], id="a domain"
        ),
        pytest.param(
            [
                node("Identity", ["ids"], ["i"], domain="com.microsoft"),
                node("Gather", ["table", "i"], ["y"]),
            ],
            id="a step of a domain",
        ),
    ],
)
def test_an_input_that_is_no_index_or_has_unknown_bounds_is_left_alone(nodes, tmp_path):
    assert find(read(write(tmp_path / "model.onnx", nodes))).inputs == {}


def test_tokens_and_segments_of_an_optimized_encoder_are_indexes(tmp_path):
    names = ["ids", "segments", "table", "positions", "half"]
    embed = node("EmbedLayerNormalization", names, ["y"], domain="com.microsoft")
    path = write(tmp_path / "model.onnx", [node("Identity", ["ids"], ["segments"]), embed])

    assert find(read(path)).inputs == {"ids": 4}


@pytest.fixture
def load(instead_of_cuda):
    return lambda path: on_absent_gpu().load(ModelSource("m", "1", path))


@pytest.fixture
def loaded(tmp_path, load):
    return load(write(tmp_path / "model.onnx", LAST))


def ask(loaded, *rows):
    array = np.array(rows, np.int64).reshape(-1, 2)
    (y,) = loaded.infer(InferRequest("m", "1", (Tensor("ids", Datatype.INT64, array),)))
    return y.array


def test_a_gpu_gets_no_index_outside_of_its_table(loaded):
    assert (ask(loaded, [3, -4]) == TABLE[[[3, -4]]]).all()
    for row, element in (([0, 4], 4), ([-5, 0], -5), ([2**40, -5], -5), ([2**40, 0], 2**40)):
        with pytest.raises(InvalidRequest) as caught:
            ask(loaded, [0, 0], row)
        assert caught.value.message == (
            f"input 'ids' has element {element}: must be an index from -4 to 3"
        )


def test_an_empty_input_has_no_index(loaded):
    assert ask(loaded).shape == (0, 2, 3)


def test_an_index_in_text_is_left_to_the_cpu(tmp_path, load):
    nodes = [
        node("Cast", ["ids"], ["i"], to=TensorProto.INT64),
        node("Gather", ["table", "i"], ["y"]),
    ]
    model = load(write(tmp_path / "model.onnx", nodes, kind=TensorProto.STRING))

    text = Tensor("ids", Datatype.BYTES, np.array([[b"3", b"0"]], object))
    (y,) = model.infer(InferRequest("m", "1", (text,)))

    assert (y.array == TABLE[[[3, 0]]]).all()
