"""Decodes JSON from an untrusted server; pure.

This module handles all exceptions of the decoder: text that is not JSON, strings that are not
UTF-8 and documents that are nested too deeply. Decoding holds the interpreter's lock, so a thread
would not help the event loop. Instead, the number of commas and brackets bounds the cost of a
document.
"""

import msgspec

__all__ = ["NotJson", "decode"]

CONTAINER_LIMIT = 20_000
"""The number of opening brackets; an index of 10,000 models has half as many. Without a limit, a
MiB takes 54 ms."""

VALUE_LIMIT = 100_000
"""The number of commas, which bounds the number of values and keys."""


class NotJson(Exception):
    """The bytes are not a valid JSON document, or exceed a limit."""


def decode(data: bytes, *, value_limit: int = VALUE_LIMIT) -> object:
    """Decode a document.

    Raises:
        NotJson: The bytes are not JSON, are nested too deeply, or have too many values.
    """
    if data.count(b",") > value_limit or data.count(b"[") + data.count(b"{") > CONTAINER_LIMIT:
        raise NotJson("the body has too many values")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson("the body is not JSON") from error
