"""A JSON answer against expectations: the verdict and the message."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.json_paths import written_path
from moorage_operator.api.json_tests import Expectation
from moorage_operator.values.json_answers import unmet

CHAT = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "The sky is blue."}}],
    "usage": {"total_tokens": 12},
    "score": 0.30000001,
    "cached": True,
    "error": None,
}

MET = [
    Expectation("object", value="chat.completion"),
    Expectation("$.choices[0].message.content", pattern="(?i)BLUE"),
    Expectation("usage.total_tokens", value=12),
    Expectation("usage.total_tokens", value=12.0),
    Expectation("score", value=0.3),
    Expectation("cached", value=True),
    Expectation("error", exists=True),
    Expectation("choices[1]", exists=False),
    Expectation("usage.cost", exists=False),
    Expectation("object.length", exists=False),
    Expectation("$", exists=True),
]


@pytest.mark.parametrize("expectation", MET, ids=str)
def test_an_expectation_is_met(expectation):
    assert unmet((expectation,), CHAT) == ""


UNMET = [
    (Expectation("object", value="x"), ['object: expected "x", got "chat.completion"']),
    (Expectation("usage.total_tokens", value=13), ["usage.total_tokens", "13", "12"]),
    (Expectation("usage.total_tokens", value=True), ["expected true, got 12"]),
    (Expectation("usage.total_tokens", value="12"), ['expected "12", got 12']),
    (Expectation("cached", value=1), ["expected 1, got true"]),
    (Expectation("score", value=0.301), ["0.301", "0.30000001"]),
    (Expectation("error", value=0), ["expected 0, got null"]),
    (Expectation("choices", value="x"), ["got a list"]),
    (Expectation("usage", pattern="x"), ["matches x", "got an object"]),
    (Expectation("choices[0].message.content", pattern="^blue"), ["matches ^blue", "The sky"]),
    (Expectation("choices[1].message", exists=True), ["choices[1].message", "choices has 1 el"]),
    (Expectation("choices[0].text", value="x"), ["choices[0].text", "choices[0] has index"]),
    (Expectation("choices.a", value="x"), ["choices is a list, not an object"]),
    (Expectation("object[0]", value="x"), ["object is a string, not a list"]),
    (Expectation("error.message", value="x"), ["error is null, not an object"]),
    (Expectation("cached", exists=False), ["cached: expected no value, got true"]),
    (Expectation("[0]", value=1), ["the answer is an object, not a list"]),
    (Expectation("cached.a", exists=True), ["expected any value, but cached is a boolean, not"]),
    (Expectation("score.a", exists=True), ["score is a number, not an object"]),
]


@pytest.mark.parametrize(("expectation", "facts"), UNMET, ids=lambda each: str(each)[:60])
def test_a_difference_names_the_path_and_both_values(expectation, facts):
    message = unmet((expectation,), CHAT)

    for fact in facts:
        assert fact in message


def test_all_differences_are_listed():
    expectations = (
        Expectation("a", value=2),
        Expectation("b", value=1),
        Expectation("c", value=3),
    )

    found = unmet(expectations, {"a": 1, "b": 1, "c": 1})

    assert found == "a: expected 2, got 1; c: expected 3, got 1"


@pytest.mark.parametrize(
    ("members", "names"),
    [({}, "no members"), (dict.fromkeys("xyz"), "x, y, z"), (CHAT["usage"], "total_tokens")],
)
def test_a_missing_member_is_reported_with_those_of_its_object(members, names):
    assert unmet((Expectation("a", exists=True),), members).endswith(f"the answer has {names}")


QUOTED = [
    ("x" * 78, '"' + "x" * 78 + '"'),
    ("x" * 79, '"' + "x" * 76 + "..."),
    ("x" * 1000, '"' + "x" * 76 + "..."),
    ("é\u202e", r'"é\u202e"'),
    (10**20 - 1, "9" * 20),
    (10**20, "a number of more than 20 digits"),
    (-(10**20), "a number of more than 20 digits"),
    (1.5, "1.5"),
    (True, "true"),
    (None, "null"),
    ([1], "a list"),
]


@pytest.mark.parametrize(("value", "quoted"), QUOTED, ids=lambda each: str(each)[:30])
def test_a_value_is_quoted_in_at_most_80_characters(value, quoted):
    assert unmet((Expectation("a", value=7),), {"a": value}) == f"a: expected 7, got {quoted}"


@pytest.mark.parametrize(
    ("wanted", "found", "is_met"),
    [
        (0.0, 0.00001, True),
        (0.0, 0.000011, False),
        (0, 0.00001, True),
        (0.0, 0, True),
        (1000.0, 1000.01, True),
        (1000.0, 1000.02, False),
        (1000.0, 1001, False),
        (1000, 1000.01, True),
        (100_000, 100_001, False),
        (-1000.0, -1000.01, True),
    ],
)
def test_only_two_whole_numbers_are_compared_without_a_tolerance(wanted, found, is_met):
    assert (unmet((Expectation("a", value=wanted),), {"a": found}) == "") is is_met


@pytest.mark.parametrize(
    "odd",
    ["\u202e\x1b[31m\x00" * 100, "x" * 100_000, 10**400, [0] * 1000, {"k" * 999: 1}, None, -1e300],
)
def test_an_answer_is_quoted_shortly_and_printably(odd):
    for expectation in (
        Expectation("a", value="wanted"),
        Expectation("a", value=1.5),
        Expectation("a", pattern="wanted"),
        Expectation("a.b", exists=True),
    ):
        message = unmet((expectation,), {"a": odd})

        assert 0 < len(message) < 300
        assert message.isprintable()


@pytest.mark.parametrize(
    ("pattern", "size", "is_met", "is_too_long"),
    [("^x", 8192, True, False), ("^y", 8192, False, False), ("^x", 8193, False, True)],
)
def test_a_text_that_is_too_long_is_not_searched(pattern, size, is_met, is_too_long):
    message = unmet((Expectation("a", pattern=pattern),), {"a": "x" * size})

    assert (message == "") is is_met
    assert message.endswith("..., which is longer than 8192 characters") is is_too_long


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def places(value, steps=()):
    """Every path of a document, with its value."""
    yield steps, value
    items = enumerate(value) if isinstance(value, list) else []
    members = value.items() if isinstance(value, dict) else items
    for step, below in members:
        yield from places(below, (*steps, step))


keys = st.text("ab_-1", min_size=1, max_size=3)
documents = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@given(documents)
def test_every_scalar_of_a_document_is_found_at_its_path(document):
    for steps, value in places(document):
        path = written_path(steps)
        assert unmet((Expectation(path, exists=True),), document) == ""
        assert unmet((Expectation(path, exists=False),), document) != ""
        if not isinstance(value, dict | list):
            assert unmet((Expectation(path, value=value),), document) == ""


@given(json_values, st.sampled_from(["$", "a", "a.b", "[0]", "a[0].b"]), json_values)
def test_any_document_yields_a_short_message(document, path, value):
    scalar = value if isinstance(value, bool | int | float | str) else None
    for expectation in (Expectation(path, value=scalar), Expectation(path, pattern="^b")):
        message = unmet((expectation,), json.loads(json.dumps(document)))
        assert len(message) < 400
        assert message.isprintable()


def test_infinity_matches_no_number():
    assert unmet((Expectation("a", value=1.5),), {"a": math.inf}) != ""
