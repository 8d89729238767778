from pathlib import Path

import pytest

from moorage_runtime.backends.openvino import saved_model
from moorage_runtime.backends.openvino._generated import saved_model_pb2 as pb
from moorage_runtime.backends.openvino.saved_model import GraphTensor
from moorage_runtime.backends.openvino.tensorflow_graph import Feature, TensorflowGraph, full_name
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import Signature
from moorage_runtime.values.tensors import Datatype

SAVED_MODELS = Path(__file__).resolve().parents[3] / "fixtures" / "saved_models"
FLOAT, STRING, COMPLEX = 1, 7, 8
PREDICT, CLASSIFY, REGRESS = (
    f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress")
)


def node(name: str, op: str, *inputs: str, **attributes) -> pb.Node:
    return pb.Node(name=name, op=op, input=inputs, attr=attributes)


def texts(name: str, *values: bytes) -> pb.Node:
    return node(name, "Const", value=pb.Attribute(tensor=pb.Tensor(string_val=values)))


def dims(*sizes: int) -> pb.Shape:
    return pb.Shape(dim=[pb.Shape.Dim(size=size) for size in sizes])


def info(name: str, dtype: int = FLOAT, *sizes: int) -> pb.TensorInfo:
    return pb.TensorInfo(name=name, dtype=dtype, tensor_shape=dims(*sizes))


def dense(*shapes: pb.Shape) -> dict[str, pb.Attribute]:
    lists = pb.Attribute.List
    return {
        "Tdense": pb.Attribute(list=lists(type=[FLOAT] * len(shapes))),
        "dense_shapes": pb.Attribute(list=lists(shape=shapes)),
    }


def exported(nodes: list[pb.Node], **signatures: tuple[str, dict, dict]) -> pb.MetaGraph:
    return pb.MetaGraph(
        meta_info_def=pb.MetaGraph.Info(tags=["serve"]),
        graph_def=pb.Graph(node=nodes),
        signature_def={
            name: pb.Signature(method_name=method, inputs=inputs, outputs=outputs)
            for name, (method, inputs, outputs) in signatures.items()
        },
    )


def first_version(*features: str, sparse: tuple[str, ...] = ()) -> list[pb.Node]:
    """Nodes that parse examples with the first version of the operator."""
    names = [f"key_{name}" for name in (*sparse, *features)]
    parser = node("parse", "ParseExample", "serialized", "names", *names, **dense(*[dims(1)] * 9))
    parser.attr["Nsparse"].i = len(sparse)
    parser.attr["Ndense"].i = len(features)
    keys = [texts(f"key_{name}", name.encode()) for name in (*sparse, *features)]
    return [node("serialized", "Placeholder"), parser, *keys]


def second_version(*features: str, sparse: tuple[str, ...] = ()) -> list[pb.Node]:
    """Nodes that parse examples with the second version of the operator."""
    inputs = ("serialized:0", "names", "sparse", "dense", "ragged")
    return [
        node("serialized", "Placeholder"),
        node("parse", "ParseExampleV2", *inputs, **dense(*[dims(1)] * len(features))),
        texts("sparse", *(name.encode() for name in sparse)),
        texts("dense", *(name.encode() for name in features)),
    ]


@pytest.mark.parametrize("make", [first_version, second_version])
def test_dense_features_come_after_three_outputs_for_each_sparse_one(make):
    graph = TensorflowGraph(pb.Graph(node=make("a", "b", sparse=("s",))))

    assert graph.features("serialized") == {
        "parse:0": Feature("s", 0, ()),
        "parse:1": Feature("s", 0, ()),
        "parse:2": Feature("s", 0, ()),
        "parse:3": Feature("a", FLOAT, (1,)),
        "parse:4": Feature("b", FLOAT, (1,)),
    }
    assert graph.features("other") == {}


def test_a_source_is_behind_identities_only():
    nodes = [
        node("x", "Placeholder"),
        node("a", "Identity", "x"),
        node("b", "Identity", "a:0"),
        node("c", "Neg", "b"),
    ]
    graph = TensorflowGraph(pb.Graph(node=nodes))

    assert graph.source("b") == graph.source("a:0") == graph.source("x") == "x:0"
    assert graph.source("c") == "c:0"
    assert graph.source("not there:3") == "not there:3"


def test_a_graph_that_loops_ends():
    loop = [node("a", "Identity", "b"), node("b", "Identity", "a")]
    graph = TensorflowGraph(pb.Graph(node=loop))

    assert graph.source("a") in {"a:0", "b:0"}
    assert graph.labels("a") == ()
    assert graph.needed(["a"], {"x:0"}) == frozenset()


