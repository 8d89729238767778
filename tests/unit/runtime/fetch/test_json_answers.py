"""JSON of stores: any value is read or refused."""

import pytest

from moorage_runtime.fetch.decide.failures import Corrupt
from moorage_runtime.fetch.decide.json_answers import (
    items,
    mapping,
    number,
    parse_list,
    parse_object,
    text,
)

BROKEN = [b"", b"{", b"\xff", b"{} {}", b"[" * 100_000, b"9" * 5000]


@pytest.mark.parametrize("body", BROKEN)
@pytest.mark.parametrize("parse", [parse_object, parse_list])
def test_a_response_that_is_not_json_is_refused(parse, body):
    with pytest.raises(Corrupt) as caught:
        parse(body, "gs://b/a")

    assert str(caught.value) == "gs://b/a: the response is not JSON"


@pytest.mark.parametrize(
    ("parse", "body", "kind"),
    [
        (parse_object, b"[]", "object"),
        (parse_object, b'"a"', "object"),
        (parse_list, b"{}", "list"),
        (parse_list, b"null", "list"),
    ],
)
def test_a_response_of_another_kind_is_refused(parse, body, kind):
    with pytest.raises(Corrupt) as caught:
        parse(body, "gs://b/a")

    assert str(caught.value) == f"gs://b/a: the response is not a JSON {kind}"


def test_objects_and_lists_are_read():
    assert parse_object(b'{"a": 1}', "what") == {"a": 1}
    assert parse_list(b'[{"a": 1}, 2, null]', "what") == [{"a": 1}, {}, {}]
    assert mapping({"a": 1}) == {"a": 1}
    assert mapping([1]) == {}


def test_a_member_of_another_kind_is_empty():
    holder = {"list": [{"a": 1}, "b"], "text": "c", "number": 5}

    assert items(holder, "list") == [{"a": 1}, {}]
    assert items(holder, "text") == items(holder, "absent") == []
    assert text(holder, "text") == "c"
    assert text(holder, "number") == text(holder, "absent") == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5), ("5", 5), (0, 0), (None, None), (True, None), (-1, None), ("-1", None),
        (1.0, None), ("9" * 5000, None), (10**18, None), ([5], None), ("\u0665", None),
    ],
)  # fmt: skip
def test_a_number_is_read_or_unknown(value, expected):
    assert number({"size": value}, "size") == expected
    assert number({}, "size") is None
