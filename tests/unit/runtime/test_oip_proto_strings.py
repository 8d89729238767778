"""Long lists of strings are cut out of a request and parsed in pieces, as the parser would."""

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime._generated import oip_pb2 as pb
from moorage_runtime.codec import oip_proto, oip_proto_raw, oip_proto_strings
from moorage_runtime.errors import InvalidRequest

LONG = 300 * 1024


def contents(strings) -> memoryview:
    message = pb.InferTensorContents(bytes_contents=strings)
    return memoryview(message.SerializeToString())


def tensor(name, strings, datatype="BYTES", **members):
    message = pb.ModelInferRequest.InferInputTensor(
        name=name, datatype=datatype, shape=[len(strings)], **members
    )
    message.contents.bytes_contents.extend(strings)
    return message


def request(*inputs, **members) -> bytes:
    message = pb.ModelInferRequest(model_name="m", id="7", inputs=inputs, **members)
    return message.SerializeToString()


def with_contents(elements: int, tail: bytes = b"") -> bytes:
    """A request whose input says so many elements and holds LONG, with something behind them."""
    item = pb.ModelInferRequest.InferInputTensor(name="x", datatype="BYTES", shape=[elements])
    held = oip_proto_raw.block(5, bytes(contents([b"ab"] * LONG)) + tail)
    return b"\x0a\x01m" + oip_proto_raw.block(5, item.SerializeToString() + held)


def parsed(data: memoryview) -> list[list[bytes]]:
    return [list(piece.bytes_contents) for piece in oip_proto_strings.parse(data)]


# "B" is what the head of a string looks like, and 66 its length.
ALIKE = st.one_of(
    st.integers(0, 200).map(lambda size: b"B" * size),
    st.binary(max_size=40),
    st.sampled_from([b"ab", b"", b"B\x42B", b"\x42\x02\x42\x02", b"x" * 70_000]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ALIKE, min_size=1, max_size=20))
def test_the_pieces_are_the_strings(some):
    strings = some * (LONG // (sum(map(len, some)) + 2 * len(some)) + 1)

    pieces = parsed(contents(strings))

    assert [string for piece in pieces for string in piece] == strings


@pytest.mark.parametrize("string", [b"", b"a", b"ab", b"B", b"BBB", b"\x42\x01" * 9])
def test_a_piece_is_parsed_in_a_moment(string):
    strings = [string] * (4 * 2**20 // (len(string) + 2))

    pieces = parsed(contents(strings))

    sizes = [len(piece) * (len(string) + 2) for piece in pieces]
    assert sum(sizes) == len(strings) * (len(string) + 2)
    assert max(sizes) <= 2 * 64 * 1024


@pytest.mark.parametrize("string", [b"x" * 2**20, b"B" * 100])
def test_strings_whose_heads_are_hard_to_find_are_parsed_in_longer_pieces(string):
    strings = [string] * (5 * 2**20 // len(string))

    assert [string for piece in parsed(contents(strings)) for string in piece] == strings


@given(st.integers(1, 200_000))
def test_broken_contents_are_refused_as_by_the_parser(lost):
    whole = contents([b"abc"] * 60_000)
    broken = whole[: len(whole) - lost]

    try:
        expected = list(pb.InferTensorContents.FromString(broken).bytes_contents)
    except DecodeError:
        with pytest.raises(DecodeError):
            parsed(broken)
    else:
        assert [s for piece in parsed(broken) for s in piece] == expected


def test_only_the_long_lists_are_cut_out():
    long, short = [b"ab"] * LONG, [b"cd"] * 3
    data = request(tensor("s", short), tensor("l", long), tensor("t", short))

    cut = oip_proto_strings.cut(data)

    assert list(cut.contents) == [1]
    assert cut.contents[1].obj is data
    rest = pb.ModelInferRequest.FromString(cut.rest)
    assert [item.name for item in rest.inputs] == ["s", "l", "t"]
    assert [list(item.contents.bytes_contents) for item in rest.inputs] == [short, [], short]
    assert (rest.model_name, rest.id) == ("m", "7")


@pytest.mark.parametrize(
    "data",
    [
        request(tensor("short", [b"ab"] * 10)),
        request(raw_input_contents=[bytes(LONG)]),
        request(
            pb.ModelInferRequest.InferInputTensor(
                name="n", contents=pb.InferTensorContents(fp32_contents=[1.0] * LONG)
            )
        ),
        request(  # long by its parameter alone
            pb.ModelInferRequest.InferInputTensor(
                name="n",
                contents=pb.InferTensorContents(),
                parameters={"p": pb.InferParameter(string_param="x" * LONG)},
            )
        ),
        request(tensor("broken", [b"ab"] * LONG))[:-1],
        request(tensor("twice", [b"ab"] * LONG)) + b"\x08\x01",  # another wire type
    ],
)
def test_everything_else_is_left_to_the_parser(data):
    assert oip_proto_strings.cut(data) is None


def test_contents_in_two_parts_are_left_to_the_parser():
    part = oip_proto_raw.block(5, bytes(contents([b"ab"] * LONG)))
    item = pb.ModelInferRequest.InferInputTensor(name="x", datatype="BYTES", shape=[2 * LONG])
    twice = oip_proto_raw.block(5, item.SerializeToString() + part + part)

    assert oip_proto_strings.cut(twice) is None
    decoded = oip_proto.decode_infer(b"\x0a\x01m" + twice)
    assert decoded.request.inputs[0].array.size == 2 * LONG


def test_a_long_list_becomes_an_array_of_its_strings():
    strings = [b"%d" % number for number in range(100_000)]

    decoded = oip_proto.decode_infer(request(tensor("x", strings)))

    (x,) = decoded.request.inputs
    assert x.array.tolist() == strings
    assert (x.array.dtype, x.array.shape) == (np.dtype(object), (100_000,))
    assert not decoded.wants_raw


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            request(tensor("x", [b"ab"] * LONG, "FP32")),
            r"inputs\[0\].contents.bytes_contents: has values, but FP32 goes into fp32_contents",
        ),
        (
            request(tensor("x", [b"ab"] * LONG, "FP16")),
            r"inputs\[0\].contents.bytes_contents: FP16 has no typed form",
        ),
        (
            request(tensor("x", [b"ab"] * LONG), raw_input_contents=[b"\0\0\0\0"]),
            r"inputs\[0\].contents: has values beside raw_input_contents",
        ),
        (
            with_contents(LONG + 1),
            rf"{LONG} values in bytes_contents, but shape \[{LONG + 1}\] has {LONG + 1}",
        ),
        (
            with_contents(LONG, b"\x42\x05a"),
            "contents are no inference.InferTensorContents message",
        ),
        (
            with_contents(LONG, b"\x18\x01"),
            r"inputs\[0\].contents.int64_contents: has values",
        ),
    ],
)
def test_a_long_list_that_does_not_fit_is_refused_by_name(data, message):
    with pytest.raises(InvalidRequest, match=message):
        oip_proto.decode_infer(data)
