"""Which tensors of a graph are indexes, and into what.

    Graph -> find() -> Indexes(inputs to check before a run, selections to check after it)

A GPU does not check indexes: an embedding of a token that does not exist is zero, where the CPU
fails. So the backend checks them. Inputs that select from a constant are checked before a run. The
other indexes are known only when the graph has computed them. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from moorage_runtime.backends.onnx.graph.file import Graph, Node

__all__ = ["Indexes", "Selection", "find"]

# Operators with a result that has every element of the first input, and no other.
_SAME_ELEMENTS: Final = {
    "Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose",
}  # fmt: skip
# Operators with a result that has the shape of the first input.
_SAME_SHAPE: Final = {"Identity", "Cast", "DequantizeLinear"}
# The places of the indexes and of the data among the inputs, by operator.
_INDEXED: Final[Mapping[tuple[str, str], tuple[tuple[int, int], ...]]] = {
    ("", "Gather"): ((1, 0),),
    ("", "GatherElements"): ((1, 0),),
    ("", "GatherND"): ((1, 0),),
    ("", "Scatter"): ((1, 0),),
    ("", "ScatterElements"): ((1, 0),),
    ("", "ScatterND"): ((1, 0),),
    # tokens and segments, and their embeddings
    ("com.microsoft", "EmbedLayerNormalization"): ((0, 2), (1, 4)),
}
# Operators whose last dimension of indexes selects along several dimensions at once.
_MANY_AXES: Final = {"GatherND", "ScatterND"}


class Selection(msgspec.Struct, frozen=True):
    """A node with indexes that are known only after a run.

    Attributes:
        operator: Operator type, such as "Gather".
        node: Name from the exporter, or "".
        indexes: Name of the tensor of indexes.
        data: Name of the tensor that they index.
        axis: The dimension of the data that they index, from -rank to rank - 1; the first one if
            they index several.
        many_axes: The last dimension of the indexes counts the dimensions of the data.
    """

    operator: str
    node: str
    indexes: str
    data: str
    axis: int = 0
    many_axes: bool = False


class Indexes(msgspec.Struct, frozen=True):
    """All indexes of a graph.

    Attributes:
        inputs: Name of each input that selects from a constant, to the size of the smallest
            dimension that it indexes.
        selections: The nodes with other indexes.
        unseen: Operators with graphs or functions of their own, whose nodes may select as well.
    """

    inputs: Mapping[str, int]
    selections: tuple[Selection, ...] = ()
    unseen: tuple[str, ...] = ()


def find(graph: Graph) -> Indexes:
    """Find the indexes of a graph.

    Valid elements are from -size to size - 1 (ONNX Operators, "Gather").
    """
    sources = {name: name for name in graph.inputs}
    shapes = {name: tensor.dims for name, tensor in graph.initializers.items()}
    # results of Shape: their size is the same in every run
    shape_results: set[str] = set()
    inputs: dict[str, int] = {}
    selections: list[Selection] = []
    for node in graph.nodes:
        for selection in _selections(node):
            name, size = sources.get(selection.indexes), _size(selection, shapes)
            is_fixed = selection.indexes in graph.initializers and selection.data in shape_results
            if name is not None and size is not None:
                inputs[name] = min(size, inputs.get(name, size))
            elif not is_fixed:
                selections.append(selection)
        if not node.domain and node.inputs and node.outputs:
            first = node.inputs[0]
            if node.operator == "Shape":
                shape_results.add(node.outputs[0])
            if node.operator in _SAME_ELEMENTS and first in sources:
                sources[node.outputs[0]] = sources[first]
            if node.operator in _SAME_SHAPE and first in shapes:
                shapes[node.outputs[0]] = shapes[first]
    return Indexes(inputs, tuple(selections), tuple(_unseen(graph)))


def _selections(node: Node) -> Iterator[Selection]:
    """What a node selects with indexes."""
    many_axes = node.operator in _MANY_AXES
    axis = node.attributes.get("batch_dims" if many_axes else "axis", 0)
    for indexes, data in _INDEXED.get((node.domain, node.operator), ()):
        is_given = max(indexes, data) < len(node.inputs) and node.inputs[indexes]
        # ONNX Runtime does not load a model with an axis of another type
        if is_given and isinstance(axis, int):
            inputs = node.inputs[indexes], node.inputs[data]
            yield Selection(node.operator, node.name, *inputs, axis, many_axes)


def _size(selection: Selection, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    """The size of the one dimension that is indexed, if the data is a constant."""
    shape = shapes.get(selection.data, ())
    if selection.many_axes or not -len(shape) <= selection.axis < len(shape):
        return None
    return shape[selection.axis]


def _unseen(graph: Graph) -> Iterator[str]:
    """The operators with a graph or function whose nodes may select."""
    selecting = {operator for _, operator in _INDEXED} | {name for _, name in graph.functions}
    found = (
        node.operator
        for node in graph.nodes
        if selecting
        & (node.within | graph.functions.get((node.domain, node.operator), frozenset()))
    )
    return iter(dict.fromkeys(found))
