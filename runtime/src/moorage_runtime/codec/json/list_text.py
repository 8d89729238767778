"""Parses the text of a JSON list that was cut out of a body, and reports errors in it. Pure.

number_list -> read(text of a piece) -> leaves | MalformedListError -> text
"""

import json
from typing import Any

import orjson


class MalformedListError(ValueError):
    """The text is not a JSON list.

    Attributes:
        position: Byte position in the body.
        complaint: Message of the JSON parser.
    """

    def __init__(self, position: int, complaint: str) -> None:
        super().__init__(complaint)
        self.position = position
        self.complaint = complaint


def read(text: bytes) -> list[Any]:
    """The list, as Python's json returns it.

    Raises:
        json.JSONDecodeError: The text is not a list.
        ValueError: It is not UTF-8, or contains an integer with thousands of digits.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text.decode())


def nest(leaves: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Nest the leaves: four of them in shape (2, 2) give ``[[a, b], [c, d]]``.

    With too few leaves, the result is the beginning of the whole list.
    """
    for length in reversed(shape[1:]):
        leaves = [leaves[at : at + length] for at in range(0, len(leaves), length)]
    return leaves
