"""The reader of the text format of Protocol Buffers, with valid, invalid and hostile text."""

import pytest
from google.protobuf import struct_pb2, text_format
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.manifests.convert.textproto import (
    MAX_DEPTH,
    MAX_VALUES,
    Symbol,
    TextError,
    parse_text,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("a: 1", {"a": [1]}),
        ("a: 1 a: 2", {"a": [1, 2]}),
        ("a: [1, 2], b: 3;", {"a": [1, 2], "b": [3]}),
        ("a: []", {"a": []}),
        ("a: [ ] b { }", {"a": [], "b": [{}]}),
        ("a { b: 1 }", {"a": [{"b": [1]}]}),
        ("a: < b: 1 >", {"a": [{"b": [1]}]}),
        ("a [ { b: 1 }, < c: 2 > ]", {"a": [{"b": [1]}, {"c": [2]}]}),
        ("a: 0x1F b: 017 c: -3 d: - 4", {"a": [31], "b": [15], "c": [-3], "d": [-4]}),
        ("a: 1.5 b: .5e1f c: 2f d: 1.", {"a": [1.5], "b": [5.0], "c": [2.0], "d": [1.0]}),
        ("a: 0", {"a": [0]}),
        ("a: true b: TYPE_X c: -inf", {"a": ["true"], "b": ["TYPE_X"], "c": ["-inf"]}),
        ('a: "b" \'c\'\n# d\n"e"', {"a": ["bce"]}),
        (r'a: "\n\t\"\'\\\x41\101\u00e9\U0001F600"', {"a": ["\n\t\"'\\AA\xe9\U0001f600"]}),
        (r'a: "\303\251"', {"a": ["\xe9"]}),
        ('a: "\U0001f600"', {"a": ["\U0001f600"]}),
    ],
)
def test_valid_text_is_read(text, expected):
    assert parse_text(text) == expected


def test_names_and_strings_differ():
    read = parse_text('a: true b: "true"')

    assert isinstance(read["a"][0], Symbol)
    assert not isinstance(read["b"][0], Symbol)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", "line 1: expected ':' or '{'"),
        ("a 1", "line 1: expected ':' or '{'"),
        ("a:", "got the end of the text"),
        ("\n\na: }", "line 3: expected a value, got '}'"),
        ("a {", "expected a field name or '}', got the end"),
        ("a { >", "got '>'"),
        ("}", "expected a field name, got '}'"),
        ("a: [1", "expected ',' or ']'"),
        ("a: [1,]", "expected a value"),
        ("a: [[1]]", "expected a value"),
        ('a: "b', "line 1: '\"' is not allowed here"),
        ('a: "b\n"', "line 1"),
        ("a: 1x", "is not allowed here"),
        ("a: 089", "'089' is not an octal number"),
        ("1: 2", "expected a field name, got '1'"),
        ("[a.b/c] { }", "expected a field name, got '['"),
        (r'a: "\q"', r"the escape '\q' is unknown"),
        (r'a: "\777"', r"the escape '\777' is unknown"),
        (r'a: "\xff"', "the string is not UTF-8"),
        (r'a: "\ud800"', "U+D800 is not a character"),
        (r'a: "\U00110000"', "U+110000 is not a character"),
        ("a: \x00", "is not allowed here"),
        ('a: "\ud800"', "the string is not UTF-8"),
        ("a {" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} deep"),
        ("a: [" + "1," * MAX_VALUES + "1]", f"more than {MAX_VALUES} values"),
        ("a: " + "9" * 5000, "a number has more than"),
    ],
)
def test_invalid_and_hostile_text_is_refused_with_its_line(text, sentence):
    with pytest.raises(TextError) as refused:
        parse_text(text)

    assert sentence in str(refused.value)
    assert "line " in str(refused.value)
    assert len(str(refused.value)) < 200


@given(st.text(alphabet="a:{}[]<>,;\"'\\ \n#01.-xé", max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        read = parse_text(text)
    except TextError:
        return
    assert isinstance(read, dict)


VALUES = st.recursive(
    st.one_of(st.text(), st.booleans()),
    lambda below: st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.booleans())
def test_what_another_program_writes_is_read(value, is_one_line):
    message = struct_pb2.Struct()
    message.update(value)
    text = text_format.MessageToString(message, as_utf8=False, as_one_line=is_one_line)

    assert struct(parse_text(text)) == value


def struct(message):
    """A message of type Struct as its value."""
    return {
        "".join(field.get("key", [""])): inner(field["value"][0]) if "value" in field else None
        for field in message.get("fields", [])
    }


def inner(value):
    ((kind, (item,)),) = value.items()
    return (
        struct(item)
        if kind == "struct_value"
        else item == "true"
        if kind == "bool_value"
        else item
    )
