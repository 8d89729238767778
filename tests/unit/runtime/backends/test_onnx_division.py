"""Graphs that divide the lowest integer by -1, for which ONNX Runtime would end the process."""

import numpy as np
import onnx
import pytest
from numpy.testing import assert_array_equal
from onnx import TensorProto, helper, numpy_helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.graph.division import NotGuarded, guarded
from moorage_runtime.backends.onnx.graph.file import content, read
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

node = helper.make_node
tensor = helper.make_tensor_value_info
MINE = "mine"
TYPES = {
    "int32": (TensorProto.INT32, Datatype.INT32),
    "int64": (TensorProto.INT64, Datatype.INT64),
    "int8": (TensorProto.INT8, Datatype.INT8),
    "int16": (TensorProto.INT16, Datatype.INT16),
    "uint8": (TensorProto.UINT8, Datatype.UINT8),
    "uint16": (TensorProto.UINT16, Datatype.UINT16),
    "uint32": (TensorProto.UINT32, Datatype.UINT32),
    "uint64": (TensorProto.UINT64, Datatype.UINT64),
    "float32": (TensorProto.FLOAT, Datatype.FP32),
    "float64": (TensorProto.DOUBLE, Datatype.FP64),
}
HALF = numpy_helper.from_array(np.array([-1], np.float32))
# Truncates towards 0, and wraps around.
DIVIDED = {"Div": lambda lowest: [lowest, -7, 3, -3], "Mod": lambda _: [0, 0, 1, 1]}


def write(path, nodes, *, datatype="int64", constants=(), functions=(), opset=17, inputs="xy"):
    kind = TYPES[datatype][0]
    graph = helper.make_graph(
        nodes,
        "graph",
        [tensor(name, kind, ["rows"]) for name in inputs],
        [helper.make_empty_tensor_value_info("z")],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MINE, 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)
    onnx.save(model, path)
    return path


def divide_in_a_function(operator, opset=17, domain=""):
    body = [node(operator, ["a", "b"], ["c"])]
    opsets = [helper.make_opsetid(domain, opset)]
    return helper.make_function(MINE, "Divide", ["a", "b"], ["c"], body, opsets)


def unknown(result):
    """A node whose result may have any type."""
    return node("Unknown", ["x"], [result], domain=MINE)


def numbers(datatype):
    lowest = np.iinfo(datatype).min
    return np.array([lowest, 7, 7, -7], datatype), np.array([-1, -1, 2, 2], datatype)


def run(path, datatype="int64", **arrays):
    model = OnnxBackend().load(ModelSource("m", "1", path))
    kind = TYPES[datatype][1]
    tensors = tuple(Tensor(name, kind, array) for name, array in arrays.items())
    return model.infer(InferRequest("m", "1", tensors))[0].array


def replaced(path):
    return guarded(content(path), read(path))


def operators(path):
    """The operators of the graph that is loaded, without those of inner graphs."""
    return [each.op_type for each in onnx.load_from_string(replaced(path)).graph.node]


@pytest.mark.parametrize("operator", DIVIDED)
@pytest.mark.parametrize("datatype", ["int32", "int64"])
@pytest.mark.parametrize("opset", [10, 17, 21])
def test_the_lowest_integer_is_divided(tmp_path, operator, datatype, opset):
    divide = node(operator, ["x", "y"], ["z"], name="divide")
    path = write(tmp_path / "model.onnx", [divide], datatype=datatype, opset=opset)
    x, y = numbers(datatype)

    found = run(path, datatype, x=x, y=y)

    assert found.dtype == datatype
    assert found.tolist() == DIVIDED[operator](int(x[0]))


