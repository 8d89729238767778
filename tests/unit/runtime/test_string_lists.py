"""Long lists of strings: read in pieces, and never otherwise than Python's json reads them."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec import json_lists, json_text, oip_request, string_list
from moorage_runtime.codec.list_text import MalformedListError
from moorage_runtime.codec.string_list import StringList
from moorage_runtime.codec.string_mask import StringMask
from moorage_runtime.errors import InvalidRequest

# So small that a few strings are many pieces, and that cuts fall into the midst of escapes.
TINY = 5
STRINGS = st.text(st.sampled_from('ab,[]{}"\\/ \n\té€😀\u2028')) | st.text(max_size=6)
LEAVES = STRINGS | st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False)
SEPARATORS = st.sampled_from([",", ", ", " ,\n"])


def decode(text, piece_bytes=TINY):
    found = string_list.find(text, 0, piece_bytes)
    return None if found is None else string_list.decode(text, found)


def spell(value, separator=",", **options):
    return json.dumps(value, separators=(separator, ":"), **options).encode()


@given(st.binary() | STRINGS.map(spell), st.data())
def test_a_mask_tells_what_stands_in_strings_however_the_text_is_cut(text, data):
    mask, is_inside, is_escaped = bytearray(text), False, False
    for place, byte in enumerate(text):
        if is_inside or byte == ord('"'):
            mask[place] = ord("s")
        if is_escaped:
            is_escaped = False
        elif byte == ord("\\"):
            is_escaped = is_inside
        elif byte == ord('"'):
            is_inside = not is_inside
        if is_escaped is False and byte == ord("\\") and not is_inside:
            return  # no JSON: what follows is told differently

    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    masker = StringMask()
    found = b"".join(masker.of(text[start:end]) for start, end in itertools.pairwise(cuts))

    assert found.translate(None, b"\\") == bytes(mask).translate(None, b"\\")
    assert len(found) == len(text)


@given(st.lists(STRINGS, min_size=1, max_size=30), SEPARATORS, st.booleans())
def test_strings_are_those_that_json_reads(values, separator, ensure_ascii):
    found = decode(spell(values, separator, ensure_ascii=ensure_ascii))

    assert found.strings.tolist() == [value.encode() for value in values]
    assert found.tolist() == values
    assert found.shape == (len(values),)
    assert found.is_text


@given(st.lists(LEAVES, min_size=2, max_size=30), SEPARATORS)
def test_leaves_are_those_that_json_reads(values, separator):
    found = decode(spell(values, separator))

    assert found.tolist() == values
    all_strings = all(isinstance(value, str) for value in values)
    assert (found.strings is not None) == all_strings


NESTED = st.recursive(
    st.lists(STRINGS, min_size=1, max_size=3),
    lambda inner: st.lists(inner, min_size=1, max_size=3),
    max_leaves=12,
)


@given(NESTED)
def test_nested_lists_have_their_shape_and_their_leaves_in_order(value):
    found = decode(spell(value))

    if found is None:  # ragged
        with pytest.raises(ValueError, match="inhomogeneous"):
            np.array(value, object if max(map(len, value)) == 0 else None)
        return
    assert found.tolist() == value
    assert found.shape == np.array(value).shape


PIECES = st.sampled_from(
    ['"a"', '"b,["', '"\\""', '"\\\\"', ",", ",", " ", "[", "]", "1", "{", "}", ":", '"', "\\",
     "nul", "\\u12", "NaN", "\t", "€", '"\\q"', '"\n"']
)  # fmt: skip


def outcome(read):
    """What reading gives: a value, or the complaint and its place; None where nobody reads."""
    try:
        return read()
    except json.JSONDecodeError as error:
        return error.msg, len(error.doc[: error.pos].encode())
    except MalformedListError as error:
        return error.complaint, error.position
    except InvalidRequest as error:
        return error.message


def read_in_pieces(text):
    found = decode(text.encode())
    return None if found is None else (repr(found.tolist()), found.found.stop)


def read_at_once(text):
    value, stop = json.JSONDecoder().raw_decode(text)
    return repr(value), len(text[:stop].encode())


@given(st.lists(PIECES, max_size=14))
def test_what_is_no_json_is_refused_where_json_refuses_it(pieces):
    text = f'["x"{"".join(pieces)}'

    found = outcome(lambda: read_in_pieces(text))

    assert found in (None, outcome(lambda: read_at_once(text)))


@pytest.mark.parametrize(
    "text",
    ['["a",,"b"]', '["a","b",]', '[,"a"]', '["a" "b"]', '["a",  ,"b"]', '["a","b"', '["a","b',
     '["a",', '["a","\\ud800",x]', '[         ,"a"]', '["a",         ]', '["a"b"]'],
)  # fmt: skip
def test_commas_without_a_string_between_are_refused(text):
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(MalformedListError) as found:
        decode(text.encode())

    assert (found.value.complaint, found.value.position) == (
        expected.value.msg,
        expected.value.pos,
    )


@pytest.mark.parametrize("text", [b'["a",{"b":1}]', b'["a",["b"]]', b'[["a"],"b"]', b'["a\xff"]'])
def test_what_other_parsers_have_to_read_is_none(text):
    assert decode(text) is None


def test_unpaired_surrogates_are_told():
    assert not decode(rb'["a","\ud800","b"]').is_text
    assert decode(rb'["a","\ud83d\ude00","b"]').is_text
    assert decode(rb'["a",1,"b"]').is_text


def test_a_long_list_is_read_in_pieces_none_of_which_is_long():
    values = [f'"{index}",[' for index in range(100_000)]
    text = spell(values)

    found = string_list.find(text, 0)

    sizes = [end - start for start, end in found.pieces()]
    assert sum(sizes) + len(sizes) + 1 == len(text)
    assert max(sizes) < 130_000
    assert string_list.decode(text, found).tolist() == values


MANY = 30_000
STRANGE = ["", 'say "x"', "a,b", "back\\slash\\", "[{", "é", "😀", "\u0000", "@0"]
VALUES = [f"{STRANGE[index % len(STRANGE)]}{index}" for index in range(MANY)]
LIST = json.dumps(VALUES)
RAW = json.dumps(VALUES, ensure_ascii=False)
ROWS = json.dumps([VALUES[:10_000], VALUES[10_000:20_000]])
COLUMN = json.dumps([[value] for value in VALUES])


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":{LIST}}}',
        f'{{"a":{RAW},"b":{ROWS}}}',
        f'{{ "a" : {LIST} , "b" : "x" }}',
        f'{{"b":[{{"c":"[1,2","a":{LIST}}},{{"a":{COLUMN}}}],"d":{{}}}}',
        f'{{"@":"@0","a":{RAW},"b":"@@0"}}',
        f'{{"a":{RAW},"b":"\\u0040\\"0"}}',
        f'{{"a":{LIST},"a":1}}',
        f'{{"a":[{LIST},{{"b":1}}],"c":{LIST}}}',
        f'{{"a":["x",1,{LIST[1:]}}}',
        f'{{"a":[1,{LIST[1:-1]},null,true]}}',
        f'{{"a":{{"b":["]","x"],"c":{RAW}}},"d":{json.dumps(list(range(MANY)))}}}',
        f'[{LIST},"x"]',
        LIST,
    ],
)
def test_a_body_with_long_lists_reads_as_json_reads_it(text):
    assert json_text.parse(text.encode()) == json.loads(text)


def test_only_the_members_asked_for_stay_long_lists():
    text = f'{{"a":{LIST},"b":{RAW},"c":{{"a":{ROWS}}},"d":"\\n"}}'.encode()

    value = json_text.parse(text, frozenset({"a"}))

    assert isinstance(value["a"], StringList)
    assert isinstance(value["c"]["a"], StringList)
    assert value["b"] == VALUES


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":[{LIST[1:-1]},]}}',
        f'{{"a":["x",,{LIST[1:-1]}]}}',
        f'{{"é":"ü",\n"a":[{RAW[1:-1]},x]}}',
        f'{{"a":{RAW},"b":}}',
        f'{{"a" {LIST}}}',
        f'{{"x":yes,"a":{LIST}}}',
        f'{{"x":yes,"a":[{LIST[1:-1]},]}}',
        f'{{"x":"é","y":{RAW},"a":[{LIST[1:-1]},]}}',
        f'{{"x":"é",,"y":{RAW},"a":[{LIST[1:-1]},]}}',
        f'{{"a":{LIST}}} more',
        f'{{"a":{LIST[:-1]}',
        f'{{"a":{LIST[:-5]}',
        f'{{"a":[["x",{LIST[1:-1]}],["y"}}',
        f'{{"a":[\n{RAW[1:-1]}],\n"b":}}',
        f'{{"a":[{LIST[1:-1]},"\\ud800"],"b":}}',
    ],
)
def test_the_error_says_where_json_says_it_is(text):
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(InvalidRequest) as found:
        json_text.parse(text.encode())

    assert found.value.message == f"the body is not valid JSON: {expected.value}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":%b,"\xff":1}' % LIST.encode(), f"byte 0xff at position {len(LIST) + 7}"),
        (b'{"a":["\xff",%b}' % LIST[1:].encode(), "not UTF-8: byte 0xff at position 7"),
        (b'{"a":["\xff",,%b}' % LIST[1:].encode(), "not UTF-8: byte 0xff at position 7"),
        (b'{"a":["\\ud800",%b}' % LIST[1:].encode(), "the JSON holds an unpaired surrogate"),
        (b'{"a":["x",%b,%b}' % (b"1" * 5000, LIST[1:].encode()), "an integer of more than 4300"),
    ],
)  # fmt: skip
def test_what_python_cannot_hold_is_refused_as_in_a_short_list(text, message):
    with pytest.raises(InvalidRequest, match=message):
        json_text.parse(text)


@given(st.lists(PIECES, max_size=8))
def test_bodies_that_are_hardly_json_are_read_or_refused_as_whole(pieces):
    middle = "".join(pieces)
    text = f'{{"a":["x","{"y" * json_lists.LONG_BYTES}"{middle},"z"],"b":1}}'
    try:
        expected = repr(json.loads(text))
    except json.JSONDecodeError as error:
        expected = f"the body is not valid JSON: {error}"

    found = outcome(lambda: repr(json_text.parse(text.encode())))

    assert found == expected


def test_texts_that_begin_lists_over_and_over_are_looked_through_once():
    text = b'{"a":' + b'[["x","b":' * 20_000

    with pytest.raises(InvalidRequest):
        json_text.parse(text)

    assert json_lists.cut(text) is None or len(json_lists.cut(text).spans) == 1


def infer(data, shape, datatype="BYTES"):
    body = {"inputs": [{"name": "x", "shape": shape, "datatype": datatype, "data": data}]}
    return oip_request.decode(json.dumps(body).encode(), None, "m", "").request.inputs[0].array


@pytest.mark.parametrize("data", [VALUES, [VALUES[:15_000], VALUES[15_000:]]])
def test_a_long_tensor_of_strings_has_the_shape_that_is_given(data):
    array = infer(data, [2, 15_000])

    assert array.shape == (2, 15_000)
    assert array.reshape(-1).tolist() == [value.encode() for value in VALUES]


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "message"),
    [
        ("BYTES", [3], VALUES, "30000 elements, but shape [3] has 3"),
        ("BYTES", [MANY + 1], [*VALUES, 300], "data[30000]: 300 is no string"),
        ("BYTES", [2, MANY], [VALUES, [*VALUES[1:], None]], "data[1][29999]: null is no string"),
        ("FP32", [MANY], VALUES, 'data[0]: "0" is no number'),
    ],
)
def test_errors_name_the_element_of_a_long_list(datatype, shape, data, message):
    with pytest.raises(InvalidRequest) as error:
        infer(data, shape, datatype)

    assert message in error.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":"[[[","b":[1]}', 2),
        ('["\\"[[",["\\\\"],[]]', 2),
        ("]]]][[[[[[", 2),
        (f'["{"[" * 200_000}",[[1]]]', 3),
        (f"[{' ' * 70_000}{'[' * 50}", 51),
    ],
)
def test_depth_is_counted_outside_of_strings(text, expected):
    assert json_text.depth(text.encode()) == expected


def test_a_body_of_nothing_but_brackets_is_refused():
    count = json_text.PARTS_LIMIT
    text = f'{{"inputs":[{"{}," * count}0]}}'.encode()

    with pytest.raises(InvalidRequest) as error:
        json_text.parse(text)

    assert error.value.message == (
        f"the JSON holds {count + 2} arrays and objects; expected at most {count}"
    )


@pytest.mark.parametrize("pad", ["", " " * 100_000])
def test_objects_are_counted_outside_of_strings(pad):
    text = f'{{"a":"{{{{","b":[{{}},{pad}{{"c":"\\"{{"}}]}}'.encode()

    json_text.check_objects(text, 3)
    with pytest.raises(InvalidRequest, match=r"^the JSON holds 3 objects; expected at most 2$"):
        json_text.check_objects(text, 2)


def test_as_many_objects_as_the_limit_are_taken_and_one_more_is_not():
    json_text.check_objects(b"[{},{},{}]", 3)
    with pytest.raises(InvalidRequest, match=r"^the JSON holds 3 objects; expected at most 2$"):
        json_text.check_objects(b"[{},{},{}]", 2)


def test_a_request_of_more_inputs_than_any_model_has_is_refused():
    item = '{"name":"x","datatype":"INT8","shape":[1],"data":[1]}'
    body = f'{{"inputs":[{",".join([item] * 70_000)}]}}'.encode()

    with pytest.raises(InvalidRequest, match="holds 70001 objects; expected at most 65536"):
        oip_request.decode(body, None, "m", "")


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        f'{{"b":{DEEP},"a":[{LIST[1:-1]},]}}',
        f'{{"a":{LIST},"b":{DEEP}',
        f'{{"a":{LIST},"b":{DEEP}{"]" * 100_000}}}',
        f'{{"a":{list(range(MANY))},"b":"x","c":{DEEP}}}',
    ],
)
def test_deep_nesting_is_refused_before_and_behind_a_long_list(text):
    with pytest.raises(InvalidRequest, match="the JSON is nested deeper than 100 levels"):
        json_text.parse(text.encode())


def test_a_number_of_too_many_digits_in_front_of_a_malformed_list_is_refused():
    text = f'{{"b":{"1" * 5000},"a":[{LIST[1:-1]},]}}'

    with pytest.raises(InvalidRequest, match="an integer of more than 4300 digits"):
        json_text.parse(text.encode())
