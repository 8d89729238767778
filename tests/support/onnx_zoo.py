"""Small ONNX graphs with operators that may mix the rows of a batch, and related ones.

Each graph takes x, [n, 2, 3] FP32 unless it says otherwise. ``keeps_rows`` is the ground truth
about the graph, not the server's result: the proof may be missing for a graph that keeps rows
separate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Feeds = dict[str, np.ndarray]
node = helper.make_node
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@dataclass(frozen=True)
class Specimen:
    """One graph.

    Attributes:
        name: Its purpose.
        nodes: Its operators; they read x (and z) and write y.
        keeps_rows: Whether row i of y only depends on row i of the inputs.
        shape: Dimensions of an input after the batch.
        constants: Initializers by name.
        inputs: Names of the inputs, all of one shape.
        out: Datatype of y.
        opset: Version of the operator set.
    """

    name: str
    nodes: Sequence[NodeProto]
    keeps_rows: bool
    shape: tuple[int, ...] = (2, 3)
    constants: dict[str, np.ndarray] | None = None
    inputs: str = "x"
    out: int = FLOAT
    opset: int = 18

    def write(self, path: Path) -> None:
        """Write the model file."""
        dims = ["n", *self.shape]
        graph = helper.make_graph(
            list(self.nodes),
            "zoo",
            [helper.make_tensor_value_info(name, FLOAT, dims) for name in self.inputs],
            [_output(self)],
            [numpy_helper.from_array(a, name) for name, a in (self.constants or {}).items()],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 3)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 9
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path)


# Ranks of y where they differ from those of x.
_RANKS = {
    "reduce axes 1 2": 1, "reshape keeps": 2, "reshape by shape": 2, "reshape minus one": 2,
    "argmax 1": 2, "flatten": 2, "gather scalar": 2, "matmul vector": 2, "squeeze": 2,
    "unsqueeze": 4, "one hot": 4, "linear": 2, "attention": 3, "shape chain": 2, "scatter nd": 3,
    "conv": 4, "max pool": 4, "global pool": 4, "batch norm": 4, "batch norm training": 4,
    "instance norm": 4, "resize": 4, "resize batch": 4, "depth to space": 4, "average pool": 4,
    "qkv": 3, "embedding": 2, "tree": 2, "scaler": 2, "normalizer": 2, "reduce batch": 2,
    "reduce all": 0, "einsum rows": 2, "gemm": 2, "reshape mixes": 2, "nonzero": 2, "unique": 1,
    "compress": 1, "matmul rows": 2, "gram": 2, "softmax rank one": 1, "size": 2, "group mean": 2,
    "argmax batch": 2, "flatten batch": 2, "einsum sum": 2, "spread by index": 2,
}  # fmt: skip


def _output(specimen: Specimen) -> onnx.ValueInfoProto:
    rank = _RANKS.get(specimen.name, 1 + len(specimen.shape))
    dims = ["n", *[f"d{place}" for place in range(1, rank)]] if rank else []
    return helper.make_tensor_value_info("y", specimen.out, dims)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _loop(body_uses_rows: str) -> list[NodeProto]:
    """A loop that adds something of the batch to every row."""
    body = helper.make_graph(
        [
            node("ReduceMax", ["before", "axes"], ["part"], keepdims=1)
            if body_uses_rows == "mixes"
            else node("Identity", ["before"], ["part"]),
            node("Add", ["before", "part"], ["after"]),
            node("Identity", ["condition"], ["goes_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", INT64, []),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", FLOAT, None),
        ],
    )
    return [node("Loop", ["times", "", "x"], ["y"], body=body)]


def _branch() -> list[NodeProto]:
    graphs = [
        helper.make_graph(
            [node(operator, ["x"], [f"{operator}_y"])],
            operator,
            [],
            [helper.make_tensor_value_info(f"{operator}_y", FLOAT, None)],
        )
        for operator in ("Neg", "Abs")
    ]
    return [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["positive"]),
        node("If", ["positive"], ["y"], then_branch=graphs[0], else_branch=graphs[1]),
    ]


def _scan() -> list[NodeProto]:
    body = helper.make_graph(
        [node("Add", ["state", "row"], ["next"]), node("Identity", ["next"], ["sum"])],
        "scan",
        [helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in ("state", "row")],
        [helper.make_tensor_value_info(name, FLOAT, [2, 3]) for name in ("next", "sum")],
    )
    return [node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)]


AXIS_0, AXIS_1 = {"axes": whole(0)}, {"axes": whole(1)}
PAIR = {"first": whole(0), "one": whole(1)}
IMAGE = (4, 6, 6)
INDEX = [
    node("Clip", ["x", "zero", "top"], ["small"]),
    node("Cast", ["small"], ["index"], to=INT64),
]
LIMITS = {"zero": np.float32(0), "top": np.float32(1)}
CHANNELS = {name: np.abs(weights(4)) + 1 for name in ("scale", "bias", "mean", "variance")}
QUANTIZED = {"scale": np.float32(0.05), "zero": np.uint8(7)}
RECURRENT = {"w": weights(1, 16, 3), "r": weights(1, 16, 4)}


def _quantized_dense(name: str, quantize: list[NodeProto], *, keeps_rows: bool) -> Specimen:
    """A dense layer in 8 bits, as quantization tools write it."""
    return Specimen(
        name,
        [
            *quantize,
            node("MatMulInteger", ["q", "w", "z"], ["products"]),
            node("Cast", ["products"], ["floats"], to=FLOAT),
            node("Mul", ["floats", "s"], ["y"]),
        ],
        keeps_rows,
        constants={
            "w": np.random.default_rng(3).integers(0, 255, (3, 4)).astype(np.uint8),
            **QUANTIZED,
        },
    )


MIXING = [
    _quantized_dense(
        "dynamic quantization",
        [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])],
        keeps_rows=False,
    ),
    Specimen("softmax 0", [node("Softmax", ["x"], ["y"], axis=0)], keeps_rows=False),
    Specimen("softmax -3", [node("Softmax", ["x"], ["y"], axis=-3)], keeps_rows=False),
    Specimen(
        "softmax rank one", [node("Softmax", ["x"], ["y"], axis=-1)], keeps_rows=False, shape=()
    ),
    Specimen("softmax old", [node("Softmax", ["x"], ["y"], axis=0)], keeps_rows=False, opset=11),
    Specimen("log softmax 0", [node("LogSoftmax", ["x"], ["y"], axis=0)], keeps_rows=False),
    Specimen("hardmax 0", [node("Hardmax", ["x"], ["y"], axis=0)], keeps_rows=False),
    Specimen(
        "mean of the batch",
        [node("ReduceMean", ["x", "axes"], ["m"]), node("Sub", ["x", "m"], ["y"])],
        keeps_rows=False,
        constants=AXIS_0,
    ),
    Specimen(
        "max of the batch by a negative axis",
        [node("ReduceMax", ["x", "axes"], ["m"]), node("Sub", ["x", "m"], ["y"])],
        keeps_rows=False,
        constants={"axes": whole(-3)},
    ),
    Specimen(
        "sum of everything",
        [node("ReduceSum", ["x"], ["m"], keepdims=0), node("Div", ["x", "m"], ["y"])],
        keeps_rows=False,
    ),
    Specimen(
        "batch norm training",
        [
            node(
                "BatchNormalization",
                ["x", "scale", "bias", "mean", "variance"],
                ["y", "m", "v"],
                training_mode=1,
            )
        ],
        keeps_rows=False,
        shape=IMAGE,
        constants=CHANNELS,
    ),
    Specimen(
        "mean variance",
        [node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2])],
        keeps_rows=False,
    ),
    Specimen(
        "cumulative sum",
        [node("CumSum", ["x", "axis"], ["y"])],
        keeps_rows=False,
        constants={"axis": np.int64(0)},
    ),
    Specimen(
        "cumulative sum -3",
        [node("CumSum", ["x", "axis"], ["y"])],
        keeps_rows=False,
        constants={"axis": np.int64(-3)},
    ),
    Specimen(
        "matmul rows",
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0]),
            node("MatMul", ["x", "t"], ["g"]),
            node("MatMul", ["g", "x"], ["y"]),
        ],
        keeps_rows=False,
        shape=(3,),
    ),
    Specimen(
        "einsum rows",
        [node("Einsum", ["x", "x", "x"], ["y"], equation="ij,kj,kl->il")],
        keeps_rows=False,
        shape=(3,),
    ),
    Specimen(
        "row before",
        [
            node("Slice", ["x", "start", "end", "zero_axis"], ["head"]),
            node("Concat", ["first_row", "head"], ["shifted"], axis=0),
            node("Sub", ["x", "shifted"], ["y"]),
        ],
        keeps_rows=False,
        constants={
            "start": whole(0),
            "end": whole(-1),
            "zero_axis": whole(0),
            "first_row": np.zeros((1, 2, 3), np.float32),
        },
    ),
    Specimen(
        "first row for all",
        [node("Gather", ["x", "first"], ["head"], axis=0), node("Sub", ["x", "head"], ["y"])],
        keeps_rows=False,
        constants={"first": whole(0)},
    ),
    Specimen(
        "rows backwards",
        [
            node("Slice", ["x", "last", "far", "zero_axis", "minus"], ["turned"]),
            node("Sub", ["x", "turned"], ["y"]),
        ],
        keeps_rows=False,
        constants={
            "last": whole(-1),
            "far": whole(-(2**31)),
            "zero_axis": whole(0),
            "minus": whole(-1),
        },
    ),
    Specimen(
        "scatter nd",
        [node("ScatterND", ["x", "at", "row"], ["y"])],
        keeps_rows=False,
        constants={"at": whole(0).reshape(1, 1), "row": np.full((1, 2, 3), 9, np.float32)},
    ),
    Specimen(
        "scatter 0",
        [
            *INDEX,
            node("Mul", ["index", "zero_index"], ["top_index"]),
            node("ScatterElements", ["x", "top_index", "x"], ["y"], axis=0, reduction="add"),
        ],
        keeps_rows=False,
        constants={**LIMITS, "zero_index": whole(0)},
    ),
    Specimen(
        "top of the batch",
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "first"], ["k"], axis=0),
            node("TopK", ["x", "k"], ["y", "places"], axis=0),
        ],
        keeps_rows=False,
        constants={"first": whole(0)},
    ),
    Specimen(
        "argmax batch",
        [
            node("ArgMax", ["x"], ["best"], axis=0, keepdims=1),
            node("Cast", ["best"], ["b"], to=FLOAT),
            node("Add", ["x", "b"], ["y"]),
        ],
        keeps_rows=False,
        shape=(3,),
    ),
    Specimen(
        "size",
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "first"], ["b"], axis=0),
            node("Cast", ["b"], ["rows"], to=FLOAT),
            node("Div", ["x", "rows"], ["y"]),
        ],
        keeps_rows=False,
        shape=(3,),
        constants={"first": whole(0)},
    ),
    Specimen(
        "number of elements",
        [
            node("Size", ["x"], ["s"]),
            node("Cast", ["s"], ["count"], to=FLOAT),
            node("Div", ["x", "count"], ["y"]),
        ],
        keeps_rows=False,
    ),
    Specimen(
        "reshape mixes",
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0]),
            node("Reshape", ["t", "wide"], ["y"]),
        ],
        keeps_rows=False,
        shape=(3,),
        constants={"wide": whole(-1, 3)},
    ),
    Specimen(
        "group mean",
        [
            node("Reshape", ["x", "one_group"], ["g"]),
            node("ReduceMean", ["g", "axes"], ["m"]),
            node("Reshape", ["m", "flat"], ["row"]),
            node("Sub", ["x", "row"], ["y"]),
        ],
        keeps_rows=False,
        shape=(3,),
        constants={"one_group": whole(1, -1, 3), "axes": whole(1), "flat": whole(1, 3)},
    ),
    Specimen(
        "lstm over the rows",
        [
            node("LSTM", ["x", "w", "r"], ["all"], hidden_size=4),
            node("Squeeze", ["all", "one"], ["y"]),
        ],
        keeps_rows=False,
        constants={**RECURRENT, "one": whole(1)},
    ),
    Specimen(
        "gru over the rows",
        [
            node("GRU", ["x", "w", "r"], ["all"], hidden_size=4),
            node("Squeeze", ["all", "one"], ["y"]),
        ],
        keeps_rows=False,
        constants={"w": weights(1, 12, 3), "r": weights(1, 12, 4), "one": whole(1)},
    ),
    Specimen(
        "random",
        [node("RandomUniformLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])],
        keeps_rows=False,
    ),
    Specimen(
        "loop mixes",
        _loop("mixes"),
        keeps_rows=False,
        constants={"times": np.int64(2), **AXIS_0},
    ),
    Specimen("branch", _branch(), keeps_rows=False, constants={"zero": np.float32(0)}),
    Specimen("scan", _scan(), keeps_rows=False, constants={"start": np.zeros((2, 3), np.float32)}),
    Specimen(
        "nonzero",
        [
            node("NonZero", ["x"], ["places"]),
            node("ReduceSum", ["places"], ["s"], keepdims=0),
            node("Cast", ["s"], ["sum"], to=FLOAT),
            node("Add", ["x", "sum"], ["y"]),
        ],
        keeps_rows=False,
        shape=(3,),
    ),
    Specimen(
        "unique",
        [
            node("Unique", ["x"], ["u"]),
            node("ReduceMax", ["u"], ["top"], keepdims=0),
            node("Sub", ["x", "top"], ["y"]),
        ],
        keeps_rows=False,
        shape=(),
    ),
    Specimen(
        "constant with rows",
        [node("Add", ["x", "rows"], ["y"])],
        keeps_rows=False,
        constants={"rows": weights(4, 2, 3)},
    ),
    Specimen(
        "batch meets features",
        [node("ReduceMax", ["x", "axes"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])],
        keeps_rows=False,
        shape=(1,),
        constants=AXIS_1,
    ),
    Specimen(
        "spread by index",
        [
            *INDEX,
            node("ReduceMax", ["index", "axes"], ["i"], keepdims=0),
            node("Gather", ["x", "i"], ["y"], axis=0),
        ],
        keeps_rows=False,
        shape=(3,),
        constants={**LIMITS, "top": np.float32(0), **AXIS_1},
    ),
    Specimen("lp norm 0", [node("LpNormalization", ["x"], ["y"], axis=0)], keeps_rows=False),
    Specimen(
        "layer norm 0",
        [node("LayerNormalization", ["x", "scale"], ["y"], axis=0)],
        keeps_rows=False,
        constants={"scale": np.float32([1])},
    ),
]

KEEPING = [
    _quantized_dense(
        "static quantization",
        [
            node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            node("Identity", ["scale"], ["s"]),
            node("Identity", ["zero"], ["z"]),
        ],
        keeps_rows=True,
    ),
    Specimen("identity", [node("Identity", ["x"], ["y"])], keeps_rows=True),
    Specimen("softmax 1", [node("Softmax", ["x"], ["y"], axis=1)], keeps_rows=True),
    Specimen("softmax -1", [node("Softmax", ["x"], ["y"], axis=-1)], keeps_rows=True),
    Specimen("softmax old 1", [node("Softmax", ["x"], ["y"], axis=1)], keeps_rows=True, opset=11),
    Specimen(
        "reduce axes 1 2",
        [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        keeps_rows=True,
        constants={"axes": whole(1, -1)},
    ),
    Specimen(
        "argmax 1", [node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)], keeps_rows=True, out=INT64
    ),
    Specimen(
        "cumulative sum 1",
        [node("CumSum", ["x", "axis"], ["y"])],
        keeps_rows=True,
        constants={"axis": np.int64(1)},
    ),
    Specimen(
        "linear",
        [node("Gemm", ["x", "w", "b"], ["h"], transB=1), node("Relu", ["h"], ["y"])],
        keeps_rows=True,
        shape=(3,),
        constants={"w": weights(4, 3), "b": weights(4)},
    ),
    Specimen(
        "reshape keeps",
        [node("Reshape", ["x", "s"], ["y"])],
        keeps_rows=True,
        constants={"s": whole(0, -1)},
    ),
    Specimen(
        "reshape minus one",
        [node("Reshape", ["x", "s"], ["y"])],
        keeps_rows=True,
        constants={"s": whole(-1, 6)},
    ),
    Specimen(
        "shape chain",
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "first"], ["b"], axis=0),
            node("Concat", ["b", "rest"], ["wanted"], axis=0),
            node("Reshape", ["x", "wanted"], ["y"]),
        ],
        keeps_rows=True,
        constants={"first": whole(0), "rest": whole(6)},
    ),
    Specimen("flatten", [node("Flatten", ["x"], ["y"])], keeps_rows=True),
    Specimen(
        "gather scalar",
        [node("Gather", ["x", "place"], ["y"], axis=1)],
        keeps_rows=True,
        constants={"place": np.int64(1)},
    ),
    Specimen(
        "transpose behind", [node("Transpose", ["x"], ["y"], perm=[0, 2, 1])], keeps_rows=True
    ),
    Specimen(
        "top of a row",
        [node("TopK", ["x", "k"], ["y", "places"], axis=-1)],
        keeps_rows=True,
        constants={"k": whole(2)},
    ),
    Specimen(
        "concat and split",
        [
            node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
            node("Concat", ["b", "a"], ["y"], axis=1),
        ],
        keeps_rows=True,
    ),
    Specimen(
        "attention",
        [
            node("MatMul", ["x", "wq"], ["q"]),
            node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
            node("MatMul", ["q", "k"], ["scores"]),
            node("Softmax", ["scores"], ["weights"], axis=-1),
            node("MatMul", ["weights", "x"], ["y"]),
        ],
        keeps_rows=True,
        constants={"wq": weights(3, 3)},
    ),
    Specimen(
        "qkv",
        [
            node("Reshape", ["x", "heads"], ["h"]),
            node("Transpose", ["h"], ["t"], perm=[2, 0, 1, 3]),
            node("Gather", ["t", "place"], ["y"], axis=0),
        ],
        keeps_rows=True,
        shape=(2, 6),
        constants={"heads": whole(0, 2, 3, 2), "place": np.int64(1)},
    ),
    Specimen(
        "embedding",
        [
            *INDEX,
            node("ReduceMax", ["index", "axes"], ["i"], keepdims=0),
            node("Gather", ["table", "i"], ["y"], axis=0),
        ],
        keeps_rows=True,
        constants={**LIMITS, **AXIS_1, "table": weights(2)},
    ),
    Specimen(
        "layer norm",
        [node("LayerNormalization", ["x", "scale", "bias"], ["y"], axis=-1)],
        keeps_rows=True,
        constants={"scale": weights(3), "bias": weights(3)},
    ),
    Specimen(
        "conv",
        [node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])],
        keeps_rows=True,
        shape=IMAGE,
        constants={"w": weights(5, 4, 3, 3), "b": weights(5)},
    ),
    Specimen(
        "max pool",
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
        keeps_rows=True,
        shape=IMAGE,
    ),
    Specimen(
        "global pool", [node("GlobalAveragePool", ["x"], ["y"])], keeps_rows=True, shape=IMAGE
    ),
    Specimen(
        "batch norm",
        [node("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["y"])],
        keeps_rows=True,
        shape=IMAGE,
        constants=CHANNELS,
    ),
    Specimen(
        "instance norm",
        [node("InstanceNormalization", ["x", "scale", "bias"], ["y"])],
        keeps_rows=True,
        shape=IMAGE,
        constants=CHANNELS,
    ),
    Specimen(
        "resize",
        [node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
        keeps_rows=True,
        shape=IMAGE,
        constants={"scales": np.float32([1, 1, 2, 2])},
    ),
    Specimen(
        "depth to space",
        [node("DepthToSpace", ["x"], ["y"], blocksize=2)],
        keeps_rows=True,
        shape=IMAGE,
    ),
    Specimen(
        "einsum within rows",
        [node("Einsum", ["x", "x"], ["y"], equation="nij,nkj->nik")],
        keeps_rows=True,
    ),
    Specimen(
        "gather within rows",
        [*INDEX, node("GatherElements", ["x", "index"], ["y"], axis=2)],
        keeps_rows=True,
        constants=LIMITS,
    ),
    Specimen(
        "scatter within rows",
        [
            *INDEX,
            node("ScatterElements", ["x", "index", "x"], ["y"], axis=1, reduction="add"),
        ],
        keeps_rows=True,
        constants=LIMITS,
    ),
    Specimen("two inputs", [node("Mul", ["x", "z"], ["y"])], keeps_rows=True, inputs="xz"),
    Specimen(
        "lstm over the features",
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
            node("LSTM", ["t", "w", "r"], ["all"], hidden_size=4),
            node("Squeeze", ["all", "one"], ["s"]),
            node("Transpose", ["s"], ["y"], perm=[1, 0, 2]),
        ],
        keeps_rows=True,
        constants={**RECURRENT, "one": whole(1)},
    ),
    Specimen(
        "pad and tile",
        [
            node("Pad", ["x", "pads"], ["p"]),
            node("Tile", ["p", "repeats"], ["y"]),
        ],
        keeps_rows=True,
        constants={"pads": whole(0, 0, 1, 0, 0, 1), "repeats": whole(1, 2, 1)},
    ),
    Specimen(
        "normalizer",
        [node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L2")],
        keeps_rows=True,
        shape=(3,),
    ),
    Specimen(
        "scaler",
        [
            node(
                "Scaler",
                ["x"],
                ["y"],
                domain="ai.onnx.ml",
                offset=[1.0, 2.0, 3.0],
                scale=[0.5, 2.0, 1.0],
            )
        ],
        keeps_rows=True,
        shape=(3,),
    ),
    # keeps its rows apart, but a loop is not analyzed
    Specimen("loop keeps", _loop("keeps"), keeps_rows=True, constants={"times": np.int64(2)}),
]
ZOO = [*MIXING, *KEEPING]
UNPROVEN = {"loop keeps"}
# Noise, and statistics that ONNX Runtime updates with every run: no two answers can be compared.
RANDOM = {"random", "batch norm training"}


def rows(specimen: Specimen, count: int, seed: int) -> Feeds:
    """Random rows: signed, some of them tiny, some huge, some all alike."""
    random = np.random.default_rng(seed)
    scales = random.choice([1e-3, 1.0, 1.0, 300.0], (count, *[1] * len(specimen.shape)))
    return {
        name: (random.standard_normal((count, *specimen.shape)) * scales).astype(np.float32)
        for name in specimen.inputs
    }


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    """Equal but for the rounding of sums, whose order depends on the size of the batch."""
    if found.shape != expected.shape:
        return False
    if expected.dtype.kind != "f":
        return bool(np.array_equal(found, expected))
    largest = float(np.abs(expected).max()) if expected.size else 0.0
    return bool(np.allclose(found, expected, rtol=0, atol=1e-5 * largest, equal_nan=True))
