"""ONNX graphs that compute indexes of their own, and what ONNX Runtime says of them on the CPU."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
CONSTANTS = {
    "table": TABLE,
    "one": np.int64(1),
    "rows": np.array([0, 2], np.int64),
    "last": np.array([-3], np.int64),
    "far": np.array([2], np.int64),
    "many": np.zeros(300, np.int64),
    "many too far": np.full(300, 2, np.int64),
    "flat": np.array([-1], np.int64),
    "pairs": np.array([[0, 1], [2, 2]], np.int64),
    "second": np.array([1], np.int64),
}
PREPARE = node("Add", ["ids", "one"], ["i"])


def write(path, nodes, inputs=(("ids", TensorProto.INT64, ["n", 2]),), outputs=("y",), opset=18):
    bodies = (a.g for each in nodes for a in each.attribute if a.HasField("g"))
    inside = (each for graph in bodies for each in graph.node)
    used = {name for each in (*nodes, *inside) for name in each.input}
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in CONSTANTS.items() if n in used],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    onnx.save(model, path)
    return path


def session(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def problem_on_cpu(path, feeds) -> bool:
    try:
        session(path).run(["y"], feeds)
    except Exception:  # noqa: BLE001 - the library has no class for it
        return True
    return False


# Nodes that compute "y" from "ids", INT64 [n, 2].
COMPUTED = [
    pytest.param([PREPARE, node("Gather", ["table", "i"], ["y"])], id="rows"),
    pytest.param([PREPARE, node("Gather", ["table", "i"], ["y"], axis=1)], id="columns"),
    pytest.param([PREPARE, node("Gather", ["table", "i"], ["y"], axis=-1)], id="last"),
    pytest.param([PREPARE, node("Gather", ["table", "i"], ["y"], axis=-2)], id="second last"),
    pytest.param([PREPARE, node("GatherElements", ["table", "i"], ["y"], axis=1)], id="elements"),
    pytest.param(
        [
            PREPARE,
            node("Cast", ["i"], ["c"], to=TensorProto.INT32),
            node("Gather", ["table", "c"], ["y"]),
        ],
        id="of another type",
    ),
    pytest.param([PREPARE, node("GatherND", ["table", "i"], ["y"])], id="elements by pairs"),
    pytest.param(
        [
            PREPARE,
            node("Unsqueeze", ["i", "second"], ["u"]),
            node("GatherND", ["table", "u"], ["y"]),
        ],
        id="rows by tuples",
    ),
    pytest.param(
        [
            PREPARE,
            node("Transpose", ["table"], ["t"]),
            node("GatherND", ["t", "i"], ["y"]),
        ],
        id="of a computed shape",
    ),
    pytest.param(
        [
            PREPARE,
            # equal ones, because the order of updates of one element is not defined
            node("Sub", ["i", "i"], ["zeros"]),
            node("Cast", ["zeros"], ["updates"], to=TensorProto.FLOAT),
            node("ScatterElements", ["table", "i", "updates"], ["y"], axis=1),
        ],
        id="scattered",
    ),
    pytest.param(
        [
            PREPARE,
            node("Sub", ["i", "i"], ["zeros"]),
            node("ReduceSum", ["zeros", "flat"], ["sums"], keepdims=0),
            node("Cast", ["sums"], ["updates"], to=TensorProto.FLOAT),
            node("ScatterND", ["table", "i", "updates"], ["y"]),
        ],
        id="scattered by pairs",
    ),
    pytest.param([node("GatherND", ["table", "ids"], ["y"])], id="pairs from an input"),
    pytest.param([node("Gather", ["ids", "ids"], ["y"])], id="an input into itself"),
]
