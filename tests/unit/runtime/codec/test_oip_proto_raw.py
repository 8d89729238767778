"""Raw tensors that are cut out of requests and appended to responses."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from moorage_runtime.codec._generated import oip_pb2 as pb
from moorage_runtime.codec.oip import proto_raw as oip_proto_raw

LARGE = bytes(range(256)) * 40


def request(*raw, **members):
    inputs = [pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[3])]
    return pb.ModelInferRequest(
        model_name="m", inputs=inputs, raw_input_contents=raw, **members
    ).SerializeToString()


@given(st.lists(st.binary(max_size=300), max_size=4), st.text(max_size=200))
def test_the_rest_and_the_tensors_form_the_message(raw, request_id):
    data = request(LARGE, *raw, id=request_id)

    cut = oip_proto_raw.cut(data)

    assert cut.rest == request(id=request_id)
    assert [bytes(tensor) for tensor in cut.tensors] == [LARGE, *raw]
    assert all(tensor.obj is data for tensor in cut.tensors)


@pytest.mark.parametrize("order", ["between", "before"])
def test_fields_may_come_in_any_order(order):
    tensor = oip_proto_raw.block(7, LARGE)
    head, tail = b"\x0a\x01m", oip_proto_raw.block(3, b"id")
    cut = oip_proto_raw.cut(head + tensor + tail if order == "between" else tensor + head + tail)
    assert (cut.rest, cut.tensors) == (head + tail, [LARGE])


@given(st.integers(0, 40), st.binary(max_size=12))
@example(0, b"\x02\x06" + bytes(6))  # a field of number 0
def test_an_unusual_message_is_left_to_the_parser(size, tail):
    whole = request(LARGE)
    for data in (whole[: len(whole) - 1 - size], whole + tail):
        cut = oip_proto_raw.cut(data)
        if cut is None:
            continue
        try:
            parsed = pb.ModelInferRequest.FromString(data)
        except DecodeError:
            with pytest.raises(DecodeError):
                pb.ModelInferRequest.FromString(cut.rest)
        else:
            assert [bytes(tensor) for tensor in cut.tensors] == list(parsed.raw_input_contents)


@pytest.mark.parametrize(
    "broken",
    [
        b"\x08\x01",  # another wire type
        b"\xaa\x01\x00",  # a tag of two bytes
        b"\x80\x01\x00",  # a tag of two bytes with other low bits
        b"\x3a\x05ab",  # exceeds the message
        b"\x3a\x80",  # a length that the message cuts off
        b"\x3a" + b"\xff" * 6,  # a length that never ends
        b"\x3a",
    ],
)
def test_a_field_of_another_form_is_left_to_the_parser(broken):
    assert oip_proto_raw.cut(request(LARGE) + broken) is None


def test_a_message_below_8_kib_is_left_to_the_parser():
    overhead = len(request(bytes(8000))) - 8000
    assert oip_proto_raw.cut(request(bytes(8191 - overhead))) is None
    assert oip_proto_raw.cut(request(bytes(8192 - overhead))) is not None


@pytest.mark.parametrize("other", [b"\x3a\x00", b"\x1a\x00"], ids=["tensors", "fields"])
def test_a_message_of_many_fields_is_left_to_the_parser(other):
    half = 16 * 1024
    cut = oip_proto_raw.cut(b"\x3a\x00" * half + other * half)
    assert len(cut.tensors) + len(cut.rest) // 2 == 2 * half
    assert oip_proto_raw.cut(b"\x3a\x00" * half + other * half + b"\x1a\x00") is None


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 129, 300, 2**14 - 1, 2**14, 2**21 + 5])
def test_a_size_takes_as_few_bytes_as_possible(size):
    content = bytes(size)
    message = pb.ModelInferRequest(raw_input_contents=[content]).SerializeToString()
    assert oip_proto_raw.block(7, content) == message
    cut = oip_proto_raw.cut(oip_proto_raw.block(3, LARGE) + message)
    assert cut.tensors == [content]


@given(st.lists(st.one_of(st.binary(max_size=5), st.just(LARGE)), max_size=4))
def test_raw_tensors_follow_the_response(tensors):
    head = pb.ModelInferResponse(model_name="m").SerializeToString()
    whole = pb.ModelInferResponse(model_name="m", raw_output_contents=tensors)
    assert oip_proto_raw.append(head, map(memoryview, tensors)) == whole.SerializeToString()
