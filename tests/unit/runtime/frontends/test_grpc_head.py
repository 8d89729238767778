"""The headers of a gRPC call in the libnghttp2 transport."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.nghttp2.head import (
    CallHead,
    HttpRefusal,
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
    with pytest.raises(HttpRefusal, match="content-type is '") as caught:
        parse_head({**PLAIN, b"content-type": kind})
    assert caught.value.status == 415


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"CONNECT"])
def test_another_method_is_not_a_call(method):
    with pytest.raises(HttpRefusal) as caught:
        parse_head({**PLAIN, b":method": method})
    assert caught.value.status == 405


@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate"])
def test_known_codings_are_accepted(coding):
    head = parse_head({**PLAIN, b"grpc-encoding": coding.encode(), b"grpc-timeout": b"5S"})
    assert head == CallHead(coding, 5.0)


def test_an_unknown_coding_is_unimplemented():
    with pytest.raises(GrpcFault, match="grpc-encoding is 'br'") as caught:
        parse_head({**PLAIN, b"grpc-encoding": b"br"})
    assert caught.value.code == "UNIMPLEMENTED"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2H", 7200),
        ("3M", 180),
        ("10S", 10),
        ("100m", 0.1),
        ("50u", 50e-6),
        ("99999999n", 0.099999999),
        ("0S", 0),
    ],
)
def test_timeouts_have_a_unit(text, seconds):
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "S", "1", "1s", "-1S", "1.5S", "+1S", "123456789S", "²S", "1 S"]
)
def test_an_invalid_timeout_is_refused(text):
    with pytest.raises(GrpcFault, match="grpc-timeout is '") as caught:
        parse_timeout(text)
    assert caught.value.code == "INVALID_ARGUMENT"


@given(st.text(max_size=12))
def test_any_text_is_a_timeout_or_a_fault(text):
    with contextlib.suppress(GrpcFault):
        assert parse_timeout(text) >= 0


def test_metadata_contains_only_text():
    fields = {**PLAIN, b"authorization": b"Bearer \xe9", b"trace-bin": b"AAA="}
    assert metadata(fields) == {"content-type": "application/grpc", "authorization": "Bearer é"}
