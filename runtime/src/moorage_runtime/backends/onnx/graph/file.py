"""Reads the structure of an ONNX file without loading its weights.

model.onnx -> read() -> Graph(nodes, inputs, outputs, initializers)

ONNX Runtime exposes only inputs and outputs, and the ``onnx`` package is a large dependency. The
file is a protobuf message, of which this module reads the few fields that the static analysis in
``rows`` needs. Large fields are skipped in place, so the size of the weights does not matter.
"""

import mmap
import pathlib
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

Number = int | float

# Initializers with more elements are weights, whose values are not read.
_MOST_ELEMENTS: Final = 256
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# TensorProto.DataType to the format of a raw element, and to its field for typed values.
_RAW: Final = {1: "f", 6: "i", 7: "q", 9: "?", 11: "d"}
_TYPED: Final = {1: 4, 6: 5, 7: 7, 9: 5, 11: 10}


class NotReadable(Exception):
    """The file is not an ONNX model that this module can read."""


class TensorData(msgspec.Struct, frozen=True):
    """A constant tensor.

    Attributes:
        name: Tensor name.
        dims: Its shape.
        elements: All elements in order; None for weights and for datatypes other than numbers.
    """

    name: str
    dims: tuple[int, ...]
    elements: tuple[Number, ...] | None = None


Attribute = Number | bytes | tuple[Number, ...] | tuple[bytes, ...] | TensorData
# AttributeProto.AttributeType to the default value of its field.
_EMPTY: Final[Mapping[int, Attribute]] = {1: 0.0, 2: 0, 3: b"", 6: (), 7: (), 8: ()}


class Node(msgspec.Struct, frozen=True):
    """One operator of the graph.

    Attributes:
        operator: Operator type, such as "MatMul".
        domain: Operator set; "" is ONNX's own.
        name: Name from the exporter, or "".
        inputs: Tensor names; "" for an omitted optional input.
        outputs: Tensor names; "" for an omitted optional output.
        attributes: Attribute name to value.
        has_graph: An attribute contains a graph, as in control flow.
        within: The operators of these graphs, at any depth.
    """

    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    has_graph: bool = False
    within: frozenset[str] = frozenset()


class Graph(msgspec.Struct, frozen=True):
    """The main graph of a model.

    Attributes:
        nodes: In topological order.
        inputs: Name to shape with -1 for a variable dimension; None if the file has no shape.
        outputs: Names, in order.
        initializers: Constants by name.
        opsets: Domain to version; ONNX's own domain is "".
        functions: Domain and name of each function of the model, to the operators in it.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[str, tuple[int, ...] | None]
    outputs: tuple[str, ...]
    initializers: Mapping[str, TensorData]
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], frozenset[str]] = msgspec.field(default_factory=dict)


def read(path: pathlib.Path) -> Graph:
    """Read the structure of a model file.

    Raises:
        NotReadable: The file is empty, truncated, or not a model.
    """
    try:
        return _model(content(path))
    except (OSError, TypeError, ValueError, IndexError, struct.error) as error:
        raise NotReadable(f"{path.name} cannot be read as an ONNX graph: {error}") from error


def content(path: pathlib.Path) -> memoryview:
    """The bytes of a file, of which only those that are used are read.

    Raises:
        OSError: It cannot be read.
        ValueError: It is empty.
    """
    with path.open("rb") as file:
        # the file is unmapped with its last view: closing it earlier fails while a traceback
        # holds views
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def weight_files(data: memoryview) -> frozenset[str]:
    """The locations of the weights that a model keeps in other files."""
    return frozenset(name for graph in messages(data, 7) for name in _locations(graph))


def _locations(graph: memoryview) -> Iterator[str]:
    for tensor in messages(graph, 5):
        for entry in messages(tensor, 13):
            key, value = (b"".join(messages(entry, number)) for number in (1, 2))
            if key == b"location":
                yield value.decode()
    for node in messages(graph, 1):
        for attribute in messages(node, 5):
            for number, value in fields(attribute):
                if number in (6, 11) and isinstance(value, memoryview):
                    yield from _locations(value)


def _model(data: memoryview) -> Graph:
    opsets: dict[str, int] = {}
    functions: dict[tuple[str, str], frozenset[str]] = {}
    graph: memoryview | None = None
    for number, value in fields(data):
        if number == 7 and isinstance(value, memoryview):
            graph = value
        elif number == 8 and isinstance(value, memoryview):
            opsets.update([opset_of(value)])
        elif number == 25 and isinstance(value, memoryview):
            functions.update([_function(value)])
    if graph is None:
        raise ValueError("it has no graph")
    return _graph(graph, opsets, functions)


def _graph(
    data: memoryview,
    opsets: Mapping[str, int],
    functions: Mapping[tuple[str, str], frozenset[str]],
) -> Graph:
    nodes: list[Node] = []
    inputs: dict[str, tuple[int, ...] | None] = {}
    outputs: list[str] = []
    initializers: dict[str, TensorData] = {}
    for number, value in fields(data):
        if not isinstance(value, memoryview):
            continue
        if number == 1:
            nodes.append(node_of(value))
        elif number == 5:
            tensor = tensor_of(value)
            initializers[tensor.name] = tensor
        elif number == 11:
            name, shape = _value_info(value)
            inputs[name] = shape
        elif number == 12:
            outputs.append(_value_info(value)[0])
    # up to version 3 of the format, the inputs also include initializers
    wanted = {name: shape for name, shape in inputs.items() if name not in initializers}
    return Graph(tuple(nodes), wanted, tuple(outputs), initializers, opsets, functions)


def opset_of(data: memoryview) -> tuple[str, int]:
    """Domain and version of an ``OperatorSetIdProto``; ONNX's own domain is ""."""
    domain, version = "", 0
    for number, value in fields(data):
        if number == 1 and isinstance(value, memoryview):
            domain = text_of(value)
        elif number == 2 and isinstance(value, int):
            version = value
    return "" if domain == "ai.onnx" else domain, version


