"""What was read of an object, in the names of the API and without defaults."""

from enum import StrEnum
from typing import Any

from moorage_operator.api.fields import Fields, Problem


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


def reading(value: Any) -> tuple[Fields, list[Problem]]:
    problems: list[Problem] = []
    return Fields(value, "spec", problems), problems


def read_all(value: Any) -> dict[str, Any]:
    """What one field of each type writes."""
    fields, problems = reading(value)
    fields.text("text")
    fields.text("name", "iris")
    fields.flag("flag", default=True)
    fields.integer("number", 5, 0, 9)
    fields.optional_integer("perhaps", 0, 9)
    fields.choice("colour", Colour.RED)
    fields.mapping("mapping")
    fields.texts("texts")
    fields.mappings("mappings")
    fields.raw("raw", [1])
    below = fields.child("below")
    below.integer("number", 5, 0, 9)
    for item in fields.items("items"):
        item.integer("number", 5, 0, 9)
    assert problems == []
    return fields.written()


def test_absent_fields_and_defaults_are_left_out() -> None:
    spelled = {
        "text": "",
        "name": "iris",
        "flag": True,
        "number": 5,
        "colour": "Red",
        "mapping": {},
        "texts": [],
        "mappings": [],
        "raw": [1],
        "below": {"number": 5},
        "items": [],
    }

    assert read_all({}) == read_all(spelled) == read_all(None) == {}


def test_other_values_are_written_as_they_are() -> None:
    value = {
        "text": "a",
        "name": "rose",
        "flag": False,
        "number": 0,
        "perhaps": 0,
        "colour": "Blue",
        "mapping": {"a": None},
        "texts": [""],
        "mappings": [{}],
        "raw": [],
        "below": {"number": 6},
        "items": [{"number": 5}, {"number": 6}],
    }

    assert read_all(value) == {**value, "items": [{}, {"number": 6}]}


def test_a_field_is_given_without_being_read() -> None:
    fields, problems = reading({"a": 0, "b": None})

    assert (fields.has("a"), fields.has("b"), fields.has("c")) == (True, False, False)
    fields.unknown()
    assert [problem.path for problem in problems] == ["spec.a", "spec.b"]
    assert fields.written() == {}