@pytest.mark.parametrize("operator", DIVIDED)
def test_the_divisor_is_broadcast(tmp_path, operator):
    constants = [("y", np.array([[-1], [3]]))]
    path = write(
        tmp_path / "model.onnx",
        [node(operator, ["x", "y"], ["z"])],
        constants=constants,
        inputs="x",
    )
    lowest = np.iinfo(np.int64).min

    found = run(path, x=np.array([lowest, 6]))

    expected = {"Div": [[lowest, -6], [lowest // 3 + 1, 2]], "Mod": [[0, 0], [1, 0]]}
    assert found.tolist() == expected[operator]


def test_constants_that_are_divided_at_load(tmp_path):
    constants = [
        ("a", np.array([np.iinfo(np.int32).min], np.int32)),
        ("b", np.array([-1], np.int32)),
    ]
    nodes = [node("Div", ["a", "b"], ["c"]), node("Add", ["x", "c"], ["z"])]
    path = write(tmp_path / "m.onnx", nodes, datatype="int32", constants=constants, inputs="x")

    assert run(path, "int32", x=np.array([1], np.int32)).tolist() == [-(2**31) + 1]


def test_a_division_in_a_branch(tmp_path):
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(operator, ["x", "y"], ["result"])],
            name,
            [],
            [tensor("result", TensorProto.INT64, None)],
        )
        for name, operator in (("then", "Div"), ("else", "Mod"))
    }
    nodes = [
        node("ReduceMax", ["y"], ["most"], keepdims=0),
        node("Greater", ["most", "zero"], ["is_div"]),
        node("If", ["is_div"], ["z"], **branches),
    ]
    path = write(tmp_path / "model.onnx", nodes, constants=[("zero", np.array(0))])
    x, y = numbers("int64")

    assert run(path, x=x, y=y).tolist() == DIVIDED["Div"](int(x[0]))
    assert run(path, x=x[:2], y=y[:2]).tolist() == [0, 0]


@pytest.mark.parametrize("operator", DIVIDED)
@pytest.mark.parametrize("opset", [13, 17])
def test_a_division_in_a_function(tmp_path, operator, opset):
    """The operator set of the function counts, also if the model has another one."""
    call = node("Divide", ["x", "y"], ["z"], domain=MINE)
    function = divide_in_a_function(operator, opset)
    path = write(tmp_path / "model.onnx", [call], functions=[function])
    x, y = numbers("int64")

    assert run(path, x=x, y=y).tolist() == DIVIDED[operator](int(x[0]))


def test_a_function_that_divides_floating_point_gives_the_same_results(tmp_path):
    """Its types depend on the call, so it counts as a division of integers."""
    function = divide_in_a_function("Div")
    nodes = [node("Divide", ["x", "y"], ["z"], domain=MINE)]
    path = write(tmp_path / "m.onnx", nodes, datatype="float32", functions=[function])
    edges = np.array([0, -0.0, 1, -1, -1.5, 1e-45, 3e38, np.inf, -np.inf, np.nan, 7], np.float32)
    x, y = (each.ravel() for each in np.meshgrid(edges, edges))

    found = run(path, "float32", x=x, y=y)

    with np.errstate(all="ignore"):
        expected = x / y
    assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("opset", "expected"),
    [
        (9, ["Constant", "Cast", "Equal", "Neg", "Where", "Div", "Neg", "Where"]),
        (14, ["Constant", "Cast", "Equal", "Neg", "Where", "Div", "Neg", "Where"]),
        (
            15,
            ["Constant", "Cast", "Equal", "Neg", "Where", "CastLike", "Mul", "Div", "Mul"],
        ),
    ],
)
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_function_is_guarded_by_its_own_operator_set(tmp_path, opset, expected, domain):
    call = node("Divide", ["x", "y"], ["z"], domain=MINE)
    function = divide_in_a_function("Div", opset, domain)
    path = write(tmp_path / "m.onnx", [call], functions=[function], opset=8)

    (found,) = onnx.load_from_string(replaced(path)).functions

    assert [each.op_type for each in found.node] == expected
    assert found.node[0].output == ["moorage_division_1_0"]


@pytest.mark.parametrize("opsets", [[("", 8)], [], [(MINE, 17)]])
def test_a_function_with_an_old_operator_set_is_refused(tmp_path, opsets):
    call = node("Divide", ["x", "y"], ["z"], domain=MINE)
    function = divide_in_a_function("Div")
    del function.opset_import[:]
    function.opset_import.extend(helper.make_opsetid(*each) for each in opsets)
    path = write(tmp_path / "m.onnx", [call], functions=[function])

    with pytest.raises(NotGuarded, match="operator Div '' ends the process"):
        replaced(path)


