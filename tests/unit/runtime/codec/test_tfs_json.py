"""The outermost JSON: valid documents are accepted, and nothing else."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.values.errors import InvalidRequest


@pytest.mark.parametrize(
    ("body", "document"),
    [
        (b'{"a":1}', {"a": 1}),
        (b' \r\n{"a": [1, 2.0] }\t', {"a": [1, 2.0]}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":[Infinity,-Infinity,1e400]}', {"a": [math.inf, -math.inf, math.inf]}),
        (b'{"a":18446744073709551616}', {"a": 2**64}),
        (b'{"a":"\\u00e9"}', {"a": "\u00e9"}),
        (bytearray(b'{"a":1}'), {"a": 1}),
        (memoryview(b'{"a":1}'), {"a": 1}),
    ],
)
def test_a_document_is_read(body, document):
    assert tfs_document.parse_object(body) == document


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: the request body is empty: must be a JSON object"),
        (
            b"   ",
            (
                "JSON Parse error: the body is not valid JSON: Expecting value: line 1 column "
                "4 (char 3)"
            ),
        ),
        (
            b'{"a":1',
            (
                "JSON Parse error: the body is not valid JSON: Expecting ',' delimiter: line 1 "
                "column 7 (char 6)"
            ),
        ),
        (
            b'{"a":1} x',
            "JSON Parse error: the body is not valid JSON: Extra data: line 1 column 9 (char 8)",
        ),
        (
            b'{"a":1}{"b":2}',
            "JSON Parse error: the body is not valid JSON: Extra data: line 1 column 8 (char 7)",
        ),
        (
            b'{"a":Nan}',
            (
                "JSON Parse error: the body is not valid JSON: Expecting value: line 1 column "
                "6 (char 5)"
            ),
        ),
        (
            b'{"a":nan}',
            (
                "JSON Parse error: the body is not valid JSON: Expecting value: line 1 column "
                "6 (char 5)"
            ),
        ),
        (
            b'{"a":+1}',
            (
                "JSON Parse error: the body is not valid JSON: Expecting value: line 1 column "
                "6 (char 5)"
            ),
        ),
        (b'{"a":"\xff"}', "JSON Parse error: the JSON is not UTF-8: byte 0xff at position 6"),
        (
            b'{"a":"\\ud800"}',
            (
                "JSON Parse error: the JSON contains an unpaired surrogate, which is not valid "
                "Unicode"
            ),
        ),
        (
            b'{"a":' + b"9" * 5000 + b"}",
            "JSON Parse error: the JSON contains an integer with more than 4300 digits",
        ),
        (b"[1]", "JSON Value: [1] Is not object"),
        (b"NaN", "JSON Value: NaN Is not object"),
    ],
)
def test_an_invalid_document_is_refused(body, message):
    with pytest.raises(InvalidRequest) as error:
        tfs_document.parse_object(body)
    assert error.value.message == message


@pytest.mark.parametrize("depth", [99, 100])
def test_nesting_of_a_hundred_levels_is_read(depth):
    body = b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert "a" in tfs_document.parse_object(body)


@pytest.mark.parametrize(
    "text",
    [b"[" * 98 + b"%d" + b"]" * 98 + b",[1]", b"[%d" + b",[1]" * 200 + b"]"],
    ids=["deep", "many"],
)
def test_integers_beyond_64_bits_are_exact_in_any_nesting(text):
    document = tfs_document.parse_object(b'{"a":[' + text % (2**64 + 1) + b"]}")

    assert document == json.loads(b'{"a":[' + text % (2**64 + 1) + b"]}")


@pytest.mark.parametrize("depth", [101, 500, 5_000, 100_000])
@pytest.mark.parametrize("token", [b"1", b"NaN"])
def test_deeper_nesting_is_refused(depth, token):
    body = b'{"a":' + b"[" * (depth - 1) + token + b"]" * (depth - 1) + b"}"

    with pytest.raises(InvalidRequest) as error:
        tfs_document.parse_object(body)
    assert error.value.message == ("JSON Parse error: the JSON is nested deeper than 100 levels")


def test_brackets_in_strings_and_many_flat_lists_are_not_nesting():
    body = b'{"a":"' + b"[" * 200 + b'\\"","b":[' + b",".join([b"[1]"] * 200) + b"]}"

    assert len(tfs_document.parse_object(body)["b"]) == 200


@pytest.mark.parametrize(("document", "name"), [({}, ""), ({"signature_name": "s"}, "s")])
def test_the_signature_name_is_read(document, name):
    assert tfs_document.parse_signature_name(document) == name


@pytest.mark.parametrize("value", [1, None, ["s"], {}])
def test_a_signature_name_must_be_a_string(value):
    with pytest.raises(InvalidRequest) as error:
        tfs_document.parse_signature_name({"signature_name": value})
    shown = json.dumps(value, separators=(",", ":"))
    assert error.value.message == (
        f'JSON Value: {{"signature_name":{shown}}} not formatted correctly. '
        "'signature_name' key must be a string value."
    )


def test_only_long_lists_of_the_document_itself_are_arrays():
    long = [0.5] * 10_000
    body = json.dumps({"inputs": long, "instances": [{"inputs": long}]}).encode()

    document = tfs_document.parse_object(body)

    assert isinstance(document["inputs"], NumberList)
    assert document["inputs"].tolist() == long
    assert document["instances"] == [{"inputs": long}]


@given(st.binary() | st.text(alphabet='{}[]":,0123456789.eE-+ntfaNI\\u').map(str.encode))
def test_any_bytes_give_an_object_or_invalid_request(body):
    try:
        document = tfs_document.parse_object(body)
    except InvalidRequest:
        return
    assert isinstance(document, dict)


def test_a_body_cut_anywhere_is_refused():
    body = b'{"signature_name":"s","instances":[{"b64":"YQ=="},NaN,-1.5e3,true,null]}'

    for length in range(len(body)):
        with pytest.raises(InvalidRequest):
            tfs_document.parse_object(body[:length])
