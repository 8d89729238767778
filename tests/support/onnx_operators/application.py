"""One graph with an application of an operator, and what the analysis says of it.

Each graph takes x, [n, 2, 3] FP32 unless it says otherwise, and its last node writes y.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from support.onnx_zoo import FLOAT, whole

INT32, BOOL = TensorProto.INT32, TensorProto.BOOL
ML = "ai.onnx.ml"

ALONG_BATCH = "it works along the batch dimension"
NO_IMAGES = "its input is not a batch of images"
NO_ROWS = "its input is not a batch of rows"
FROM_ROWS = "one of its parameters is computed from the rows"
WITH_COUNT = "it computes with the number of rows"
ANOTHER_BATCH = "it combines tensors whose batch dimensions differ"
CONSTANT_ROWS = "it combines the rows with a constant that has several rows"
NOT_IN_FRONT = "output 'y' has no batch dimension in front"
SUMS_ROWS = "it sums over the rows of the batch"


@dataclass(frozen=True)
class Application:
    """One graph.

    Attributes:
        name: What is special about it.
        nodes: Its operators; the last one writes y.
        constants: Initializers by name.
        shape: Dimensions of x after the batch.
        opset: Version of ONNX's own operator set.
        refused: The reason of the refusal; "" for a proof.
        unknown: Results whose size the analysis does not compute, although ONNX determines it.
    """

    name: str
    nodes: tuple[NodeProto, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    shape: tuple[int, ...] = (2, 3)
    opset: int = 18
    refused: str = ""
    unknown: str = ""

    def model(self, *, shows_all: bool = False) -> ModelProto:
        """The model, whose outputs are y or, on demand, the results of all nodes."""
        results = [name for each in self.nodes for name in each.output if name]
        graph = helper.make_graph(
            list(self.nodes),
            "application",
            [helper.make_tensor_value_info("x", FLOAT, ["n", *self.shape])],
            [onnx.ValueInfoProto(name=name) for name in (results if shows_all else ["y"])],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid(ML, 3)]
        model = helper.make_model(graph, opset_imports=sets)
        model.ir_version = 9
        return model


def op(operator: str, inputs: str, output: str = "y", **attributes: object) -> NodeProto:
    """A node; "-" is an omitted input or output."""
    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, output)]
    return helper.make_node(operator, *names, **attributes)


def ml(operator: str, inputs: str, output: str = "y", **attributes: object) -> NodeProto:
    """A node of a classical model."""
    return op(operator, inputs, output, domain=ML, **attributes)


def application(name: str, *nodes: NodeProto, **rest: object) -> Application:
    settings = {
        key: rest.pop(key) for key in ("shape", "opset", "refused", "unknown") & rest.keys()
    }
    constants = {key: np.asarray(value) for key, value in rest.items()}
    return Application(name, nodes, constants, **settings)  # type: ignore[arg-type]


TURNED = op("Transpose", "x", "t", perm=[1, 0, 2])
"""x with its rows in the second dimension."""
COLUMNS = op("Transpose", "x", "t", perm=[1, 0])
"""x, [n, 3], as columns."""
LAST = op("Transpose", "x", "t", perm=[1, 2, 0])
"""x with its rows in the last dimension."""
PARTS = op("Split", "x", "p q", axis=2, num_outputs=2)
"""Parts of x, whose sizes the analysis does not compute."""
SHAPE = op("Shape", "x", "s")
COUNT = (SHAPE, op("Gather", "s first", "count", axis=0))
FIRST = {"first": whole(0)}
FLAT = {"shape": (3,)}
