"""Encodes fields of a serialized model (Protocol Buffers, "Encoding"). Pure."""

__all__ = ["field", "text_field"]


def field(number: int, value: int | bytes | memoryview) -> bytes:
    """A number that is not negative, or a field with a length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return b"".join((_varint(number << 3 | 2), _varint(len(value)), value))


def text_field(number: int, text: str) -> bytes:
    """A field with a text."""
    return field(number, text.encode())


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
