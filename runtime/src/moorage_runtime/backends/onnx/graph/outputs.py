"""Appends outputs to a serialized model.

    names of tensors -> appended() -> bytes that follow the file's own

A second occurrence of a message's field is merged into the first (Protocol Buffers, "Last One
Wins"), so the nodes and outputs of a further ``ModelProto.graph`` are added to those of the model.
Pure.
"""

from collections.abc import Iterable, Mapping

from moorage_runtime.backends.onnx.graph.encoding import field, text_field

__all__ = ["appended"]


def appended(tensors: Iterable[str], shapes: Mapping[str, str]) -> bytes:
    """What to append to a serialized ``ModelProto``.

    Args:
        tensors: Names of the tensors to output.
        shapes: Name of each new output, INT64 [rank], to the tensor whose shape it is. The names
            must be new.
    """
    nodes = (field(1, _shape(output, tensor)) for output, tensor in shapes.items())
    outputs = (field(12, text_field(1, name)) for name in (*tensors, *shapes))
    return field(7, b"".join((*nodes, *outputs)))


def _shape(output: str, tensor: str) -> bytes:
    return text_field(1, tensor) + text_field(2, output) + text_field(4, "Shape")
