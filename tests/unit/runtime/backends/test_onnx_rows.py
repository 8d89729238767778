"""The static analysis of ONNX graphs, and the property that proves it correct."""

import msgspec
import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

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


@pytest.mark.parametrize("cut", [0, 1, 10, 40, -1])
def test_a_truncated_file_is_not_readable(cut, tmp_path):
    KEEPING[8].write(tmp_path / "model.onnx")
    whole = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[:cut])

    with pytest.raises(onnx_file.NotReadable, match=r"cut\.onnx cannot be read"):
        onnx_file.read(tmp_path / "cut.onnx")


def test_an_omitted_attribute_value_is_zero(tmp_path):
    """The newer protobuf syntax omits fields that are zero."""
    specimen = Specimen("s", [node("Softmax", ["x"], ["y"], axis=0)], keeps_rows=False)
    model = specimen.nodes[0]
    model.attribute[0].ClearField("i")

    assert "batch dimension" in analysis(specimen, tmp_path).obstacle


def test_weights_are_not_read(tmp_path):
    specimen = Specimen(
        "linear",
        [node("MatMul", ["x", "w"], ["y"])],
        keeps_rows=True,
        shape=(100,),
        constants={"w": np.ones((100, 100), np.float32)},
    )
    specimen.write(tmp_path / "model.onnx")

    tensor = onnx_file.read(tmp_path / "model.onnx").initializers["w"]

    assert tensor == onnx_file.TensorData("w", (100, 100))


def test_small_constants_are_read_in_every_form(tmp_path):
    tensors = [
        helper.make_tensor("a", TensorProto.INT64, [2], [-1, 6]),
        helper.make_tensor("b", TensorProto.INT64, [2], np.int64([-1, 6]).tobytes(), raw=True),
        helper.make_tensor("c", TensorProto.FLOAT, [2], [0.5, 2.0]),
        helper.make_tensor("d", TensorProto.INT32, [], [-7]),
        helper.make_tensor("e", TensorProto.DOUBLE, [1], [0.25]),
        helper.make_tensor("f", TensorProto.BOOL, [2], [True, False]),
    ]

    found = [onnx_file._tensor(memoryview(t.SerializeToString())) for t in tensors]

    assert [each.elements for each in found] == [
        (-1, 6),
        (-1, 6),
        (0.5, 2.0),
        (-7,),
        (0.25,),
        (1, 0),
    ]
    assert msgspec.structs.astuple(found[3])[:2] == ("d", ())
