"""Protobuf messages from field numbers, as a client in any language puts them on the wire. Pure.

Source: Protocol Buffers encoding: a field is a varint of number and wire type, then its value.
"""

_VARINT, _LENGTH = 0, 2


def varint(number: int) -> bytes:
    """Seven bits a byte, the least significant first: 300 is AC 02.

    Raises:
        ValueError: The number is negative.
    """
    if number < 0:
        raise ValueError(f"{number} is negative")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def integer(field: int, value: int) -> bytes:
    """A field of an integer or enum type."""
    return varint(field << 3 | _VARINT) + varint(value)


def block(field: int, content: str | bytes) -> bytes:
    """A field of type string, bytes, message, or a packed list."""
    data = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | _LENGTH) + varint(len(data)) + data
