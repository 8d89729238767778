"""The structure that is read from the bytes of an ONNX file."""

import pathlib
import struct

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

from moorage_runtime.backends.onnx.graph import file as onnx_file
from moorage_runtime.backends.onnx.graph.file import Graph, Node, NotReadable, TensorData

SUBGRAPH = helper.make_graph([], "inner", [], [])


def varint(number: int) -> bytes:
    """An integer as protobuf writes it."""
    number %= 1 << 64
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message: an integer, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed32(number: int, value: float) -> bytes:
    """A field of 4 bytes."""
    return varint(number << 3 | 5) + struct.pack("<f", value)


def fixed64(number: int, value: float) -> bytes:
    """A field of 8 bytes."""
    return varint(number << 3 | 1) + struct.pack("<d", value)


@pytest.fixture
def read(tmp_path: pathlib.Path):
    """Reads the bytes of a file."""

    def read_bytes(data: bytes) -> Graph:
        (tmp_path / "model.onnx").write_bytes(data)
        return onnx_file.read(tmp_path / "model.onnx")

    return read_bytes


@pytest.fixture
def read_attribute(read):
    """Reads the fields of one attribute that is named "a"; None if it has no value."""

    def read_fields(*fields: bytes) -> onnx_file.Attribute | None:
        node = field(5, field(1, b"a") + b"".join(fields))
        (found,) = read(field(7, field(1, node))).nodes
        assert set(found.attributes) <= {"a"}
        assert not found.has_graph
        return found.attributes.get("a")

    return read_fields


@pytest.fixture
def read_tensor(read):
    """Reads one initializer from its fields."""

    def read_fields(*fields: bytes) -> TensorData:
        (found,) = read(field(7, field(5, b"".join(fields)))).initializers.values()
        return found

    return read_fields


def test_a_model_is_read_as_its_nodes_inputs_outputs_and_constants(read):
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", ""], ["h"], name="first", alpha=0.5, transB=1),
            helper.make_node("Own", ["h"], ["y", ""], domain="com.example"),
            helper.make_node("Relu", ["y"], ["z"], domain="ai.onnx"),
        ],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, None]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("scalar", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("any", TensorProto.FLOAT, None),
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]),
        ],
        [helper.make_tensor("w", TensorProto.FLOAT, [1, 2], [0.5, 2.0])],
        doc_string="words",
        value_info=[helper.make_tensor_value_info("h", TensorProto.FLOAT, [1])],
    )
    opsets = [("", 18), ("com.example", 2), ("ai.onnx.ml", 3)]
    model = helper.make_model(
        graph,
        producer_name="exporter",
        doc_string="words",
        opset_imports=[helper.make_opsetid(*each) for each in opsets],
    )
    model.metadata_props.add(key="author", value="nobody")

    assert read(model.SerializeToString()) == Graph(
        (
            Node("Gemm", "", "first", ("x", "w", ""), ("h",), {"alpha": 0.5, "transB": 1}),
            Node("Own", "com.example", "", ("h",), ("y", ""), {}),
            Node("Relu", "", "", ("y",), ("z",), {}),
        ),
        {"x": (-1, 3, -1), "scalar": (), "any": None, "list": None},
        ("z", "y"),
        {"w": TensorData("w", (1, 2), (0.5, 2.0))},
        {"": 18, "com.example": 2, "ai.onnx.ml": 3},
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5),
        (7, 7),
        (-7, -7),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        ("text", b"text"),
        ([0.5, -2.0], (0.5, -2.0)),
        ([1, -2, 300], (1, -2, 300)),
        (["a", "bc"], (b"a", b"bc")),
        (
            helper.make_tensor("t", TensorProto.INT64, [2], [-1, 6]),
            TensorData("t", (2,), (-1, 6)),
        ),
    ],
)
def test_an_attribute_of_each_kind(read_attribute, value, expected):
    data = helper.make_attribute("a", value).SerializeToString()

    assert read_attribute(data.removeprefix(field(1, b"a"))) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([fixed32(2, 0.25), fixed32(2, 0.5)], 0.5),
        ([field(3, 1), field(3, 2)], 2),
        ([field(4, b"a"), field(4, b"b")], b"b"),
        ([fixed32(7, 0.5), fixed32(7, 2.0)], (0.5, 2.0)),
        ([field(7, struct.pack("<2f", 1, 2)), field(7, struct.pack("<f", 3))], (1, 2, 3)),
        ([field(8, 1), field(8, -1)], (1, -1)),
        ([field(8, varint(1) + varint(-1)), field(8, varint(300))], (1, -1, 300)),
        ([field(9, b"a"), field(9, 1)], (b"a",)),
        ([field(5, field(8, b"t")), field(5, field(8, b"u"))], TensorData("u", ())),
        # a kind that the analysis does not need
        ([field(20, AttributeProto.TYPE_PROTO)], None),
        ([field(20, AttributeProto.INT), field(20, AttributeProto.TYPE_PROTO)], None),
    ],
)
def test_an_attribute_in_other_forms(read_attribute, fields, expected):
    assert read_attribute(*fields) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (AttributeProto.FLOAT, 0.0),
        (AttributeProto.INT, 0),
        (AttributeProto.STRING, b""),
        (AttributeProto.FLOATS, ()),
        (AttributeProto.INTS, ()),
        (AttributeProto.STRINGS, ()),
        (AttributeProto.TENSOR, None),
    ],
)
def test_an_attribute_without_a_value_has_that_of_its_kind(read_attribute, kind, expected):
    assert read_attribute(field(20, kind)) == expected


