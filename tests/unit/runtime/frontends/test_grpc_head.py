"""The headers of a gRPC call in the libnghttp2 transport."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.nghttp2.head import (
    CallHead,
    HttpRefusal,
    check_size,
    metadata,
    parse_head,
    parse_timeout,
)

PLAIN = {b":method": b"POST", b":path": b"/s/M", b"content-type": b"application/grpc"}


@pytest.mark.parametrize(
    "kind", [b"application/grpc", b"application/grpc+proto", b"application/grpc;charset=utf-8"]
)
def test_a_plain_call_has_no_coding_and_no_deadline(kind):
    assert parse_head({**PLAIN, b"content-type": kind}) == CallHead("identity", None)


@pytest.mark.parametrize("kind", [b"", b"application/json", b"application/grpc-web", b"text/html"])
def test_another_content_type_is_not_a_call(kind):
    with pytest.raises(HttpRefusal) as caught:
        parse_head({**PLAIN, b"content-type": kind})
    assert (caught.value.status, caught.value.message) == (
        415,
        f"content-type is '{kind.decode()}': must be application/grpc",
    )
    assert str(caught.value) == caught.value.message


def test_a_call_needs_a_method_and_a_content_type():
    with pytest.raises(HttpRefusal, match="the method must be POST"):
        parse_head({b"content-type": b"application/grpc"})
    with pytest.raises(HttpRefusal, match="content-type is ''"):
        parse_head({b":method": b"POST"})


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"CONNECT"])
def test_another_method_is_not_a_call(method):
    with pytest.raises(HttpRefusal) as caught:
        parse_head({**PLAIN, b":method": method})
    assert (caught.value.status, caught.value.message) == (
        405,
        "not a gRPC call: the method must be POST",
    )


@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate"])
def test_known_codings_are_accepted(coding):
    head = parse_head({**PLAIN, b"grpc-encoding": coding.encode(), b"grpc-timeout": b"5S"})
    assert head == CallHead(coding, 5.0)


def test_an_unknown_coding_is_unimplemented():
    with pytest.raises(GrpcFault) as caught:
        parse_head({**PLAIN, b"grpc-encoding": b"br" + b"\xe9" * 60})
    assert (caught.value.code, caught.value.message) == (
        "UNIMPLEMENTED",
        f"grpc-encoding is 'br{'é' * 58}': must be one of identity, deflate, gzip",
    )


@pytest.mark.parametrize(
    ("limit_bytes", "limit_count", "message"),
    [
        (76, 3, ""),
        (75, 3, "the call's headers have 76 bytes: must have 75 or fewer"),
        (1000, 2, "the call has 3 headers: must have 2 or fewer"),
    ],
)
def test_headers_are_limited_in_size_and_number(limit_bytes, limit_count, message):
    fields = {b"name": b"value", b"b": b"cd"}
    try:
        check_size(fields, 3, limit_bytes, limit_count)
    except GrpcFault as fault:
        assert (fault.code, fault.message) == ("RESOURCE_EXHAUSTED", message)  # noqa: PT017
    else:
        assert not message


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2H", 7200),
        ("3M", 180),
        ("10S", 10),
        ("100m", 0.1),
        ("50u", 50e-6),
        ("99999999n", 0.099999999),
        ("12345678S", 12345678),
        ("0S", 0),
    ],
)
def test_timeouts_have_a_unit(text, seconds):
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "S", "1", "1s", "-1S", "1.5S", "+1S", "123456789S", "²S", "1 S"]
)
def test_an_invalid_timeout_is_refused(text):
    with pytest.raises(GrpcFault) as caught:
        parse_timeout(text)
    assert (caught.value.code, caught.value.message) == (
        "INVALID_ARGUMENT",
        f"grpc-timeout is {text!r}: must be at most 8 digits and one of H, M, S, m, u, n",
    )


def test_a_long_timeout_is_cut_in_the_message():
    with pytest.raises(GrpcFault, match=f"grpc-timeout is '{'x' * 60}':"):
        parse_timeout("x" * 61)


@given(st.text(max_size=12))
def test_any_text_is_a_timeout_or_a_fault(text):
    with contextlib.suppress(GrpcFault):
        assert parse_timeout(text) >= 0


def test_metadata_contains_only_text():
    fields = {**PLAIN, b"x-\xe9": b"Bearer \xe9", b"trace-bin": b"AAA="}
    assert metadata(fields) == {"content-type": "application/grpc", "x-é": "Bearer é"}