def test_control_dependencies_are_not_needed_by_an_output():
    nodes = [
        node("sum", "Add", "a", "split:1"),
        node("y", "Identity", "sum", "^late"),
        node("late", "Neg", "late_input"),
        node("split", "Split", "b"),
    ]
    graph = TensorflowGraph(pb.Graph(node=nodes))

    stops = {"a:0", "split:0", "split:1", "late_input:0"}
    assert graph.needed(["y"], stops) == {"a:0", "split:1"}


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([node("y", "Tile", "const", "times")], (b"low", b"high")),
        (
            [node("row", "ExpandDims", "const", "axis"), node("y", "Tile", "row")],
            (b"low", b"high"),
        ),
        ([node("y", "StringUpper", "const")], ()),
        ([node("y", "Placeholder")], ()),
    ],
)
def test_labels_are_constants_that_are_only_repeated(chain, expected):
    graph = TensorflowGraph(pb.Graph(node=[texts("const", b"low", b"high"), *chain]))

    assert graph.labels("y:0") == expected


def test_names_are_the_default_signatures_keys_and_shared_where_tensors_are():
    x, y, other = info("x:0", FLOAT, -1), info("y:0", FLOAT, -1), info("z:0", FLOAT, -1)
    export = saved_model.read(
        exported(
            [
                *(node(name, "Placeholder") for name in ("x", "x2", "w")),
                *(node(name, "Neg", "x") for name in "yz"),
            ],
            another=(PREDICT, {"x": info("x2:0", FLOAT, -1)}, {"y": other}),
            serving_default=(PREDICT, {"x": x}, {"y": y}),
            same=(PREDICT, {"x": x}, {"last": y}),
            wider=(PREDICT, {"x": info("w:0", FLOAT, -1, 2)}, {"z": other}),
        )
    )

    assert list(export.signatures.items()) == [
        ("serving_default", Signature("predict", {"x": "x"}, {"y": "y"})),
        ("another", Signature("predict", {"x": "x"}, {"y": "another/y"})),
        ("same", Signature("predict", {"x": "x"}, {"last": "y"})),
        ("wider", Signature("predict", {"x": "wider/x"}, {"z": "another/y"})),
    ]
    assert export.functions["same"] is export.functions["serving_default"]
    assert export.functions["another"].inputs == {"x": GraphTensor("x2:0", Datatype.FP32, (-1,))}


def test_one_tensor_of_other_inputs_is_another_output():
    y = {"y": info("y:0", FLOAT, -1)}
    nodes = [
        node("x", "Placeholder"),
        node("hidden", "Neg", "x"),
        node("same", "Identity", "x"),
        node("y", "Neg", "hidden"),
    ]

    export = saved_model.read(
        exported(
            nodes,
            serving_default=(PREDICT, {"x": info("x:0", FLOAT, -1)}, y),
            inner=(PREDICT, {"x": info("hidden:0", FLOAT, -1)}, y),
            alias=(PREDICT, {"x": info("x:0", FLOAT, -1), "a": info("same:0", FLOAT, -1)}, y),
        )
    )

    assert {name: item.outputs["y"] for name, item in export.signatures.items()} == {
        "serving_default": "y",
        "inner": "inner/y",
        "alias": "y",
    }


@pytest.mark.parametrize(("op", "any_shape"), [("Placeholder", False), ("Identity", True)])
def test_only_placeholders_have_fixed_shapes(op, any_shape):
    meta_graph = exported(
        [node("x", op, "inner"), node("y", "Neg", "x")],
        serving_default=(PREDICT, {"x": info("x", FLOAT, -1)}, {"y": info("y")}),
    )

    function = saved_model.read(meta_graph).functions["serving_default"]

    assert function.inputs["x"].any_shape is any_shape
    assert saved_model.with_exact_shapes(function).inputs["x"].any_shape is False


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([dims(), dims(-1, 3)], (-1, 3)),
        ([dims()], None),
        ([dims(), pb.Shape(unknown_rank=True)], None),
    ],
)
def test_a_shape_that_a_signature_leaves_out_is_the_graphs(shapes, expected):
    split = node("split", "Split", "x")
    split.attr["_output_shapes"].list.shape.extend(shapes)
    meta_graph = exported(
        [node("x", "Placeholder"), split],
        only=(
            PREDICT,
            {"x": info("x", FLOAT, -1)},
            {"y": pb.TensorInfo(name="split:1", dtype=FLOAT)},
        ),
    )

    function = saved_model.read(meta_graph).functions["only"]

    assert function.outputs["y"].shape == expected


