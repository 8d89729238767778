"""JSON from a server that is not trusted; pure.

One place knows everything that the decoder raises: text that is no JSON, strings that are no
UTF-8 (which is another exception of its own), and documents nested too deep.
"""

import msgspec

__all__ = ["NotJson", "decode"]


class NotJson(Exception):
    """The bytes are no JSON document."""


def decode(data: bytes) -> object:
    """The document.

    Raises:
        NotJson: The bytes are something else, or nested too deep.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson("the body is not JSON") from error