def test_a_graph_without_an_operator_set_is_refused(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Div", ["x", "y"], ["z"])])
    model = onnx.load(path)
    del model.opset_import[:]
    onnx.save(model, path)

    with pytest.raises(NotGuarded, match="from operator set 9 on"):
        replaced(path)


@pytest.mark.parametrize("opset", [13, 17])
def test_a_remainder_of_floating_point_keeps_its_sign(tmp_path, opset):
    """Whether Mod computes with floating point can be an argument of a function."""
    mod = node("Mod", ["a", "b"], ["c"])
    mod.attribute.add(name="fmod", ref_attr_name="mode", type=onnx.AttributeProto.INT)
    opsets = [helper.make_opsetid("", opset)]
    function = helper.make_function(MINE, "F", ["a", "b"], ["c"], [mod], opsets, ["mode"])
    call = node("F", ["x", "y"], ["z"], domain=MINE, mode=1)
    path = write(
        tmp_path / "m.onnx", [call], datatype="float32", functions=[function], opset=opset
    )
    x, y = np.array([2.5, -2.5, 2.5], np.float32), np.array([-1, -1, -2], np.float32)

    assert replaced(path) is not None
    assert run(path, "float32", x=x, y=y).tolist() == [0.5, -0.5, 0.5]


@pytest.mark.parametrize("opset", [14, 17])
def test_every_division_of_a_graph_is_replaced(tmp_path, opset):
    nodes = [
        node("Div", ["x", "y"], ["q"]),
        node("Mul", ["x", "y"], ["product"]),
        node("Mod", ["product", "y"], ["r"]),
        node("Add", ["q", "r"], ["z"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, opset=opset)
    x, y = numbers("int64")

    assert run(path, x=x, y=y).tolist() == [int(x[0]), -7, 3, -3]
    found = onnx.load_from_string(replaced(path)).graph.node
    names = {name.rpartition("_")[0] for each in found for name in each.output if "_" in name}
    assert names == {"moorage_division_1", "moorage_division_2"}


@pytest.mark.parametrize(
    "stays",
    [
        node("Mod", ["x", "y"], ["z"], fmod=1),
        node("Div", ["x", "y"], ["z"], domain=MINE),
        node("Div", ["x"], ["z"]),
    ],
    ids=["fmod", "domain", "operands"],
)
def test_other_operators_stay(tmp_path, stays):
    assert replaced(write(tmp_path / "m.onnx", [stays])) is None


@pytest.mark.parametrize("opset", [14, 17])
def test_a_replacement_has_only_fields_of_the_format(tmp_path, opset):
    body = helper.make_graph(
        [node("Div", ["x", "y"], ["q"], name="inner")],
        "body",
        [],
        [tensor("q", TensorProto.INT64, None)],
    )
    nodes = [
        node("If", ["yes"], ["z"], then_branch=body, else_branch=body),
        node("Mod", ["z", "y"], ["r"], name="outer", fmod=0),
    ]
    path = write(
        tmp_path / "m.onnx", nodes, constants=[("yes", np.ones((), np.bool_))], opset=opset
    )
    found = replaced(path)

    model = onnx.load_from_string(found)
    model.DiscardUnknownFields()

    assert model.ByteSize() == len(found)


def test_other_texts_of_a_model_stay(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Div", ["x", "y"], ["z"])])
    model = onnx.load(path)
    model.producer_name = "\u00e9 \x80 \xff text that is no message"
    onnx.save(model, path)

    assert onnx.load_from_string(replaced(path)).producer_name == model.producer_name


INTEGERS = [each for each in TYPES if "int" in each]


def divided(operator, dividend, divisor):
    """Div truncates towards 0; the remainder of Mod has the sign of the divisor."""
    if operator == "Mod":
        return dividend % divisor
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


@pytest.mark.parametrize("operator", DIVIDED)
@pytest.mark.parametrize("datatype", INTEGERS)
def test_a_function_divides_every_type_of_integers(tmp_path, operator, datatype):
    call = node("Divide", ["x", "y"], ["z"], domain=MINE)
    function = divide_in_a_function(operator)
    path = write(tmp_path / "m.onnx", [call], datatype=datatype, functions=[function])
    limits = np.iinfo(datatype)
    middle = np.random.default_rng(7).integers(limits.min, limits.max, 40, datatype, endpoint=True)
    edges = [limits.min, limits.min + 1, limits.max - 1, limits.max, limits.max // 2, 1, 2, 7]
    values = np.concatenate(
        [middle, np.array([*edges, *([-1, -2] if limits.min else [])], datatype)]
    )
    x, y = (each.ravel() for each in np.meshgrid(values, values[values != 0]))

    found = run(path, datatype, x=x, y=y)

    pairs = zip(x.tolist(), y.tolist(), strict=True)
    expected = [divided(operator, dividend, divisor) for dividend, divisor in pairs]
    wrapped = [(each - limits.min) % 2**limits.bits + limits.min for each in expected]
    assert_array_equal(found, np.array(wrapped, datatype))


def test_an_attribute_beside_a_graph_with_a_division_stays(tmp_path):
    body = helper.make_graph(
        [node("Div", ["x", "y"], ["q"])], "body", [], [tensor("q", TensorProto.INT64, None)]
    )
    search = node("Sampling", ["x"], ["z"], domain=MINE, body=body, top_p=0.75, size=3)
    path = write(tmp_path / "m.onnx", [search])

    (found,) = onnx.load_from_string(replaced(path)).graph.node

    attributes = {each.name: helper.get_attribute_value(each) for each in found.attribute}
    assert attributes["top_p"] == 0.75
    assert attributes["size"] == 3
    assert len(attributes["body"].node) > 1


def test_weights_in_another_file(tmp_path):
    nodes = [node("Div", ["x", "y"], ["q"]), node("Add", ["q", "weights"], ["z"])]
    path = write(tmp_path / "model.onnx", nodes, constants=[("weights", np.arange(4))])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w", size_threshold=1)
    x, y = numbers("int64")

    assert run(path, x=x, y=y).tolist() == [int(x[0]), -6, 5, 0]


def linked(folder, files):
    """Links to files with other names in a folder of their own, as in the cache of a hub."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate(files):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    return snapshot


def test_weights_behind_a_link(tmp_path):
    nodes = [node("Div", ["x", "y"], ["q"]), node("Add", ["q", "weights"], ["z"])]
    path = write(tmp_path / "model.onnx", nodes, constants=[("weights", np.arange(4))])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w", size_threshold=1)
    x, y = numbers("int64")

    snapshot = linked(tmp_path, [path, tmp_path / "w"])

    assert run(snapshot / "model.onnx", x=x, y=y).tolist() == [int(x[0]), -6, 5, 0]


def test_weights_in_any_other_folder_are_refused(tmp_path):
    nodes = [node("Div", ["x", "y"], ["q"]), node("Add", ["q", "weights"], ["z"])]
    (tmp_path / "model").mkdir()
    path = write(tmp_path / "model" / "model.onnx", nodes, constants=[("weights", np.arange(4))])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w", size_threshold=1)
    (tmp_path / "model" / "w").rename(tmp_path / "elsewhere")
    (tmp_path / "model" / "w").symlink_to("../elsewhere")

    with pytest.raises(InvalidConfig, match="escapes"):
        OnnxBackend().load(ModelSource("m", "1", path))


def test_an_error_still_names_the_division(tmp_path):
    path = write(tmp_path / "model.onnx", [node("Div", ["x", "y"], ["z"], name="divide")])

    with pytest.raises(ModelFailed) as error:
        run(path, x=np.array([1]), y=np.array([0]))

    assert "divide" in error.value.message
    assert "division by zero" in error.value.message


def test_an_operator_set_without_a_replacement_is_refused(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Div", ["x", "y"], ["z"], name="divide")], opset=8)

    with pytest.raises(InvalidConfig) as error:
        OnnxBackend().load(ModelSource("m", "1", path))

    assert error.value.message == (
        "m.onnx: operator Div 'divide' ends the process if it divides the lowest integer by -1, "
        "which can only be prevented from operator set 9 on: convert the model, or cast to "
        "floating point before the division"
    )


@pytest.mark.parametrize("datatype", ["int8", "uint64", "float32", "float64"])
def test_other_types_stay(tmp_path, datatype):
    path = write(tmp_path / "m.onnx", [node("Div", ["x", "y"], ["z"])], datatype=datatype)

    assert replaced(path) is None


def test_a_constant_divisor_without_minus_one_stays(tmp_path):
    value = numpy_helper.from_array(np.array([2, -2]))
    nodes = [
        node("Div", ["x", "two"], ["half"]),
        node("Constant", [], ["even"], value=value),
        node("Mod", ["half", "even"], ["z"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, constants=[("two", np.array([2]))], inputs="x")

    assert replaced(path) is None


@pytest.mark.parametrize(
    "steps",
    [
        [node("Cast", ["y"], ["d"], to=TensorProto.FLOAT)],
        [node("Sqrt", ["y"], ["d"])],
        [node("ConstantOfShape", ["y"], ["d"])],
        [node("ConstantOfShape", ["y"], ["d"], value=HALF)],
        [node("Constant", [], ["d"], value=HALF)],
        [node("Sqrt", ["y"], ["c"]), node("Slice", ["c", "begin", "end"], ["d"])],
        [node("Sqrt", ["y"], ["c"]), node("Where", ["yes", "c", "y"], ["d"])],
        [node("Sqrt", ["y"], ["c"]), node("Split", ["c"], ["e", "d"], num_outputs=2)],
        [node("Neg", ["half"], ["d"])],
    ],
    ids=lambda steps: " ".join(each.op_type for each in steps),
)
def test_floating_point_is_followed(tmp_path, steps):
    constants = [
        ("begin", np.array([0])),
        ("end", np.array([9])),
        ("yes", np.array([True])),
        ("half", np.array([0.5], np.float32)),
    ]
    divide = node("Div", ["n", "d"], ["z"])
    path = write(tmp_path / "m.onnx", [unknown("n"), *steps, divide], constants=constants)

    assert replaced(path) is None


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [node("Shape", ["half"], ["d"])],
        [node("NonMaxSuppression", ["half", "half"], ["d"])],
        [node("Where", ["yes", "y", "x"], ["d"])],
        [node("Pow", ["y", "half"], ["d"])],
        [node("Slice", ["y", "begin", "begin"], ["d"])],
        [node("Cast", ["half"], ["d"], to=TensorProto.INT32)],
        [node("Constant", [], ["d"], value=numpy_helper.from_array(np.array([-1])))],
        [node("ConstantOfShape", ["y"], ["d"], value=numpy_helper.from_array(np.array([-1])))],
    ],
    ids=lambda steps: " ".join(each.op_type for each in steps),
)
def test_other_results_of_floating_point_are_guarded(tmp_path, steps):
    constants = [
        ("begin", np.array([0])),
        ("yes", np.array([True])),
        ("half", np.array([0.5], np.float32)),
    ]
    divide = node("Div", ["n", "d"], ["z"])
    path = write(tmp_path / "m.onnx", [unknown("n"), *steps, divide], constants=constants)

    assert replaced(path) is not None


@pytest.mark.parametrize(
    "steps",
    [
        [node("Identity", ["y"], ["d"])],
        [node("Cast", ["y"], ["c"], to=TensorProto.INT32), node("Cast", ["c"], ["d"], to=7)],
        [node("Shape", ["y"], ["s"]), node("Gather", ["s", "zero"], ["d"])],
        [
            node("Shape", ["y"], ["s"]),
            node("ConstantOfShape", ["s"], ["d"], value=numpy_helper.from_array(np.array([-1]))),
        ],
        [node("Cast", ["y"], ["c"], to=1), node("TopK", ["c", "one"], ["v", "d"])],
        [node("Constant", [], ["d"], value=numpy_helper.from_array(np.array([-1, 2, 2, 2])))],
        [node("Constant", [], ["d"], value_int=-1)],
    ],
)
def test_integers_are_guarded(tmp_path, steps):
    constants = [("zero", np.array(0)), ("one", np.array([4]))]
    path = write(
        tmp_path / "m.onnx", [*steps, node("Mod", ["x", "d"], ["z"])], constants=constants
    )

    assert operators(path)[-1] == "Mod"
    assert operators(path)[-2] == "Mul"
    OnnxBackend().load(ModelSource("m", "1", path))


def test_the_scores_of_a_classifier_are_floating_point(tmp_path):
    classify = node(
        "LinearClassifier",
        ["f"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[1.0, -1.0],
        intercepts=[0.0, 0.0],
        classlabels_ints=[0, 1],
    )
    nodes = [
        node("Cast", ["x"], ["f"], to=1),
        classify,
        node("ReduceSum", ["scores"], ["sum"]),
        node("Div", ["scores", "sum"], ["z"]),
    ]

    assert replaced(write(tmp_path / "m.onnx", nodes)) is None


def test_a_quotient_with_a_declared_type_is_followed(tmp_path):
    """An operator that is not known in any other way."""
    nodes = [
        node("Unknown", ["x"], ["d"], domain=MINE),
        node("Div", ["d", "d"], ["z"]),
    ]
    path = write(tmp_path / "m.onnx", nodes)
    assert replaced(path) is not None
    model = onnx.load(path)
    model.graph.value_info.append(tensor("d", 0, [4]))
    model.graph.value_info[0].type.tensor_type.ClearField("elem_type")
    onnx.save(model, path)
    assert replaced(path) is not None
    model.graph.value_info[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    onnx.save(model, path)

    assert replaced(path) is None