def test_features_take_the_place_of_examples_in_the_rewritten_graph():
    nodes = [*first_version("a", "b"), node("y", "Neg", "parse:1"), node("w", "Neg", "parse")]
    meta_graph = exported(
        nodes,
        only=(REGRESS, {"inputs": info("serialized", STRING, -1)}, {"outputs": info("y:0")}),
    )

    export = saved_model.read(meta_graph)
    function = export.functions["only"]
    document = pb.SavedModel.FromString(saved_model.rewritten(meta_graph, function))

    assert export.signatures == {"only": Signature("regress", {"b": "b"}, {"outputs": "outputs"})}
    (graph,) = document.meta_graphs
    by_name = {item.name: item for item in graph.graph_def.node}
    assert list(by_name["y"].input) == ["moorage_feature_0"]
    assert list(by_name["w"].input) == ["parse"]
    assert by_name["moorage_feature_0"].attr["dtype"].type == FLOAT
    signature = graph.signature_def["serving_default"]
    assert list(graph.signature_def) == ["serving_default"]
    assert signature.inputs["b"] == info("moorage_feature_0:0", FLOAT, -1, 1)
    assert saved_model.input_tensors(function) == {"b": "moorage_feature_0:0"}
    assert len(meta_graph.graph_def.node) == len(nodes)


def test_unknown_fields_of_a_file_are_kept():
    content = (SAVED_MODELS / "functions" / "1" / "saved_model.pb").read_bytes()
    meta_graph = saved_model.parse(content)
    function = saved_model.read(meta_graph).functions["serving_default"]

    rewritten = saved_model.rewritten(meta_graph, function)

    assert b"__inference_score" in rewritten
    assert len(rewritten) > len(content) / 2


EXAMPLES = {"inputs": info("serialized", STRING, -1)}
Y = {"outputs": info("y:0")}


@pytest.mark.parametrize(
    ("nodes", "method", "inputs", "outputs", "problem"),
    [
        ([], PREDICT, {"x": pb.TensorInfo(dtype=FLOAT)}, Y, "input 'x' is not a dense tensor"),
        (
            [],
            PREDICT,
            {"x": info("x", COMPLEX)},
            Y,
            "input 'x' has TensorFlow's datatype 8, which is not supported",
        ),
        (
            [],
            PREDICT,
            {"x": pb.TensorInfo(name="x", dtype=FLOAT, tensor_shape=pb.Shape(unknown_rank=True))},
            Y,
            "input 'x' has an unknown number of dimensions",
        ),
        (
            first_version("a"),
            PREDICT,
            EXAMPLES,
            Y,
            "input 'inputs' is serialized tf.Example, which only classify",
        ),
        (
            [],
            REGRESS,
            EXAMPLES,
            Y,
            "input 'inputs' is not parsed as tf.Example by the graph itself",
        ),
        ([], CLASSIFY, {}, Y, "it has 0 inputs"),
        (
            first_version("a"),
            REGRESS,
            EXAMPLES,
            Y,
            "its outputs do not depend on any feature of the examples",
        ),
        (
            [*first_version("a", sparse=("s",)), node("y", "Neg", "parse:1")],
            REGRESS,
            EXAMPLES,
            Y,
            "feature 's' is not one dense tensor",
        ),
    ],
)
def test_a_signature_that_cannot_be_served_has_a_reason(nodes, method, inputs, outputs, problem):
    export = saved_model.read(exported(nodes, odd=(method, inputs, outputs)))

    assert export.signatures == {}
    assert problem in export.problems["odd"]


def test_a_file_without_signatures_is_refused():
    init = exported([], __saved_model_init_op=("", {}, {"op": info("NoOp")}))

    with pytest.raises(InvalidConfig, match="declares no signature for predict, classify"):
        saved_model.read(init)


@pytest.mark.parametrize(
    ("tags", "chosen"), [([["train"], ["serve"]], 1), ([["serve", "gpu"]], 0), ([["odd"]], 0)]
)
def test_the_graph_for_serving_is_chosen_by_its_tag_or_because_it_is_alone(tags, chosen):
    graphs = [
        pb.MetaGraph(meta_info_def=pb.MetaGraph.Info(tags=each), graph_def=pb.Graph())
        for each in tags
    ]

    content = pb.SavedModel(meta_graphs=graphs).SerializeToString()

    assert saved_model.parse(content) == graphs[chosen]


@pytest.mark.parametrize(
    ("tags", "told"),
    [([], "none"), ([["train"], ["eval"]], "train, eval"), ([["serve"]] * 2, "serve, serve")],
)
def test_no_or_several_graphs_for_serving_are_refused(tags, told):
    graphs = [pb.MetaGraph(meta_info_def=pb.MetaGraph.Info(tags=each)) for each in tags]

    with pytest.raises(InvalidConfig, match=f"with the tag 'serve', it has: {told}$"):
        saved_model.parse(pb.SavedModel(meta_graphs=graphs).SerializeToString())


def test_invalid_bytes_are_refused():
    with pytest.raises(InvalidConfig, match=r"saved_model\.pb is not a valid SavedModel"):
        saved_model.parse(b"no message at all")


@pytest.mark.parametrize(("tensor", "expected"), [("x", "x:0"), ("x:0", "x:0"), ("x:3", "x:3")])
def test_the_number_of_the_first_output_is_optional(tensor, expected):
    assert full_name(tensor) == expected
