"""Reads the text of a file that an argument names."""

import sys
from pathlib import Path

from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["named_file", "read_text"]

# A request with the largest tensors that a server accepts is smaller.
TEXT_LIMIT = 1 << 26


def named_file(name: str, argument: str) -> str:
    """How messages name a file and its argument; '-' is standard input."""
    return f"{argument}: {'standard input' if name == '-' else name}"


def read_text(name: str, argument: str = "FILE") -> str:
    """The text of a file, without a byte order mark; '-' is standard input.

    Args:
        name: The file.
        argument: The argument that it comes from, for messages.

    Raises:
        Failure: It cannot be read, is not UTF-8, or is too large.
    """
    try:
        if name == "-":
            text = sys.stdin.read(TEXT_LIMIT + 1).removeprefix("\ufeff")
        else:
            with Path(name).open(encoding="utf-8-sig") as file:
                text = file.read(TEXT_LIMIT + 1)
    except (OSError, ValueError) as error:
        shown = named_file(name, argument)
        raise Failure(f"{shown} cannot be read: {reason_of(error)}") from error
    if len(text) > TEXT_LIMIT:
        limit = f"it is larger than {TEXT_LIMIT >> 20} MiB"
        raise Failure(f"{named_file(name, argument)} cannot be read: {limit}")
    return text
