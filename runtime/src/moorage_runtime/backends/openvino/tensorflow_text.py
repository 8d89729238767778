"""Operators of text in a TensorFlow graph that OpenVINO must not read.

    saved_model.pb, frozen graph -> check_text() -> the library's reader

The library's reader computes what depends on constants only, and then copies text as if it were
numbers, as ``openvino.operators`` describes: a slice of a constant list of labels becomes freed
memory, which the model would return, or which ends the process. The graph is therefore checked
before the library reads it. Pure.
"""

from collections.abc import Collection, Iterable
from typing import Final

from moorage_runtime.backends.openvino._generated import saved_model_pb2
from moorage_runtime.backends.openvino.tensorflow_graph import full_name
from moorage_runtime.values.errors import InvalidConfig

# Source: enum DataType in TensorFlow's types.proto.
_TEXT: Final = 7
# Operators that were tested with text, and those that read its shape only.
_TEXT_OPERATORS: Final = frozenset(
    {
        "Concat",
        "ConcatV2",
        "Const",
        "ExpandDims",
        "Gather",
        "GatherV2",
        "HashTable",
        "HashTableV2",
        "Identity",
        "LookupTableFind",
        "LookupTableFindV2",
        "Pack",
        "Placeholder",
        "PlaceholderWithDefault",
        "Rank",
        "Reshape",
        "Shape",
        "Size",
        "Transpose",
    }
)


def check_text(
    graph: saved_model_pb2.Graph,
    outputs: Iterable[str] | None = None,
    inputs: Collection[str] = (),
) -> None:
    """Refuse operators of text that the library reads wrongly.

    Args:
        graph: The graph, with its functions.
        outputs: Tensors that are computed; None for all nodes.
        inputs: Tensors that are given.

    Raises:
        InvalidConfig: The outputs need such an operator.
    """
    nodes = graph.node if outputs is None else _needed(graph, outputs, inputs)
    bodies = {function.signature.name: function.node_def for function in graph.library.function}
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            if node.op not in _TEXT_OPERATORS and _has_text(node):
                raise InvalidConfig(f"operator {node.op} '{node.name}' does not support text")
            # taken out, because a function's body is checked once
            called = (bodies.pop(name, None) for name in _called(node))
            waiting.extend(body for body in called if body is not None)


def _needed(
    graph: saved_model_pb2.Graph, outputs: Iterable[str], inputs: Collection[str]
) -> list[saved_model_pb2.Node]:
    """The nodes that outputs depend on."""
    nodes = {node.name: node for node in graph.node}
    found: dict[str, saved_model_pb2.Node] = {}
    waiting = [full_name(output) for output in outputs]
    while waiting:
        tensor = waiting.pop()
        name = tensor.rpartition(":")[0]
        if tensor not in inputs and name in nodes and name not in found:
            found[name] = nodes[name]
            waiting.extend(map(full_name, nodes[name].input))
    return list(found.values())


def _has_text(node: saved_model_pb2.Node) -> bool:
    return any(attribute.type == _TEXT for attribute in node.attr.values())


def _called(node: saved_model_pb2.Node) -> Iterable[str]:
    """Names of the functions that a node calls; TensorFlow 1 has them as operators."""
    yield node.op
    for attribute in node.attr.values():
        yield attribute.func.name
        yield from (each.name for each in attribute.list.func)
