"""Appends outputs to a serialized model.

    names of tensors -> appended() -> bytes that follow the file's own

A second occurrence of a message's field is merged into the first (Protocol Buffers, "Last One
Wins"), so the nodes and outputs of a further ``ModelProto.graph`` are added to those of the model.
Pure.
"""

from collections.abc import Iterable, Mapping

__all__ = ["appended"]


def appended(tensors: Iterable[str], shapes: Mapping[str, str]) -> bytes:
    """What to append to a serialized ``ModelProto``.

    Args:
        tensors: Names of the tensors to output.
        shapes: Name of each new output, INT64 [rank], to the tensor whose shape it is. The names
            must be new.
    """
    nodes = (_field(1, _shape(output, tensor)) for output, tensor in shapes.items())
    outputs = (_field(12, _text(1, name)) for name in (*tensors, *shapes))
    return _field(7, b"".join((*nodes, *outputs)))


def _shape(output: str, tensor: str) -> bytes:
    return _text(1, tensor) + _text(2, output) + _text(4, "Shape")


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
