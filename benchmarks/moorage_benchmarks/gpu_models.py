"""Two models that are worth a GPU, and how the server shall run them.

=============  ====================================  ==================================
dense          1,024 FP32                            6 products with 1,024x1,024 weights
convolutions   3x112x112 FP32                        16 convolutions with 64 channels
=============  ====================================  ==================================
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

_OPSET = 18
_IR_VERSION = 9
_WIDTH, _LAYERS = 1024, 6
_CHANNELS, _CONVOLUTIONS = 64, 16

SHAPES: Final = {"dense": (_WIDTH,), "convolutions": (3, 112, 112)}
# A served model -> its graph and its model.yaml.
SERVED: Final[Mapping[str, tuple[str, str]]] = {
    "dense": ("dense", ""),
    "dense, not merged": ("dense", "batching: {enabled: false}\n"),
    "convolutions": ("convolutions", ""),
    "convolutions, merged": ("convolutions", "batching: {enabled: true}\n"),
    "convolutions, tf32": ("convolutions", "onnx: {tf32: true}\n"),
}


def name_of(served: str) -> str:
    """The name under which the server has a model."""
    return served.replace(", ", "-").replace(" ", "-")


def write(folder: Path) -> None:
    """The repository with every served model."""
    graphs = {"dense": _dense(), "convolutions": _convolutions()}
    for served, (graph, config) in SERVED.items():
        place = folder / name_of(served)
        place.mkdir()
        onnx.save(graphs[graph], place / "model.onnx")
        if config:
            (place / "model.yaml").write_text(config)


def _dense() -> onnx.ModelProto:
    draw = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    nodes: list[NodeProto] = []
    last = "x"
    for layer in range(_LAYERS):
        scaled = draw.standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5
        weights[f"w{layer}"] = scaled.astype(np.float32)
        is_last = layer == _LAYERS - 1
        nodes.append(
            helper.make_node("MatMul", [last, f"w{layer}"], ["y" if is_last else f"m{layer}"])
        )
        if not is_last:
            nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
        last = f"r{layer}"
    return _model(nodes, weights, SHAPES["dense"], _WIDTH)


def _convolutions() -> onnx.ModelProto:
    draw = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    nodes: list[NodeProto] = []
    last, before = "x", 3
    for layer in range(_CONVOLUTIONS):
        scaled = draw.standard_normal((_CHANNELS, before, 3, 3)) / (9 * before / 2) ** 0.5
        weights[f"w{layer}"] = scaled.astype(np.float32)
        nodes += [
            helper.make_node("Conv", [last, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]),
        ]
        last, before = f"r{layer}", _CHANNELS
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["y"]),
    ]
    return _model(nodes, weights, SHAPES["convolutions"], _CHANNELS)


def _model(
    nodes: list[NodeProto],
    weights: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    outputs: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "benchmark",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", outputs])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    return model