@pytest.mark.parametrize(
    ("value", "has_graph"), [(SUBGRAPH, True), ([SUBGRAPH, SUBGRAPH], True), (7, False)]
)
@pytest.mark.parametrize("is_last", [True, False])
def test_whether_a_node_contains_a_graph(read, value, has_graph, is_last):
    node = helper.make_node("If", ["x"], ["y"])
    attributes = [helper.make_attribute("a", value), helper.make_attribute("b", 1)]
    node.attribute.extend(attributes if not is_last else attributes[::-1])

    (found,) = read(field(7, field(1, node.SerializeToString()))).nodes

    assert found.has_graph is has_graph
    assert found.attributes == ({"b": 1} if has_graph else {"a": 7, "b": 1})


def test_the_last_of_a_repeated_field_counts(read):
    node = b"".join(
        field(number, text)
        for number in (3, 4, 7)
        for text in (b"before", b"after" + bytes([48 + number]))
    ) + field(5, field(1, b"before") + field(1, b"after") + field(3, 1))
    opset = field(1, b"before") + field(1, b"after") + field(2, 17) + field(2, 18)

    found = read(field(7, b"") + field(8, opset) + field(7, field(1, node)))

    assert found.nodes == (Node("after4", "after7", "after3", (), (), {"after": 1}),)
    assert found.opsets == {"after": 18}


def test_a_name_or_shape_that_is_missing_is_empty(read):
    node = field(5, field(3, 1))
    values = field(11, field(1, b"x")) + field(11, field(2, field(1, field(2, b""))))

    found = read(field(7, field(1, node) + values + field(12, b"")))

    assert found == Graph((Node("", "", "", (), (), {"": 1}),), {"x": None, "": ()}, ("",), {}, {})


@pytest.mark.parametrize(
    ("opset", "expected"),
    [
        (field(2, 18), {"": 18}),
        (field(1, b"ai.onnx") + field(2, 18), {"": 18}),
        (field(1, b"com.example"), {"com.example": 0}),
        (field(1, 5) + field(2, b"x") + field(3, 7) + field(4, b"y"), {"": 0}),
    ],
)
def test_the_version_of_an_operator_set(read, opset, expected):
    assert read(field(7, b"") + field(8, opset)).opsets == expected


def test_fields_of_other_types_and_numbers_are_skipped(read):
    unknown = field(30, 7) + field(31, b"x") + fixed32(32, 1) + fixed64(33, 1)
    wrong = b"".join(field(number, 7) for number in (1, 2, 3, 4, 7, 8, 11, 12))
    node = wrong + unknown + field(4, b"Relu") + unknown
    value = unknown + field(1, 7) + field(2, 7) + field(1, b"x") + unknown
    shape = field(1, field(2, unknown + field(1, field(1, 3)) + unknown))
    graph = wrong + unknown + field(1, node) + field(11, value + field(2, shape)) + unknown

    found = read(unknown + wrong + field(7, graph) + unknown + wrong)

    assert found == Graph((Node("Relu", "", "", (), (), {}),), {"x": (3,)}, (), {}, {})


