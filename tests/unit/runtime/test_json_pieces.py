"""A long list of objects is parsed in pieces, and nobody can tell but by the clock."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime.codec import json_pieces, json_text
from moorage_runtime.codec.string_mask import StringMask
from moorage_runtime.errors import InvalidRequest

# Objects enough to be parsed in pieces, in a few bytes each.
MANY = 70_000
ROWS = [{"x": index % 7} for index in range(MANY)]


def body(document, **options):
    return json.dumps(document, **options).encode()


@pytest.fixture
def in_pieces(monkeypatch):
    """How many values were parsed in pieces."""
    parsed, parse = [], json_pieces.parse

    def count(text, cuts, read):
        value = parse(text, cuts, read)
        if value is not None:
            parsed.append(value)
        return value

    monkeypatch.setattr(json_pieces, "parse", count)
    return parsed


@pytest.mark.parametrize(
    "document",
    [
        {"instances": ROWS},
        {"a": [1, {}], "instances": ROWS, "z": {"k": [[]]}},
        {"short": ROWS[:20_000], "instances": ROWS},
        {"instances": [{"b64": 'a,"]}\\'}] * MANY},
        {"instances": [[], {"x": {"y": [1, {}]}}] * MANY},
        {"@": "@", "instances": [*ROWS, "@", "@@"]},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_objects_is_read_in_pieces(document, indent, in_pieces):
    assert json_text.parse(body(document, indent=indent)) == document
    assert len(in_pieces) == 1


@pytest.mark.parametrize(
    "document",
    [
        ROWS,
        {"inputs": {"x": ROWS}},
        {str(index): {} for index in range(MANY)},
        {"inputs": {str(index): {} for index in range(MANY)}},
        {"instances": [{"x": ROWS}]},
    ],
)
def test_objects_elsewhere_are_read_at_once(document, in_pieces):
    assert json_text.parse(body(document)) == document
    assert not in_pieces


@pytest.mark.parametrize(
    "text",
    [
        body({"instances": ROWS})[:-1],
        body({"instances": ROWS}) + b"}",
        body({"instances": ROWS}).replace(b'{"x": 3}, ', b",", 1),
        body({"instances": ROWS}).replace(b'{"x": 3}, ', b'"k": {"x": 3}, ', 1),
        body({"instances": ROWS}).replace(b'{"x": 3}, ', b'{"x": 3], ', 1),
        body({"instances": ROWS}).replace(b'{"x": 3}, ', b'], "k": [', 1)[:-1],
    ],
)
def test_errors_are_those_of_the_whole_text(text):
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(InvalidRequest) as error:
        json_text.parse(text)

    assert error.value.message == f"the body is not valid JSON: {expected.value}"


def test_of_a_repeated_member_the_last_counts():
    text = body({"instances": ROWS})[:-1] + b',"instances":[{}]}'

    assert json_text.parse(text) == {"instances": [{}]}


@pytest.mark.parametrize("odd", [b"NaN", b"1e999", b"\xef\xbb\xbf"])
def test_what_the_strict_parser_refuses_is_read_in_pieces_as_well(odd, in_pieces):
    text = body({"instances": ROWS})
    text = odd + text if odd.startswith(b"\xef") else text.replace(b": 3}", b": %b}" % odd, 1)

    assert str(json_text.parse(text)) == str(json.loads(text.decode("utf-8-sig")))
    assert len(in_pieces) == 1


LEAVES = st.sampled_from([0, "a,b", '"', "]", {}, [], {"k": [1, 2]}, [[3], {}], "@", "\\"])
LISTS = st.lists(LEAVES, max_size=12)
MEMBERS = st.dictionaries(st.sampled_from(["a", "b", "@"]), LISTS | LEAVES, max_size=3)


@given(MEMBERS, st.integers(1, 9), st.data())
@settings(max_examples=300)
def test_pieces_of_any_size_make_the_whole_or_nothing(document, size, data):
    text = bytearray(body(document))
    if data.draw(st.booleans()) and text:
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + 1] = data.draw(st.sampled_from([b"", b",", b"]", b"}", b"[", b'"', b" "]))

    found = json_pieces.parse(text, cuts_of(bytes(text), size), json_text.parse)

    if found is not None:
        assert found == json.loads(text)


@pytest.mark.parametrize("text", [b'{"a":[0, ,0]}', b'{"a":[0,,0]}', b'{"a":[0,1,]}'])
def test_a_piece_holds_an_element_at_least(text):
    assert json_pieces.parse(text, cuts_of(text, 1), json_text.parse) is None


def cuts_of(text, size):
    """The cuts of a text that is looked at in pieces of so many bytes."""
    codes = np.frombuffer(StringMask().of(text), np.uint8)
    opens = np.isin(codes, np.frombuffer(b"[{", np.uint8)).astype(np.int64)
    levels = np.cumsum(opens - np.isin(codes, np.frombuffer(b"]}", np.uint8)))
    cuts = json_pieces.Cuts()
    for start in range(0, len(text), size):
        cuts.look(start, codes[start : start + size], levels[start : start + size])
    return cuts.found()


def test_a_document_is_emptied_in_pieces():
    document = {"instances": list(ROWS), "name": "x", "inputs": {"x": [1]}}

    json_pieces.discard(document)

    assert document == {"instances": [], "name": "x", "inputs": {"x": [1]}}
