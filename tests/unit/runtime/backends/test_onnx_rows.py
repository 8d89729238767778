"""The static analysis of ONNX graphs, and the property that proves it correct."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto

from moorage_runtime.backends.onnx.graph import file as onnx_file
from moorage_runtime.backends.onnx.graph.rows import Analysis, analyze
from support.onnx_zoo import KEEPING, MIXING, RANDOM, UNPROVEN, ZOO, Specimen, close, node, rows


def analysis(specimen: Specimen, folder) -> Analysis:
    specimen.write(folder / "model.onnx")
    return analyze(onnx_file.read(folder / "model.onnx"))


def named(specimens):
    return [pytest.param(each, id=each.name) for each in specimens]


@pytest.mark.parametrize("specimen", named(MIXING))
def test_a_graph_that_mixes_rows_is_not_proven(specimen, tmp_path):
    assert analysis(specimen, tmp_path).obstacle


@pytest.mark.parametrize("specimen", named(s for s in KEEPING if s.name not in UNPROVEN))
def test_a_graph_that_keeps_rows_apart_is_proven(specimen, tmp_path):
    assert analysis(specimen, tmp_path).obstacle == ""


@pytest.mark.parametrize("specimen", named(s for s in ZOO if s.name not in RANDOM))
def test_the_proofs_for_the_zoo_agree_with_its_measured_behaviour(specimen, tmp_path):
    """Merged and single runs agree exactly for graphs that are proven to keep rows apart."""
    specimen.write(tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    agrees = True
    for seed in range(30):
        parts = [rows(specimen, 1 + (seed + place) % 2, 100 * seed + place) for place in range(4)]
        try:
            singles = [session.run(["y"], part)[0] for part in parts]
            merged = session.run(
                ["y"], {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
            )[0]
        except Exception:  # noqa: BLE001 - a graph with a fixed batch refuses other sizes
            agrees = False
            break
        sizes = np.cumsum([len(part["x"]) for part in parts])[:-1]
        if len(merged) != sum(len(part["x"]) for part in parts):
            agrees = False
            break
        agrees &= all(map(close, np.split(merged, sizes), singles))

    assert agrees is specimen.keeps_rows


def test_the_obstacle_names_the_node_and_the_reason(tmp_path):
    graph = [node("Softmax", ["x"], ["y"], name="attention/scores", axis=0)]

    found = analysis(Specimen("s", graph, keeps_rows=False), tmp_path)

    assert found.obstacle == (
        "node 'attention/scores' (Softmax): it works along the batch dimension"
    )
    assert found.inline_rows == 0


def test_nodes_that_no_output_needs_are_ignored(tmp_path):
    graph = [node("Identity", ["x"], ["y"]), node("NonZero", ["x"], ["unused"])]

    assert analysis(Specimen("s", graph, keeps_rows=True), tmp_path).obstacle == ""


def test_an_operator_of_another_domain_is_not_proven(tmp_path):
    graph = [node("Identity", ["x"], ["y"], domain="com.example")]

    assert (
        "com.example.Identity"
        in analysis(Specimen("s", graph, keeps_rows=True), tmp_path).obstacle
    )


@pytest.mark.parametrize("name", ["loop keeps", "loop mixes", "branch", "scan"])
def test_a_graph_with_control_flow_never_runs_in_the_event_loop(name, tmp_path):
    (specimen,) = [each for each in ZOO if each.name == name]

    assert analysis(specimen, tmp_path).inline_rows == 0


def test_control_flow_is_the_obstacle(tmp_path):
    (specimen,) = [each for each in ZOO if each.name == "loop keeps"]

    assert analysis(specimen, tmp_path).obstacle == "operator Loop: control flow is not analyzed"


def matrix_of_ones(*shape):
    return np.ones(shape, np.float32)


def product(operator, **attributes):
    """5 elements of x, 4 of y, and 4 times 5 multiplications: the longest side counts."""
    nodes = [node(operator, ["x", "w"], ["y"], **attributes)]
    seconds = (5 + 4) * 5e-9 + 4 * 5 * 0.5e-9
    return nodes, {"w": matrix_of_ones(5, 4)}, (5,), 148e-6 / seconds


# A run may last 150 us; a node costs 2 us, an element 5 ns, and a product 0.5 ns.
BOUNDS = {
    # 148 us for 3 elements of x and 3 of y
    "copy": ([node("Identity", ["x"], ["y"])], {}, (3,), 148e-6 / 30e-9),
    # two nodes, each with 3 elements of one input and 3 of the result
    "two copies": (
        [node("Identity", ["x"], ["h"]), node("Identity", ["h"], ["y"])],
        {},
        (3,),
        146e-6 / 60e-9,
    ),
    # the sum of the constants happens once, whatever the number of rows: 3 elements
    "constants": (
        [node("Add", ["c", "c"], ["d"]), node("Add", ["x", "d"], ["y"])],
        {"c": matrix_of_ones(3)},
        (3,),
        (146e-6 - 15e-9) / 30e-9,
    ),
    "matmul": product("MatMul"),
    "gemm": product("Gemm"),
    "einsum": product("Einsum", equation="ni,ij->nj"),
    # 2 x 4 x 4 elements of x, 5 x 3 x 3 of y, each from 2 x 2 x 2 weights and one more
    "convolution": (
        [node("Conv", ["x", "w"], ["y"])],
        {"w": matrix_of_ones(5, 2, 2, 2)},
        (2, 4, 4),
        148e-6 / ((32 + 45) * 5e-9 + 45 * 9 * 0.5e-9),
    ),
    "smallest product": (
        [node("MatMul", ["x", "w"], ["y"])],
        {"w": matrix_of_ones(1, 1)},
        (1,),
        148e-6 / (2 * 5e-9 + 0.5e-9),
    ),
    # three nodes with two elements each, and one multiplication
    "product of integers": (
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("MatMulInteger", ["q", "w", "z", "z"], ["i"]),
            node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
        ],
        {"w": np.uint8([[1]]), "s": np.float32(1), "z": np.uint8(0)},
        (1,),
        144e-6 / (6 * 5e-9 + 0.5e-9),
    ),
    "quantized product": (
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "s", "z"], ["i"]),
            node("DequantizeLinear", ["i", "s", "z"], ["y"]),
        ],
        {"w": np.uint8([[1]]), "s": np.float32(1), "z": np.uint8(0)},
        (1,),
        144e-6 / (6 * 5e-9 + 0.5e-9),
    ),
    # the size of a constant that is computed is unknown
    "unknown constant": (
        [node("Unique", ["c"], ["u"]), node("Dropout", ["x", "u"], ["y"])],
        {"c": np.float32([1])},
        (3,),
        0,
    ),
    # nothing is copied, but even an empty row has a cost
    "empty rows": ([node("Identity", ["x"], ["y"])], {}, (0,), 148e-6 / 5e-9),
    # 2 x 3 coefficients, each ten times for each row
    "classical": (
        [
            node(
                "LinearRegressor",
                ["x"],
                ["y"],
                domain="ai.onnx.ml",
                coefficients=[1.0] * 6,
                targets=2,
            )
        ],
        {},
        (3,),
        148e-6 / (5 * 5e-9 + 60 * 0.5e-9),
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_bound_is_the_number_of_rows_that_cost_the_time(name, tmp_path):
    nodes, constants, shape, rows_within = BOUNDS[name]
    specimen = Specimen(name, nodes, keeps_rows=True, shape=shape, constants=constants)

    assert analysis(specimen, tmp_path) == Analysis("", int(rows_within))


def graph(nodes, inputs, outputs, opsets=None):
    return onnx_file.Graph(tuple(nodes), inputs, outputs, {}, opsets or {"": 18})


COPY = onnx_file.Node("Identity", "", "", ("x",), ("y",), {})
OBSTACLES = {
    "an old operator set": (
        graph([COPY], {"x": (-1, 3)}, ("y",), {"": 6}),
        "the graph uses operator set 6: must be 7 or newer",
    ),
    "the oldest operator set": (graph([COPY], {"x": (-1, 3)}, ("y",), {"": 7}), ""),
    "only another operator set": (
        graph(
            [onnx_file.Node("Binarizer", "ai.onnx.ml", "", ("x",), ("y",), {})],
            {"x": (-1, 3)},
            ("y",),
            {"ai.onnx.ml": 3},
        ),
        "",
    ),
    "an old operator without an operator set": (
        graph(
            [onnx_file.Node("Softmax", "", "", ("x",), ("y",), {"axis": 0})],
            {"x": (-1, 3)},
            ("y",),
            {"ai.onnx.ml": 3},
        ),
        "operator Softmax: it works along the batch dimension",
    ),
    "an input without dimensions": (
        graph([COPY], {"x": ()}, ("y",)),
        "input 'x' has no batch dimension",
    ),
    "an input without a shape": (
        graph([COPY], {"x": None}, ("y",)),
        "input 'x' has no batch dimension",
    ),
    "an output that nothing computes": (
        graph([COPY], {"x": (-1, 3)}, ("z",)),
        "output 'z' has no batch dimension in front",
    ),
    "no outputs": (graph([COPY], {"x": (-1, 3)}, ()), "the graph has no inputs or no outputs"),
    "a tensor without a known type": (
        graph([onnx_file.Node("Add", "", "", ("x", "u"), ("y",), {})], {"x": (-1, 3)}, ("y",)),
        "operator Add: its input 'u' has a type that is not analyzed",
    ),
    "a named node of another domain": (
        graph(
            [onnx_file.Node("Fold", "com.example", "f", ("x",), ("y",), {})],
            {"x": (-1, 3)},
            ("y",),
        ),
        "node 'f' (com.example.Fold): it is not known to keep the rows of a batch apart",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_the_obstacle_of_a_graph(name):
    given, obstacle = OBSTACLES[name]

    assert analyze(given).obstacle == obstacle


def test_an_output_that_is_not_offered_is_no_obstacle():
    mixing = onnx_file.Node("NonZero", "", "", ("x",), ("places",), {})
    given = graph([COPY, mixing], {"x": (-1, 3)}, ("y", "places"))

    assert analyze(given).obstacle.startswith("operator NonZero: ")
    assert analyze(given, frozenset({"y"})).obstacle == ""


def test_the_bound_falls_with_the_size_of_the_weights(tmp_path):
    small, medium, large = (
        analysis(
            Specimen(
                "linear",
                [node("MatMul", ["x", "w"], ["y"])],
                keeps_rows=True,
                shape=(size,),
                constants={"w": np.ones((size, size), np.float32)},
            ),
            tmp_path,
        ).inline_rows
        for size in (4, 64, 1024)
    )

    assert small > medium > 0
    assert large == 0


def recurrent(operator, gates, hidden, steps):
    sizes = {"w": (1, gates * hidden, 8), "r": (1, gates * hidden, hidden)}
    weights = {name: onnx_file.TensorData(name, dims) for name, dims in sizes.items()}
    nodes = [
        onnx_file.Node("Transpose", "", "", ("x",), ("t",), {"perm": (1, 0, 2)}),
        onnx_file.Node(operator, "", "", ("t", "w", "r"), ("", "last"), {"hidden_size": hidden}),
        onnx_file.Node("Squeeze", "", "", ("last", "axis"), ("y",), {}),
    ]
    constants = {**weights, "axis": onnx_file.TensorData("axis", (1,), (0,))}
    return onnx_file.Graph(tuple(nodes), {"x": (-1, steps, 8)}, ("y",), constants, {"": 18})


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_each_step_of_a_recurrent_network_counts_its_weights(operator, gates):
    few, many = (analyze(recurrent(operator, gates, 64, steps)).inline_rows for steps in (1, 8))

    assert few > many > 0
    assert analyze(recurrent(operator, gates, 1024, 1)) == Analysis("", 0)


def test_a_recurrent_network_of_unknown_length_has_no_bound():
    assert analyze(recurrent("LSTM", 4, 4, -1)) == Analysis("", 0)


def test_a_row_of_unknown_length_has_no_bound(tmp_path):
    found = analyze(
        onnx_file.Graph(
            (onnx_file.Node("Identity", "", "", ("x",), ("y",), {}),),
            {"x": (-1, -1)},
            ("y",),
            {},
            {"": 18},
        )
    )

    assert found == Analysis("", 0)


def test_an_omitted_attribute_value_is_zero(tmp_path):
    """The newer protobuf syntax omits fields that are zero."""
    specimen = Specimen("s", [node("Softmax", ["x"], ["y"], axis=0)], keeps_rows=False)
    model = specimen.nodes[0]
    model.attribute[0].ClearField("i")

    assert "batch dimension" in analysis(specimen, tmp_path).obstacle