def _function(data: memoryview) -> tuple[tuple[str, str], frozenset[str]]:
    texts = {1: "", 10: ""}
    operators: set[str] = set()
    for number, value in fields(data):
        if number in texts and isinstance(value, memoryview):
            texts[number] = text_of(value)
        elif number == 7 and isinstance(value, memoryview):
            node = node_of(value)
            operators |= {node.operator, *node.within}
    return (texts[10], texts[1]), frozenset(operators)


def node_of(data: memoryview) -> Node:
    """The operator of a ``NodeProto``."""
    texts: dict[int, list[str]] = {1: [], 2: [], 3: [""], 4: [""], 7: [""]}
    attributes: dict[str, Attribute] = {}
    has_graph = False
    within: set[str] = set()
    for number, value in fields(data):
        if not isinstance(value, memoryview):
            continue
        if number == 5:
            name, attribute, graphs = _attribute(value)
            has_graph = has_graph or bool(graphs)
            for graph in graphs:
                for node in map(node_of, messages(graph, 1)):
                    within |= {node.operator, *node.within}
            if attribute is not None:
                attributes[name] = attribute
        elif number in texts:
            texts[number].append(text_of(value))
    domain = texts[7][-1]
    return Node(
        texts[4][-1],
        "" if domain == "ai.onnx" else domain,
        texts[3][-1],
        tuple(texts[1]),
        tuple(texts[2]),
        attributes,
        has_graph,
        frozenset(within),
    )


def _attribute(data: memoryview) -> tuple[str, Attribute | None, list[memoryview]]:
    """Name, value and graphs; the value of other kinds is None."""
    found: dict[int, list[int | memoryview]] = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    name = _packed(found[1]).decode() if 1 in found else ""
    if 6 in found or 11 in found:
        graphs = found.get(6, []) + found.get(11, [])
        return name, None, [graph for graph in graphs if isinstance(graph, memoryview)]
    for number, read_all in _ATTRIBUTE_FIELDS.items():
        if number in found:
            return name, read_all(found[number]), []
    kind = _one_integer(found.get(20, [0]))
    if kind == 0:
        raise ValueError(f"attribute '{name}' has no value")
    # some writers omit zeros and empty lists
    return name, _EMPTY.get(kind), []


