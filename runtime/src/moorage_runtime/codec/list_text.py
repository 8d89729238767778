"""A JSON list that was cut out of a body: read its text, say what is wrong, nest its leaves. Pure.

number_list, string_list -> read(text of a piece) -> leaves | MalformedListError -> json_text
"""

import json
from typing import Any

import orjson


class MalformedListError(ValueError):
    """The text is no JSON list.

    Attributes:
        position: Where, counted in bytes from the beginning of the body.
        complaint: What the JSON parser says.
    """

    def __init__(self, position: int, complaint: str) -> None:
        super().__init__(complaint)
        self.position = position
        self.complaint = complaint


def read(text: bytes) -> list[Any]:
    """The list as Python's json gives it.

    Raises:
        json.JSONDecodeError: It is none.
        ValueError: It is not UTF-8, or holds an integer of thousands of digits.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text.decode())


def nest(leaves: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Lists of lists of the leaves: four of them in shape (2, 2) are ``[[a, b], [c, d]]``.

    Too few leaves give the beginning of what all would give.
    """
    for length in reversed(shape[1:]):
        leaves = [leaves[at : at + length] for at in range(0, len(leaves), length)]
    return leaves
