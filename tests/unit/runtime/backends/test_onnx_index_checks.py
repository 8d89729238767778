"""Indexes that a graph computes: the checks refuse what ONNX Runtime refuses on the CPU."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.graph.file import read
from moorage_runtime.backends.onnx.graph.indexes import find
from moorage_runtime.backends.onnx.graph.outputs import appended
from moorage_runtime.backends.onnx.index_checks import IndexChecks
from moorage_runtime.values.errors import InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import Datatype, Tensor
from support.absent_gpu import on_absent_gpu
from support.onnx_indexes import (
    COMPUTED,
    PREPARE,
    TABLE,
    node,
    problem_on_cpu,
    session,
    write,
)

SELECTING = {"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"}


def computed(path, checks, feeds):
    """What a run fetches for the checks, without the operators that select."""
    model = onnx.load_from_string(path.read_bytes() + checks.appendix)
    kept = [each for each in model.graph.node if each.op_type not in SELECTING]
    outputs = [each for each in model.graph.output if each.name in checks.fetched]
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(kept)
    model.graph.output.extend(outputs)
    if not outputs:
        return {}
    arrays = session(model.SerializeToString()).run(checks.fetched, feeds)
    return dict(zip(checks.fetched, arrays, strict=True))


def problem_found(path, feeds) -> bool:
    checks = IndexChecks(read(path))
    try:
        checks.after(feeds, computed(path, checks, feeds))
    except ModelFailed:
        return True
    return False


@pytest.mark.parametrize("nodes", COMPUTED)
def test_elements_are_refused_as_on_the_cpu(nodes, tmp_path):
    path = write(tmp_path / "model.onnx", nodes)
    found = set()
    for first in range(-7, 6):
        for second in range(-7, 6):
            feeds = {"ids": np.array([[0, 0], [first, second]])}
            expected = problem_on_cpu(path, feeds)
            assert problem_found(path, feeds) is expected, feeds
            found.add(expected)
    assert found == {False, True}


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [
        pytest.param([node("Gather", ["ids", "rows"], ["y"])], range(5), id="rows"),
        pytest.param([node("Gather", ["ids", "last"], ["y"])], range(5), id="from the end"),
        pytest.param([node("Gather", ["ids", "many"], ["y"])], range(3), id="many"),
        pytest.param([node("Gather", ["ids", "many too far"], ["y"])], range(5), id="far"),
        pytest.param([node("GatherND", ["ids", "pairs"], ["y"])], range(5), id="pairs"),
        pytest.param(
            [PREPARE, node("Gather", ["i", "rows"], ["y"])], range(5), id="of what is computed"
        ),
        pytest.param(
            [node("Reshape", ["ids", "flat"], ["f"]), node("Gather", ["table", "f"], ["y"])],
            range(2),
            id="none",
        ),
    ],
)
def test_constants_may_be_outside_of_what_has_any_size(nodes, sizes, tmp_path):
    path = write(tmp_path / "model.onnx", nodes, (("ids", TensorProto.INT64, ["n", "m"]),))
    for size in sizes:
        feeds = {"ids": np.zeros((size, 3), np.int64)}
        assert problem_found(path, feeds) is problem_on_cpu(path, feeds), size


def test_batches_are_not_indexed(tmp_path):
    nodes = [PREPARE, node("GatherND", ["x", "i"], ["y"], batch_dims=1)]
    inputs = [("ids", TensorProto.INT64, ["n", 1]), ("x", TensorProto.FLOAT, ["n", 4])]
    path = write(tmp_path / "model.onnx", nodes, inputs)
    x = np.zeros((2, 4), np.float32)

    for element in range(-7, 6):
        feeds = {"ids": np.array([[0], [element]]), "x": x}
        assert problem_found(path, feeds) is problem_on_cpu(path, feeds), element


def test_no_indexes_are_no_problem(tmp_path):
    path = write(tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"])])
    feeds = {"ids": np.zeros((0, 2), np.int64)}

    assert not problem_on_cpu(path, feeds)
    assert not problem_found(path, feeds)


def checks_of(path) -> IndexChecks:
    return IndexChecks(read(path))


def test_nothing_is_fetched_for_constant_places_of_a_shape(tmp_path):
    nodes = [node("Shape", ["ids"], ["s"]), node("Gather", ["s", "second"], ["y"])]
    checks = checks_of(write(tmp_path / "model.onnx", nodes))

    assert (checks.fetched, checks.added, checks.appendix) == ((), frozenset(), b"")


def test_each_tensor_and_shape_is_fetched_once(tmp_path):
    nodes = [
        PREPARE,
        node("Mul", ["ids", "ids"], ["data"]),
        node("Gather", ["data", "i"], ["a"]),
        node("Gather", ["data", "i"], ["b"], axis=1),
        node("Gather", ["data", "rows"], ["c"]),
    ]
    flat = [node("Reshape", [name, "flat"], [f"flat {name}"]) for name in ("a", "b", "c")]
    nodes += [*flat, node("Concat", ["flat a", "flat b", "flat c"], ["y"], axis=0)]
    checks = checks_of(write(tmp_path / "model.onnx", nodes))

    assert checks.fetched == ("i", "moorage_shape_0")
    assert checks.added == {"i", "moorage_shape_0"}


def test_an_output_of_the_model_is_not_added_to_it(tmp_path):
    nodes = [PREPARE, node("Gather", ["table", "i"], ["y"])]
    checks = checks_of(write(tmp_path / "model.onnx", nodes, outputs=["y", "i"]))

    assert (checks.fetched, checks.added, checks.appendix) == (("i",), frozenset(), b"")


def test_names_of_shapes_are_new(tmp_path):
    nodes = [
        node("Add", ["ids", "one"], ["moorage_shape_0"]),
        node("Add", ["moorage_shape_0", "one"], ["moorage_shape_2"]),
        node("Gather", ["moorage_shape_2", "rows"], ["moorage_shape_1"]),
        node("Identity", ["moorage_shape_1"], ["y"]),
    ]
    unused = ("moorage_shape_3", TensorProto.INT64, [1])
    ids = ("ids", TensorProto.INT64, ["n", 2])
    path = write(tmp_path / "model.onnx", nodes, (ids, unused))
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1), "moorage_shape_4"))
    onnx.save(model, path)

    assert checks_of(path).fetched == ("moorage_shape_5",)


def test_inputs_are_checked_if_they_are_numbers_and_given(tmp_path):
    nodes = [
        node("Gather", ["table", "first"], ["a"]),
        node("Gather", ["table", "second ids"], ["b"]),
        node("Gather", ["table", "third"], ["c"]),
        node("Sum", ["a", "b", "c"], ["y"]),
    ]
    names = ("first", "second ids", "third")
    inputs = [(name, TensorProto.INT64, ["n"]) for name in names]
    checks = checks_of(write(tmp_path / "model.onnx", nodes, inputs))
    text, good, bad = np.array(["4"], object), np.array([-4, 3]), np.array([0, 4])

    checks.before({"first": text, "second ids": good, "third": good})
    with pytest.raises(InvalidRequest, match=r"input 'third' has element 4: .* from -4 to 3"):
        checks.before({"first": text, "third": bad})


@pytest.mark.parametrize("length", [1, 127, 128])
def test_the_appendix_is_a_message_with_a_graph(length):
    name = "t" * length
    graph = onnx.GraphProto(
        node=[
            onnx.NodeProto(op_type="Shape", input=["data"], output=[name]),
            onnx.NodeProto(op_type="Shape", input=["more"], output=["shape"]),
        ],
        output=[onnx.ValueInfoProto(name=each) for each in ("i", name, "shape")],
    )

    found = appended(["i"], {name: "data", "shape": "more"})

    assert found == onnx.ModelProto(graph=graph).SerializeToString(deterministic=True)


@pytest.mark.parametrize("length", [1, 126, 127, 128, 129, 16_383, 16_384, 70_000])
def test_names_may_have_any_length(length, tmp_path):
    name = "i" * length
    nodes = [node("Add", ["ids", "one"], [name]), node("Gather", [name, name], ["y"])]
    path = write(tmp_path / "model.onnx", nodes)
    checks = checks_of(path)

    model = onnx.load_from_string(path.read_bytes() + checks.appendix)

    assert checks.fetched == (name, "moorage_shape_0")
    assert [each.name for each in model.graph.output] == ["y", *checks.fetched]
    (_, _, shape) = model.graph.node
    assert (shape.op_type, shape.input, shape.output) == ("Shape", [name], ["moorage_shape_0"])


def test_the_message_names_the_operator_and_the_element(tmp_path):
    path = write(
        tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"], name="places")]
    )
    checks = checks_of(path)

    with pytest.raises(ModelFailed) as caught:
        checks.after({}, {"i": np.array([[1, 4]])})
    assert caught.value.message == (
        "operator Gather 'places' has element 4: must be an index from -4 to 3"
    )


def test_the_message_names_an_operator_that_selects_from_nothing(tmp_path):
    checks = checks_of(write(tmp_path / "model.onnx", [node("Gather", ["ids", "rows"], ["y"])]))

    with pytest.raises(ModelFailed) as caught:
        checks.after({"ids": np.zeros((0, 2), np.int64)}, {})
    assert caught.value.message == "operator Gather '' has element 0: there is nothing to index"


def body(*nodes):
    return helper.make_graph(
        list(nodes), "body", [], [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    )


INNER = body(node("Gather", ["table", "ids"], ["inner"]))
HARMLESS = body(node("Identity", ["table"], ["harmless"]))


@pytest.mark.parametrize(
    ("then", "unseen"),
    [
        pytest.param(HARMLESS, (), id="none"),
        pytest.param(INNER, ("If",), id="one"),
        pytest.param(
            body(node("If", ["c"], ["deep"], then_branch=HARMLESS, else_branch=INNER)),
            ("If",),
            id="a deeper one",
        ),
    ],
)
def test_operators_with_graphs_that_select_are_known(then, unseen, tmp_path):
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=HARMLESS)]
    inputs = [("ids", TensorProto.INT64, [1]), ("c", TensorProto.BOOL, [])]
    path = write(tmp_path / "model.onnx", nodes, inputs)

    assert find(read(path)).unseen == unseen


@pytest.mark.parametrize(
    ("inside", "unseen"),
    [
        pytest.param([node("Identity", ["a"], ["b"])], (), id="none"),
        pytest.param([node("Gather", ["a", "a"], ["b"])], ("Select",), id="one"),
        pytest.param([node("Select", ["a"], ["b"], domain="own")], ("Select",), id="a function"),
    ],
)
def test_functions_that_select_are_known(inside, unseen, tmp_path):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    path = write(tmp_path / "model.onnx", [node("Select", ["ids"], ["y"], domain="own")])
    model = onnx.load(path)
    model.opset_import.append(opsets[1])
    model.functions.append(helper.make_function("own", "Select", ["a"], ["b"], inside, opsets))
    onnx.save(model, path)

    assert find(read(path)).unseen == unseen


@pytest.fixture
def load(instead_of_cuda):
    return lambda path: on_absent_gpu().load(ModelSource("m", "1", path))


def ask(loaded, *outputs):
    ids = Tensor("ids", Datatype.INT64, np.array([[0, 1], [2, -5]]))
    wanted = tuple(map(RequestedOutput, outputs))
    return loaded.infer(InferRequest("m", "1", (ids,), wanted))


FOUND = TABLE[[[1, 2], [3, -4]]]


def test_clients_see_none_of_the_further_outputs(tmp_path, load):
    model = load(write(tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"])]))

    (y,) = ask(model)

    assert [each.name for each in model.outputs] == ["y"]
    assert y.name == "y"
    assert (y.array == FOUND).all()


def test_an_output_may_be_an_index(tmp_path, load):
    nodes = [PREPARE, node("Gather", ["table", "i"], ["y"])]
    model = load(write(tmp_path / "model.onnx", nodes, outputs=["i", "y"]))

    assert [each.name for each in ask(model)] == ["i", "y"]
    assert [each.name for each in ask(model, "y")] == ["y"]
    assert [each.name for each in ask(model, "y", "i")] == ["y", "i"]


def test_weights_may_be_in_a_file_of_their_own(tmp_path, load):
    path = write(tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"])])
    onnx.save(
        onnx.load(path), path, save_as_external_data=True, location="weights", size_threshold=0
    )

    (y,) = ask(load(path))

    assert (tmp_path / "weights").exists()
    assert (y.array == FOUND).all()


def test_a_computed_index_is_checked_after_the_run(tmp_path, load, monkeypatch):
    model = load(write(tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"])]))
    asked = []

    def run(names, feeds, _options):
        asked.append(names)
        return [np.zeros((2, 2, 3), np.float32), feeds["ids"] + 3]

    monkeypatch.setattr(model, "_run", run)

    with pytest.raises(ModelFailed, match=r"operator Gather '' has element 5: .* from -4 to 3"):
        ask(model)
    assert asked == [["y", "i"]]


def test_the_log_says_where_indexes_are_not_checked(tmp_path, load, caplog):
    nodes = [
        node("ReduceSum", ["ids"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["c"], to=TensorProto.BOOL),
        node("If", ["c"], ["y"], then_branch=INNER, else_branch=HARMLESS),
    ]
    load(write(tmp_path / "model.onnx", nodes))

    assert "model 'm': indexes are not checked on a GPU within operator If" in caplog.messages


def test_the_log_says_that_a_graph_was_not_readable(tmp_path, load, caplog, monkeypatch):
    path = write(tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"])])
    monkeypatch.setattr("moorage_runtime.backends.onnx.graph.file.node_of", {}.__getitem__)
    load(path)

    (message,) = [each for each in caplog.messages if "indexes" in each]
    assert message == (
        "model 'm': indexes are not checked on a GPU: model.onnx cannot be analyzed: KeyError"
    )


def test_a_model_with_all_indexes_checked_has_no_warning(tmp_path, load, caplog):
    load(write(tmp_path / "model.onnx", [PREPARE, node("Gather", ["table", "i"], ["y"])]))

    assert "indexes" not in caplog.text
