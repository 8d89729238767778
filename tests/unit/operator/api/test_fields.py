"""Values of an object: what is read, what is written of it, and what is said of invalid ones."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem, abridged
from support.spec_sentences import UNKNOWN


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


def spoken(value: Any, read: Callable[[Fields], Any]) -> tuple[Any, list[str]]:
    """What one reading returns, and the problems."""
    fields, problems = reading(value)
    found = read(fields)
    return found, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("value", "read", "found", "expected"),
    [
        (1, lambda f: f.text("a"), "", "1 is invalid: must be a string"),
        (["x"], lambda f: f.text("a", "iris"), "iris", "['x'] is invalid: must be a string"),
        (1, lambda f: f.flag("a", default=True), True, "1 is invalid: must be true or false"),
        (
            0,
            lambda f: f.integer("a", 5, 1, 9),
            5,
            "0 is invalid: must be a whole number from 1 to 9",
        ),
        (
            10,
            lambda f: f.integer("a", 5, 1, 9),
            5,
            "10 is invalid: must be a whole number from 1 to 9",
        ),
        (
            True,
            lambda f: f.integer("a", 5, 1, 9),
            5,
            "True is invalid: must be a whole number from 1 to 9",
        ),
        (
            "2",
            lambda f: f.optional_integer("a", 1, 9),
            None,
            "'2' is invalid: must be a whole number from 1 to 9",
        ),
        (
            2.0,
            lambda f: f.optional_integer("a", 1, 9),
            None,
            "2.0 is invalid: must be a whole number from 1 to 9",
        ),
        (
            "Green",
            lambda f: f.choice("a", Colour.BLUE),
            Colour.BLUE,
            "'Green' is invalid: must be one of Red, Blue",
        ),
        (
            [],
            lambda f: f.choice("a", Colour.BLUE),
            Colour.BLUE,
            "[] is invalid: must be one of Red, Blue",
        ),
        ([], lambda f: f.mapping("a"), {}, "[] is invalid: must be an object"),
        ("abc", lambda f: f.texts("a"), (), "'abc' is invalid: must be a list"),
        ({}, lambda f: f.mappings("a"), (), "{} is invalid: must be a list"),
        (["b", 1], lambda f: f.texts("a"), ("b",), "1 is invalid: must be a list of strings"),
        (["b", {}], lambda f: f.mappings("a"), ({},), "'b' is invalid: must be a list of objects"),
        ("x", lambda f: f.child("a").is_given, False, "'x' is invalid: must be an object"),
        (
            [{}, {}, {}],
            lambda f: f.children("a", 2, "things"),
            [],
            "has 3 things: must have at most 2",
        ),
    ],
)
def test_an_invalid_value_is_reported_and_the_default_taken(
    value: Any, read: Callable[[Fields], Any], found: Any, expected: str
) -> None:
    assert spoken({"a": value}, read) == (found, [f"spec.a: {expected}"])


@pytest.mark.parametrize("value", [1, 5, 9])
def test_bounds_are_inclusive(value: int) -> None:
    assert spoken({"a": value}, lambda f: f.integer("a", 2, 1, 9)) == (value, [])


def test_absent_values_have_their_defaults() -> None:
    fields, problems = reading({"null": None})

    for name in ("null", "absent"):
        assert fields.raw(name) is None
        assert fields.peek(name) is None
        assert fields.text(name) == ""
        assert fields.text(name, "iris") == "iris"
        assert fields.flag(name, default=True) is True
        assert fields.flag(name, default=False) is False
        assert fields.integer(name, 5, 1, 9) == 5
        assert fields.optional_integer(name, 1, 9) is None
        assert fields.choice(name, Colour.BLUE) is Colour.BLUE
        assert fields.mapping(name) == {}
        assert fields.texts(name) == fields.mappings(name) == ()
        assert fields.items(name) == fields.children(name, 1, "things") == []
        assert not fields.child(name).is_given
    assert problems == []


def test_present_values_are_returned() -> None:
    value = {
        "text": "x",
        "yes": True,
        "no": False,
        "colour": "Red",
        "map": {"b": 1},
        "list": ["b"],
    }
    fields, problems = reading(value)

    assert fields.text("text", "iris") == "x"
    assert fields.flag("yes", default=False) is True
    assert fields.flag("no", default=True) is False
    assert fields.choice("colour", Colour.BLUE) is Colour.RED
    assert fields.mapping("map") == fields.peek("map") == {"b": 1}
    assert fields.texts("list") == ("b",)
    assert problems == []


def test_what_is_below_has_its_path_and_is_the_same_when_read_again() -> None:
    fields, problems = reading({"below": {"a": 1}, "items": [{"a": 1}, 5, {"a": 2}]})

    assert fields.child("below") is fields.child("below")
    fields.child("below").text("a")
    assert fields.child("below").is_given
    for item in fields.items("items"):
        item.text("a")
    assert [str(problem) for problem in problems] == [
        "spec.below.a: 1 is invalid: must be a string",
        "spec.items: 5 is invalid: must be a list of objects",
        "spec.items[0].a: 1 is invalid: must be a string",
        "spec.items[2].a: 2 is invalid: must be a string",
    ]


def test_a_list_may_have_as_many_items_as_its_limit() -> None:
    fields, problems = reading({"a": [{}, {}]})

    assert len(fields.children("a", 2, "things")) == 2
    assert problems == []


def test_fields_that_are_not_read_are_reported_in_order() -> None:
    fields, problems = reading({"c": 1, "b": 1, "a": 1})
    fields.raw("b")
    fields.unknown()

    assert [str(problem) for problem in problems] == [
        f"spec.a: {UNKNOWN}",
        f"spec.c: {UNKNOWN}",
    ]


def test_something_else_than_an_object_is_reported_and_empty() -> None:
    fields, problems = reading("x")

    assert problems == [Problem("spec", "'x' is invalid: must be an object", "InvalidSpec")]
    assert not fields.is_given
    assert fields.text("a") == ""


def test_each_problem_has_its_sentence_and_reason() -> None:
    fields, problems = reading({})
    fields.require("a", "a name")
    fields.reject_duplicate("a", "iris")
    fields.reject("a", 1, "a name", "Odd")
    fields.report("", "is odd", "Odd")
    fields.reject("a", 1, "a name")
    fields.report("a", "is odd")

    assert problems == [
        Problem("spec.a", "is required and must be a name", "InvalidSpec"),
        Problem("spec.a", "duplicate name 'iris': names must be unique", "InvalidSpec"),
        Problem("spec.a", "1 is invalid: must be a name", "Odd"),
        Problem("spec", "is odd", "Odd"),
        Problem("spec.a", "1 is invalid: must be a name", "InvalidSpec"),
        Problem("spec.a", "is odd", "InvalidSpec"),
    ]


def test_a_long_value_is_shortened() -> None:
    assert abridged("a" * 78) == f"'{'a' * 78}'"
    assert abridged("a" * 79) == f"'{'a' * 76}..."
    assert len(abridged("a" * 79)) == 80