@pytest.mark.parametrize(
    ("dimension", "expected"),
    [
        (field(1, 3), 3),
        (field(1, 0), 0),
        (field(1, -1), -1),
        (field(2, b"batch"), -1),
        (field(1, b"batch"), -1),
        (field(2, 3), -1),
        (b"", -1),
    ],
)
def test_a_dimension_is_a_size_or_variable(read, dimension, expected):
    shape = field(1, dimension) + field(2, b"") + field(1, field(1, 4))
    value = field(1, b"x") + field(2, field(1, field(1, 1) + field(2, shape)))

    assert read(field(7, field(11, value))).inputs == {"x": (expected, 4)}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TensorProto.FLOAT, (0.5, -2.0)),
        (TensorProto.INT32, (-7, 300)),
        (TensorProto.INT64, (-1, 2**40)),
        (TensorProto.BOOL, (True, False)),
        (TensorProto.DOUBLE, (0.1, -0.25)),
    ],
)
def test_a_small_constant_is_read_in_each_form(read_tensor, kind, values):
    typed = helper.make_tensor("t", kind, [2, 1], values)
    raw = np.array(values, helper.tensor_dtype_to_np_dtype(kind)).tobytes()
    in_bytes = helper.make_tensor("t", kind, [2, 1], raw, raw=True)

    for each in (typed, in_bytes):
        assert read_tensor(each.SerializeToString()) == TensorData("t", (2, 1), values)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # a scalar
        ([field(2, 7), field(7, varint(-5))], TensorData("", (), (-5,))),
        # several lists, single numbers, and a field that does not belong to the kind
        (
            [
                field(1, 3),
                field(2, 7),
                field(7, varint(1) + varint(300)),
                field(5, 9),
                field(7, 3),
            ],
            TensorData("", (3,), (1, 300, 3)),
        ),
        (
            [field(1, 2), field(2, 1), fixed32(4, 0.5), fixed32(4, 2.0)],
            TensorData("", (2,), (0.5, 2.0)),
        ),
        (
            [field(1, 2), field(2, 11), fixed64(10, 0.5), fixed64(10, 2.0), fixed32(4, 1)],
            TensorData("", (2,), (0.5, 2.0)),
        ),
        ([field(1, varint(2) + varint(300))], TensorData("", (2, 300))),
        # fields of another type
        (
            [field(2, 7), field(2, b"x"), field(8, b"t"), field(8, 7), field(9, 7), field(7, 1)],
            TensorData("t", (), (1,)),
        ),
        # another number of elements than that of the shape, as in external data
        ([field(1, 2), field(2, 7), field(7, 1)], TensorData("", (2,))),
        ([field(1, 0), field(2, 7)], TensorData("", (0,), ())),
        ([field(1, -1), field(2, 7), field(7, 1)], TensorData("", (-1,))),
        # neither a kind of numbers nor any kind
        ([field(2, TensorProto.STRING), field(6, b"x")], TensorData("", ())),
        ([fixed32(4, 1)], TensorData("", ())),
    ],
)
def test_a_constant_in_other_forms(read_tensor, fields, expected):
    assert read_tensor(*fields) == expected


