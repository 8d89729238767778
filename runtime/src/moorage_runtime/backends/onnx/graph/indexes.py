"""Which inputs of a graph are indexes, and how large they may be.

Graph -> bounds() -> input name to the size of the dimension that it indexes

A GPU does not check indexes: an embedding of a token that does not exist is zero, where the CPU
fails. So the backend checks these inputs before a run on a GPU. Only indexes that come from an
input unchanged, and that select from a constant, are found. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from moorage_runtime.backends.onnx.graph.file import Graph, Node

__all__ = ["bounds"]

# Operators with a result that has every element of the first input, and no other.
_SAME_ELEMENTS: Final = {
    "Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose",
}  # fmt: skip
# Operators with a result that has the shape of the first input.
_SAME_SHAPE: Final = {"Identity", "Cast", "DequantizeLinear"}
# The places of the indexes and of the constant among the inputs, by operator.
_INDEXED: Final[Mapping[tuple[str, str], tuple[tuple[int, int], ...]]] = {
    ("", "Gather"): ((1, 0),),
    ("", "GatherElements"): ((1, 0),),
    # tokens and segments, and their embeddings
    ("com.microsoft", "EmbedLayerNormalization"): ((0, 2), (1, 4)),
}


def bounds(graph: Graph) -> dict[str, int]:
    """The size of the smallest dimension that each of these inputs indexes.

    Valid elements are from -size to size - 1 (ONNX Operators, "Gather").
    """
    sources = {name: name for name in graph.inputs}
    shapes = {name: tensor.dims for name, tensor in graph.initializers.items()}
    found: dict[str, int] = {}
    for node in graph.nodes:
        for name, size in _indexed(node, sources, shapes):
            found[name] = min(size, found.get(name, size))
        if not node.domain and node.inputs:
            first = node.inputs[0]
            if node.operator in _SAME_ELEMENTS and first in sources:
                sources[node.outputs[0]] = sources[first]
            if node.operator in _SAME_SHAPE and first in shapes:
                shapes[node.outputs[0]] = shapes[first]
    return found


def _indexed(
    node: Node, sources: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, int]]:
    """The inputs of the graph with which a node selects, and the sizes of the dimensions."""
    for indexes, constant in _INDEXED.get((node.domain, node.operator), ()):
        if max(indexes, constant) < len(node.inputs):
            name, shape = sources.get(node.inputs[indexes]), shapes.get(node.inputs[constant])
            axis = node.attributes.get("axis", 0)
            if name and shape and isinstance(axis, int) and -len(shape) <= axis < len(shape):
                yield name, shape[axis]
