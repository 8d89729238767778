"""The fields of a protobuf message are counted before a parser creates objects for them."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec import health as health_proto
from moorage_runtime.codec._generated import grps_pb2, oip_pb2
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.codec.unpack import limits, protobuf
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge

REQUEST = oip_pb2.ModelInferRequest
EMPTY_INPUT = b"\x2a\x00"
LONG_TAG = b"\xaa\x80\x00\x00"  # the same field, its tag padded to three bytes
NAME = b"\n\x01m"


def typed(**contents):
    tensor = REQUEST.InferInputTensor(name="x", datatype="INT32", shape=[1])
    tensor.contents.MergeFrom(oip_pb2.InferTensorContents(**contents))
    return REQUEST(model_name="m", inputs=[tensor]).SerializeToString()


@pytest.mark.parametrize("field", [EMPTY_INPUT, LONG_TAG], ids=["plain", "padded"])
def test_more_submessages_than_tensors_are_refused(field):
    protobuf.check(NAME + field * limits.TENSORS, REQUEST)
    with pytest.raises(
        PayloadTooLarge, match=r"the inference\.ModelInferRequest has too many submessages"
    ):
        protobuf.check(NAME + field * (limits.TENSORS + 1), REQUEST)


@pytest.mark.parametrize("field", [b"\x3a\x00", b"\x78\x01", b"\x2a\x02\x22\x00"])
def test_many_fields_are_refused_wherever_they_are(field):
    with pytest.raises(PayloadTooLarge, match=r"the inference\.ModelInferRequest has too many"):
        protobuf.check(NAME + field * (limits.VALUES + 1), REQUEST)


def test_strings_count_as_fields():
    protobuf.check(typed(bytes_contents=[b""] * 1000), REQUEST)
    with pytest.raises(
        PayloadTooLarge, match=r"the inference\.ModelInferRequest has too many fields"
    ):
        protobuf.check(typed(bytes_contents=[b""] * limits.VALUES), REQUEST)


def test_packed_floats_may_be_many_and_packed_integers_eight_times_as_many():
    protobuf.check(typed(fp32_contents=[1.0] * limits.VALUES * 2), REQUEST)
    protobuf.check(typed(int_contents=[1] * (limits.PACKED - 1)), REQUEST)
    with pytest.raises(PayloadTooLarge, match="packed integers"):
        protobuf.check(typed(int_contents=[1] * (limits.PACKED + 1)), REQUEST)


@pytest.mark.parametrize(
    "decode",
    [oip_proto.check_empty, oip_proto.decode_model_ready, oip_proto.decode_model_metadata,
     grps_proto.parse_small, health_proto.decode_check],
)  # fmt: skip
def test_messages_with_a_name_are_small(decode):
    with pytest.raises(PayloadTooLarge, match="has 80000 bytes"):
        decode(b"\x78\x01" * 40_000)


def test_maps_of_many_entries_are_refused():
    message = grps_pb2.GrpsMessage()
    for index in range(limits.TENSORS + 1):
        message.gmap.s_s[str(index)] = ""

    with pytest.raises(PayloadTooLarge, match="submessages"):
        grps_proto.parse(message.SerializeToString())


@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda data: NAME + data))
def test_the_scan_accepts_what_the_parser_accepts(data):
    padded = b"\x1a\x80\x20" + b"i" * 4096 + data  # long enough to be scanned
    try:
        REQUEST.FromString(padded)
    except DecodeError:
        return
    try:
        protobuf.check(padded, REQUEST)
    except InvalidRequest:
        # only a group, which no request contains
        assert any(byte & 7 in (3, 4) for byte in data)


def test_a_group_is_refused_because_it_could_hide_fields():
    hidden = b"\x7b" + b"\x2a\x7f" + b"\x7c" + EMPTY_INPUT * limits.TENSORS

    with pytest.raises(InvalidRequest, match="the 36871 received bytes are not a valid"):
        protobuf.check(b"\x1a\x80\x20" + b"i" * 4096 + hidden, REQUEST)


def test_small_messages_are_quick_and_those_of_many_fields_are_not():
    assert protobuf.is_quick(typed(fp32_contents=[1.0] * 100_000), REQUEST)
    assert not protobuf.is_quick(typed(bytes_contents=[b""] * 4000), REQUEST)