@pytest.mark.parametrize(("shape", "is_read"), [([256], True), ([16, 16], True), ([257], False)])
def test_weights_are_not_read(read_tensor, shape, is_read):
    values = range(np.prod(shape))
    tensor = helper.make_tensor("w", TensorProto.INT64, shape, values)

    found = read_tensor(tensor.SerializeToString())

    assert found == TensorData("w", tuple(shape), tuple(values) if is_read else None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot mmap an empty file"),
        (field(1, 8), "it has no graph"),
        (field(7, 8), "it has no graph"),
        (b"\x0b", "unknown wire type 3"),
        (b"\x3a\x05abcd", "a field is truncated"),
        (varint(30 << 3 | 5) + b"abc", "a field is truncated"),
        (varint(30 << 3 | 1) + b"abcdefg", "a field is truncated"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "a number has more than 64 bits"),
        (b"\x08\xff", "index out of bounds on dimension 1"),
    ],
)
def test_a_file_that_is_no_model_is_not_readable(read, data, reason):
    with pytest.raises(NotReadable) as caught:
        read(data)

    assert str(caught.value) == f"model.onnx cannot be read as an ONNX graph: {reason}"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (b"", "attribute 'a' has no value"),
        (field(20, 0), "attribute 'a' has no value"),
        (field(7, 1), "a floating-point number has the wire type of an integer"),
        (field(2, 1), "a field has the wire type of an integer"),
        (field(3, b"x"), "an integer has the wire type of bytes"),
        (field(20, b"x"), "an integer has the wire type of bytes"),
        (field(1, 7), "a field has the wire type of an integer"),
        (field(2, b"12345"), "unpack requires a buffer of 4 bytes"),
    ],
)
def test_a_damaged_attribute_is_not_readable(read_attribute, fields, reason):
    with pytest.raises(NotReadable) as caught:
        read_attribute(fields)

    assert str(caught.value) == f"model.onnx cannot be read as an ONNX graph: {reason}"


def test_a_missing_file_is_not_readable(tmp_path):
    with pytest.raises(NotReadable, match="No such file or directory"):
        onnx_file.read(tmp_path / "model.onnx")


def test_a_file_that_ends_early_is_not_readable(read):
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "graph", [], [])
    whole = onnx.ModelProto(ir_version=9, graph=graph).SerializeToString()

    for size in range(2, len(whole)):
        with pytest.raises(NotReadable):
            read(whole[:size])


def graph_of(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "inner", [], [])


def test_a_node_has_the_operators_of_its_graphs_at_any_depth(read):
    loop = helper.make_node("Loop", [], [], body=graph_of(helper.make_node("Neg", [], [])))
    branches = {
        "then_branch": graph_of(helper.make_node("Abs", [], []), loop),
        "else_branch": graph_of(helper.make_node("Exp", [], [])),
    }
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], **branches), helper.make_node("Abs", ["y"], ["z"])],
        "g",
        [],
        [],
    )

    branching, plain = read(helper.make_model(graph).SerializeToString()).nodes

    assert branching.within == {"Abs", "Loop", "Neg", "Exp"}
    assert (plain.within, plain.has_graph) == (frozenset(), False)


def test_a_function_has_its_domain_and_name_and_operators(read):
    opsets = [helper.make_opsetid("", 18)]
    inner = graph_of(helper.make_node("Neg", [], []))
    nodes = [
        helper.make_node("Abs", ["a"], ["b"]),
        helper.make_node("If", ["b"], ["c"], then_branch=inner, else_branch=inner),
    ]
    functions = [
        helper.make_function("own", "Select", ["a"], ["c"], nodes, opsets),
        helper.make_function("own", "Nothing", [], [], [], opsets),
    ]
    graph = helper.make_graph([], "g", [], [])
    model = helper.make_model(graph, functions=[*functions, onnx.FunctionProto()])

    assert read(model.SerializeToString()).functions == {
        ("own", "Select"): {"Abs", "If", "Neg"},
        ("own", "Nothing"): frozenset(),
        ("", ""): frozenset(),
    }


def elsewhere(name, location):
    """A constant in another file."""
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2])
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("offset", "0"), ("location", location)):
        made.external_data.add(key=key, value=value)
    return made


def test_files_of_weights_are_found_in_every_graph():
    inner = helper.make_graph([], "inner", [], [], [elsewhere("a", "a.bin")])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    listed = helper.make_node("Own", [], [], domain="mine", graphs=[inner], size=3)
    graph = helper.make_graph(
        [branch, listed],
        "graph",
        [],
        [],
        [elsewhere("b", "b.bin"), onnx.numpy_helper.from_array(np.ones(2), "c")],
    )
    data = memoryview(helper.make_model(graph).SerializeToString())

    assert onnx_file.weight_files(data) == {"a.bin", "b.bin"}