def tensor_of(data: memoryview) -> TensorData:
    """The constant of a ``TensorProto``."""
    name = ""
    dims: list[int] = []
    kind = 0
    raw: memoryview | None = None
    typed: list[tuple[int, int | memoryview]] = []
    for number, value in fields(data):
        if number == 1:
            dims += _integers(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 7, 10):
            typed.append((number, value))
        elif number == 8 and isinstance(value, memoryview):
            name = text_of(value)
        elif number == 9 and isinstance(value, memoryview):
            raw = value
    count = 1
    for size in dims:
        count *= size
    elements = None if count > _MOST_ELEMENTS else _elements(kind, raw, typed)
    if elements is not None and len(elements) != count:
        elements = None
    return TensorData(name, tuple(dims), elements)


def _elements(
    kind: int, raw: memoryview | None, typed: list[tuple[int, int | memoryview]]
) -> tuple[Number, ...] | None:
    if kind not in _RAW:
        return None
    if raw is not None:
        width = struct.calcsize(f"<{_RAW[kind]}")
        return struct.unpack(f"<{len(raw) // width}{_RAW[kind]}", raw)
    found: list[Number] = []
    for number, value in typed:
        if number != _TYPED[kind]:
            continue
        if number == 4:
            found += _floats(value)
        elif number == 10 and isinstance(value, memoryview):
            found += struct.unpack(f"<{len(value) // 8}d", value)
        else:
            found += _integers(value)
    return tuple(found)


def _value_info(data: memoryview) -> tuple[str, tuple[int, ...] | None]:
    name = ""
    shape: tuple[int, ...] | None = None
    for number, value in fields(data):
        if number == 1 and isinstance(value, memoryview):
            name = text_of(value)
        elif number == 2 and isinstance(value, memoryview):
            shape = _shape(value)
    return name, shape


def _shape(type_: memoryview) -> tuple[int, ...] | None:
    for tensor in messages(type_, 1):
        for shape in messages(tensor, 2):
            return tuple(_dimension(each) for each in messages(shape, 1))
    return None


def _dimension(data: memoryview) -> int:
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            return _signed(value)
    return -1


def messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    """The messages in one repeated field."""
    for number, value in fields(data):
        if number == wanted and isinstance(value, memoryview):
            yield value


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field; a value is an unsigned integer or a view of its bytes."""
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place)
        wire = key & 7
        if wire == _VARINT:
            number, place = _varint(data, place)
            yield key >> 3, number
            continue
        if wire == _BYTES:
            size, place = _varint(data, place)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"unknown wire type {wire}")
        if size > end - place:
            raise ValueError("a field is truncated")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def _integers(value: int | memoryview) -> list[int]:
    """One number, or packed ones."""
    if isinstance(value, int):
        return [_signed(value)]
    numbers: list[int] = []
    place = 0
    while place < len(value):
        number, place = _varint(value, place)
        numbers.append(_signed(number))
    return numbers


def _floats(value: int | memoryview) -> tuple[float, ...]:
    if isinstance(value, int):
        raise TypeError("a floating-point number has the wire type of an integer")
    return struct.unpack(f"<{len(value) // 4}f", value)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def text_of(value: memoryview) -> str:
    """The text of a field."""
    return bytes(value).decode()


def _packed(values: list[int | memoryview]) -> bytes:
    """The bytes of the last occurrence of a field, which is the one that counts."""
    if not isinstance(values[-1], memoryview):
        raise TypeError("a field has the wire type of an integer")
    return bytes(values[-1])


def _one_integer(values: list[int | memoryview]) -> int:
    if not isinstance(values[-1], int):
        raise TypeError("an integer has the wire type of bytes")
    return _signed(values[-1])


# The fields of AttributeProto that contain its value.
_ATTRIBUTE_FIELDS: Final[Mapping[int, Callable[[list[int | memoryview]], Attribute]]] = {
    7: lambda values: tuple(number for value in values for number in _floats(value)),
    8: lambda values: tuple(number for value in values for number in _integers(value)),
    9: lambda values: tuple(bytes(v) for v in values if isinstance(v, memoryview)),
    2: lambda values: float(struct.unpack("<f", _packed(values))[0]),
    3: _one_integer,
    4: _packed,
    5: lambda values: tensor_of(memoryview(_packed(values))),
}
