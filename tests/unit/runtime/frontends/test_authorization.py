"""The check of an HTTP request's bearer token."""

import pytest

from moorage_runtime.frontends.http.authorization import BearerToken
from moorage_runtime.frontends.http.received import Refusal

REFUSED = Refusal(
    401, "a valid bearer token is required", "/v2", ((b"WWW-Authenticate", b"Bearer"),)
)


def exempt_nothing(_method: str, _path: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("given", "is_allowed"),
    [
        ("Bearer right", True),
        ("bearer right", True),
        ("BEARER right", True),
        ("Bearer   right  ", True),
        ("Bearer next", True),
        ("Bearer", False),
        ("Bearer ", False),
        ("Bearer wrong", False),
        ("Bearer rig", False),
        ("Bearer right next", False),
        ("Basic right", False),
        ("right", False),
        (" right", False),
        ("", False),
    ],
)
def test_a_request_is_allowed_with_one_of_the_tokens(given, is_allowed):
    admission = BearerToken(["right", "next"], exempt_nothing)

    assert admission("GET", "/v2", {"authorization": given}) == (None if is_allowed else REFUSED)


def test_a_request_without_the_header_is_refused():
    admission = BearerToken(["right", "XXXX"], exempt_nothing)

    assert admission("GET", "/v2", {"other": "Bearer right"}) == REFUSED


@pytest.mark.parametrize(
    ("method", "path", "is_allowed"),
    [("GET", "/open", True), ("POST", "/open", False), ("GET", "/v2", False)],
)
def test_an_exempt_request_needs_no_token(method, path, is_allowed):
    admission = BearerToken(["right"], lambda *found: found == ("GET", "/open"))

    refusal = admission(method, path, {})

    assert (refusal is None) is is_allowed
    assert refusal is None or refusal == Refusal(401, REFUSED.message, path, REFUSED.headers)
    assert admission(method, path, {"authorization": "Bearer right"}) is None


def test_replaced_tokens_are_no_longer_accepted():
    admission = BearerToken(["first", "second"], exempt_nothing)

    admission.replace(["second", "third"])

    known = [each for each in ("first", "second", "third") if admission.knows(each)]
    assert known == ["second", "third"]


@pytest.mark.parametrize(("token", "is_known"), [("größe", True), ("gr", False)])
def test_characters_beyond_ascii_are_compared_as_utf_8(token, is_known):
    assert BearerToken(["größe"], exempt_nothing).knows(token) is is_known


def test_bytes_that_are_not_utf_8_are_compared_and_not_an_error():
    # gRPC libraries decode the metadata with surrogates.
    given = b"\xff".decode("utf-8", "surrogateescape")

    assert not BearerToken(["right"], exempt_nothing).knows(given)
