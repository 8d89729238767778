import pytest

from moorage_runtime.backends.openvino._generated import saved_model_pb2 as pb
from moorage_runtime.backends.openvino.tensorflow_text import check_text
from moorage_runtime.values.errors import InvalidConfig

FLOAT, TEXT = 1, 7


def node(name: str, op: str, *inputs: str, dtype: int = TEXT) -> pb.Node:
    return pb.Node(name=name, op=op, input=inputs, attr={"T": pb.Attribute(type=dtype)})


def calling(name: str, *inputs: str, **attributes: pb.Attribute) -> pb.Node:
    return pb.Node(name=name, op="PartitionedCall", input=inputs, attr=attributes)


def function(name: str, *nodes: pb.Node) -> pb.Library.Function:
    return pb.Library.Function(signature=pb.Library.Signature(name=name), node_def=nodes)


def library(*functions: pb.Library.Function) -> pb.Library:
    return pb.Library(function=functions)


SLICED = [
    node("labels", "Const"),
    node("some", "StridedSlice", "labels", "begin", "end", "strides"),
    node("y", "GatherV2", "some:0", "x"),
]


def test_a_slice_of_text_is_refused():
    with pytest.raises(InvalidConfig, match=r"operator StridedSlice 'some' does not support text"):
        check_text(pb.Graph(node=SLICED), ["y"])


def test_a_slice_of_numbers_and_other_operators_of_text_are_accepted():
    nodes = [
        node("labels", "Const"),
        node("shape", "Shape", "labels"),
        node("begin", "StridedSlice", "shape", dtype=FLOAT),
        node("y", "GatherV2", "labels", "begin"),
    ]

    check_text(pb.Graph(node=nodes), ["y:0"])


@pytest.mark.parametrize(
    ("outputs", "inputs"), [(["labels"], ()), (["y"], {"some:0"}), ([], ()), (["unknown"], ())]
)
def test_only_what_outputs_need_is_checked(outputs, inputs):
    check_text(pb.Graph(node=SLICED), outputs, inputs)


def test_all_nodes_of_a_frozen_graph_are_checked():
    with pytest.raises(InvalidConfig, match="StridedSlice"):
        check_text(pb.Graph(node=SLICED))


@pytest.mark.parametrize(
    "caller",
    [
        calling("y", f=pb.Attribute(func=pb.Attribute.Called(name="inner"))),
        calling(
            "y",
            branches=pb.Attribute(
                list=pb.Attribute.List(func=[pb.Attribute.Called(name=n) for n in ("a", "inner")])
            ),
        ),
        node("y", "inner", dtype=FLOAT),
    ],
    ids=["attribute", "branches", "operator"],
)
def test_functions_that_are_called_are_checked(caller):
    functions = library(function("a"), function("inner", *SLICED))

    with pytest.raises(InvalidConfig, match="StridedSlice"):
        check_text(pb.Graph(node=[caller], library=functions), ["y"])
    check_text(pb.Graph(node=[calling("y")], library=functions), ["y"])


def test_functions_that_call_each_other_are_checked_once():
    called = {n: pb.Attribute(func=pb.Attribute.Called(name=n)) for n in ("a", "b")}
    functions = library(
        function("a", calling("n", **called)), function("b", calling("n", **called))
    )

    check_text(pb.Graph(node=[calling("y", **called)], library=functions), ["y"])


def test_a_graph_that_loops_ends():
    loop = [node("a", "Identity", "b"), node("b", "Identity", "a")]

    check_text(pb.Graph(node=loop), ["a"])
