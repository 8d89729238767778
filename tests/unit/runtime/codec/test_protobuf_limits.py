"""The fields of a protobuf message are counted before a parser creates objects for them."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec import health as health_proto
from moorage_runtime.codec._generated import grps_pb2, oip_pb2
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.codec.oip import proto_raw
from moorage_runtime.codec.unpack import limits, protobuf
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge

REQUEST = oip_pb2.ModelInferRequest
EMPTY_INPUT = b"\x2a\x00"
LONG_TAG = b"\xaa\x80\x00\x00"  # the same field, its tag padded to three bytes
NAME = b"\n\x01m"


# Long enough to be scanned: a string of the request.
LONG = b"\x1a\x80\x20" + b"i" * 4096


def packed(count, field):
    """A request with a packed field of this many bytes in the contents of its input."""
    return proto_raw.block(5, proto_raw.block(5, proto_raw.block(field, b"\1" * count)))


def refusal(what, limit, name="inference.ModelInferRequest"):
    return (
        f"the {name} has too many {what}: must have {limit} or fewer; send large tensors as raw "
        "bytes"
    )


def typed(**contents):
    tensor = REQUEST.InferInputTensor(name="x", datatype="INT32", shape=[1])
    tensor.contents.MergeFrom(oip_pb2.InferTensorContents(**contents))
    return REQUEST(model_name="m", inputs=[tensor]).SerializeToString()


@pytest.mark.parametrize("field", [EMPTY_INPUT, LONG_TAG], ids=["plain", "padded"])
def test_more_submessages_than_tensors_are_refused(field):
    protobuf.check(NAME + field * limits.TENSORS, REQUEST)
    with pytest.raises(PayloadTooLarge) as error:
        protobuf.check(NAME + field * (limits.TENSORS + 1), REQUEST)
    assert error.value.message == refusal("submessages", 16_384)


def test_a_request_has_at_most_1048576_fields():
    fields = b"\x3a\x00" * 1024 * 1024
    protobuf.check(fields, REQUEST)
    with pytest.raises(PayloadTooLarge) as error:
        protobuf.check(fields + NAME, REQUEST)
    assert error.value.message == refusal("fields", 1_048_576)


def test_strings_count_as_fields():
    protobuf.check(typed(bytes_contents=[b""] * 1000), REQUEST)
    with pytest.raises(PayloadTooLarge, match="has too many fields"):
        protobuf.check(typed(bytes_contents=[b""] * limits.VALUES), REQUEST)


def test_packed_floats_may_be_many_and_packed_integers_8388608():
    protobuf.check(packed(limits.PACKED * 2, 6), REQUEST)
    protobuf.check(packed(limits.PACKED, 2), REQUEST)
    for content in (packed(limits.PACKED + 1, 2), packed(limits.PACKED, 2) + packed(1, 2)):
        with pytest.raises(PayloadTooLarge) as error:
            protobuf.check(content, REQUEST)
        assert error.value.message == refusal("packed integers", 8_388_608)


def test_packed_integers_are_counted_by_their_last_bytes():
    wide = b"\x80\x01" * limits.PACKED
    content = proto_raw.block(5, proto_raw.block(5, proto_raw.block(2, wide)))
    protobuf.check(content, REQUEST)
    with pytest.raises(PayloadTooLarge):
        protobuf.check(content + packed(1, 3), REQUEST)


@pytest.mark.parametrize(
    "decode",
    [oip_proto.check_empty, oip_proto.decode_model_ready, oip_proto.decode_model_metadata,
     grps_proto.parse_small, health_proto.decode_check],
)  # fmt: skip
def test_messages_with_a_name_are_small(decode):
    with pytest.raises(PayloadTooLarge, match=r"has 80000 bytes: must have 65536 or fewer$"):
        decode(b"\x78\x01" * 40_000)


def test_a_small_message_has_at_most_64_kib():
    protobuf.check_small(bytes(65_536), REQUEST)
    with pytest.raises(PayloadTooLarge) as error:
        protobuf.check_small(bytes(65_537), REQUEST)
    assert error.value.message == (
        "the inference.ModelInferRequest has 65537 bytes: must have 65536 or fewer"
    )


def test_maps_of_many_entries_are_refused():
    message = grps_pb2.GrpsMessage()
    for index in range(limits.TENSORS + 1):
        message.gmap.s_s[str(index)] = ""

    with pytest.raises(PayloadTooLarge, match="submessages"):
        grps_proto.parse(message.SerializeToString())


@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda data: NAME + data))
def test_the_scan_accepts_what_the_parser_accepts(data):
    padded = LONG + data
    try:
        REQUEST.FromString(padded)
    except DecodeError:
        return
    try:
        protobuf.check(padded, REQUEST)
    except InvalidRequest:
        # only a group, which no request contains
        assert any(byte & 7 in (3, 4) for byte in data)


@pytest.mark.parametrize(
    "field",
    [
        b"\x79" + bytes(8),
        b"\x7d" + bytes(4),
        b"\x78" + b"\xff" * 9 + b"\x01",
        b"\xf8\x07\x01",  # a tag of two bytes
        b"\x80\x01\x05",
        b"\xfa\x07\x81\x01" + bytes(129),
        b"\x2a\x80\x00",  # a padded size
        b"\xfa\x07\x80\x01" + bytes(128),
        b"\x2a\x04\x2a\x02\x12\x00",  # no packed values
    ],
)
def test_any_field_is_scanned(field):
    REQUEST.FromString(LONG + field)
    protobuf.check(LONG + field, REQUEST)


@pytest.mark.parametrize(
    "field",
    [
        b"\x79" + bytes(7),
        b"\x7d" + bytes(3),
        b"\x78",
        b"\x78\x80",
        b"\x78" + b"\xff" * 10 + b"\x01",
        b"\x2a",
        b"\x2a\x05ab",
        b"\x2a\x02\x22\x05" + bytes(5),  # a string that exceeds its message
        b"\x2a\x01\x2a\x00",  # a size outside of the message
        b"\x2a\x02\x78\x80\x01",  # a number that exceeds the message
        b"\x2a\x04\x7d" + bytes(4),
        b"\x7e\x00",
        b"\x7f\x00",
    ],
)
def test_a_malformed_field_is_refused(field):
    data = LONG + field
    with pytest.raises(DecodeError):
        REQUEST.FromString(data)
    with pytest.raises(InvalidRequest) as error:
        protobuf.check(data, REQUEST)
    assert error.value.message == (
        f"the {len(data)} received bytes are not a valid inference.ModelInferRequest"
    )
    assert protobuf.is_quick(data, REQUEST)


def test_a_group_is_refused_because_it_could_hide_fields():
    hidden = b"\x7b" + b"\x2a\x7f" + b"\x7c" + EMPTY_INPUT * limits.TENSORS

    with pytest.raises(InvalidRequest, match="the 36871 received bytes are not a valid"):
        protobuf.check(LONG + hidden, REQUEST)


def test_small_messages_are_quick_and_those_of_many_fields_are_not():
    assert protobuf.is_quick(typed(fp32_contents=[1.0] * 100_000), REQUEST)
    assert not protobuf.is_quick(typed(bytes_contents=[b""] * 4000), REQUEST)


@pytest.mark.parametrize("field", [b"\x3a\x01a", b"\x78\xff\x01", b"\x2a\x02\x22\x00"])
def test_a_message_of_more_than_2048_fields_is_not_quick(field):
    count = 1024 if field[:1] == b"\x2a" else 2048  # with those inside
    assert protobuf.is_quick(LONG + field * (count - 1), REQUEST)
    assert not protobuf.is_quick(LONG + field * count, REQUEST)


def test_a_message_of_4_kib_is_left_to_the_parser():
    protobuf.check(b"\xff" * 4096, REQUEST)
    assert protobuf.is_quick(b"\x78\x01" * 2048, REQUEST)
    with pytest.raises(InvalidRequest):
        protobuf.check(b"\xff" * 4097, REQUEST)
