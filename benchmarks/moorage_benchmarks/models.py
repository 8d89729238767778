"""Models of two sizes beside the digits: where the server costs most, and where copies do.

=======  =======================================  ==================================
small    4 features                               a label and 3 probabilities
image    1x3x224x224 FP32, 602,112 bytes          588 floats, the means of 16x16
=======  =======================================  ==================================

They are written as a model repository; nothing of them is random.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# What ONNX Runtime releases of the last years read.
_OPSET = 18
_IR_VERSION = 9


def write(folder: Path, digits: Path) -> None:
    """The repository: small, image, and the digits model from its file."""
    _write(folder / "small", _small())
    _write(folder / "image", _image())
    copy = folder / "digits" / "1"
    copy.mkdir(parents=True)
    shutil.copy(digits, copy / "model.onnx")


def file(folder: Path, name: str) -> Path:
    """The ONNX file of a model in the repository."""
    return folder / name / "1" / "model.onnx"


def _small() -> onnx.GraphProto:
    weights = numpy_helper.from_array(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    inputs = [_tensor("x", TensorProto.FLOAT, ["n", 4])]
    outputs = [
        _tensor("label", TensorProto.INT64, ["n"]),
        _tensor("probabilities", TensorProto.FLOAT, ["n", 3]),
    ]
    return helper.make_graph(nodes, "small", inputs, outputs, initializer=[weights])


def _image() -> onnx.GraphProto:
    node = helper.make_node(
        "AveragePool", ["image"], ["means"], kernel_shape=[16, 16], strides=[16, 16]
    )
    inputs = [_tensor("image", TensorProto.FLOAT, ["n", 3, 224, 224])]
    outputs = [_tensor("means", TensorProto.FLOAT, ["n", 3, 14, 14])]
    return helper.make_graph([node], "image", inputs, outputs)


def _tensor(name: str, kind: int, dims: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def _write(folder: Path, graph: onnx.GraphProto) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    (folder / "1").mkdir(parents=True)
    onnx.save(model, folder / "1" / "model.onnx")
