"""Whether an empty tensor may end the process. Pure.

    Graph -> fatal_operator() -> refused: requests in which a dimension is 0

ONNX Runtime's recurrent operators throw an exception in a thread if the batch is empty, and those
of GRU also if the sequence is. Unique does so if the slices along its axis are empty. No other
of 90 operators did when tried with each dimension empty.
"""

from typing import Final

from moorage_runtime.backends.onnx.graph.file import Graph, Node

__all__ = ["fatal_operator"]

_RECURRENT: Final = frozenset({"LSTM", "GRU", "DynamicQuantizeLSTM"})
_UNIQUE: Final = "Unique"
_INNER: Final = _RECURRENT | {_UNIQUE}


def fatal_operator(graph: Graph) -> str:
    """The first operator that an empty tensor can reach and that then ends the process; "" if
    there is none.
    """
    functions = frozenset[str]().union(*graph.functions.values())
    for node in graph.nodes:
        if found := _fatal(node):
            return found
        inner = node.within | (
            functions if (node.domain, node.operator) in graph.functions else set()
        )
        if found := sorted(_INNER & inner):
            return found[0]
    return ""


def _fatal(node: Node) -> str:
    """The operator, if it is one; Unique without an axis has no slices."""
    is_fatal = node.operator in _RECURRENT or (
        node.operator == _UNIQUE and "axis" in node.attributes
    )
    return node.operator if is_fatal else ""
