"""Responses of S3: pages of a listing, errors and checksums."""

import base64
import contextlib
import hashlib
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.entries import Algorithm, Digest
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, Denied, NotFound, Unreachable
from moorage_runtime.fetch.decide.s3_answers import (
    Asked,
    Page,
    S3Error,
    StoredObject,
    failure_of_s3,
    parse_error,
    parse_page,
    promised_digest,
)

NOW = datetime(2013, 5, 24, tzinfo=UTC)
ASKED = Asked("s3://b/a", "b", "s3.example", told=True)
MD5 = Digest(Algorithm.MD5, "0" * 32)
SHA256 = Digest(Algorithm.SHA256, hashlib.sha256(b"x").hexdigest())
IN_BASE64 = base64.b64encode(hashlib.sha256(b"x").digest()).decode()
NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def item(key: str, size: object = 3) -> str:
    return f'<Contents><Key>{key}</Key><Size>{size}</Size><ETag>"XabX"</ETag></Contents>'


def page(*parts: str, namespace: str = NAMESPACE) -> bytes:
    return f"<ListBucketResult{namespace}>{''.join(parts)}</ListBucketResult>".encode()


@pytest.mark.parametrize("namespace", [NAMESPACE, ""], ids=["Amazon", "without a namespace"])
def test_a_page_has_objects(namespace):
    more = "<Name>b</Name><CommonPrefixes><Key>x</Key></CommonPrefixes>"

    found = parse_page(page(more, item("a/b"), item("c", 0), namespace=namespace), "what")

    assert found == Page((StoredObject("a/b", 3, "XabX"), StoredObject("c", 0, "XabX")), "")


def test_a_truncated_page_has_the_token_of_the_next_one():
    token = "<NextContinuationToken>next</NextContinuationToken>"

    for truncated, expected in (("true", "next"), ("false", "")):
        body = page(f"<IsTruncated>{truncated}</IsTruncated>", token)
        assert parse_page(body, "what") == Page((), expected)


def test_a_truncated_page_without_a_token_is_refused():
    with pytest.raises(Corrupt) as caught:
        parse_page(page("<IsTruncated>true</IsTruncated>", item("a")), "s3://b/a")

    assert str(caught.value) == (
        "s3://b/a: the server's listing is truncated and has no continuation token"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html/>", page(item("a"))[:-1], page(item("a", "many")), page(item("a", -1)),
        page(item("a", "9" * 30)), page("<Contents><Key>a</Key></Contents>"),
        b"<?xml version='1.0' encoding='wrong'?><a/>",
    ],
)  # fmt: skip
def test_another_body_than_a_page_is_refused(body):
    with pytest.raises(Corrupt) as caught:
        parse_page(body, "s3://b/a")

    assert str(caught.value) == "s3://b/a: the server's listing is not a valid S3 response"


@given(st.binary(max_size=200), st.integers(0, 400))
@example(junk=b"a", at=33)
def test_any_page_is_read_or_refused(junk, at):
    whole = b"<?xml version='1.0' encoding='utf-8'?>" + page(item("a"), item("b"))
    with contextlib.suppress(Corrupt):
        parse_page(whole[:at] + junk + whole[at:], "what")


def test_an_error_has_a_code_a_message_and_perhaps_a_region():
    parts = "<Code>c</Code><Message>m</Message>"

    assert parse_error(f"<Error>{parts}<Region>r</Region></Error>") == S3Error("c", "m", "r")
    assert parse_error(f"<Error{NAMESPACE}>{parts}</Error>") == S3Error("c", "m", "")
    assert parse_error(f"<Error>{parts}<Region/></Error>") == S3Error("c", "m", "")


@pytest.mark.parametrize("body", ["", "<html><Code>c</Code></html>", "<Error><Code>c</Code>"])
def test_another_body_than_an_error_says_nothing(body):
    assert parse_error(body) == S3Error()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("InvalidAccessKeyId", "does not know the access key: check AWS_ACCESS_KEY_ID"),
        ("XAdminUserNotFound", "does not know the access key: check AWS_ACCESS_KEY_ID"),
        (
            "SignatureDoesNotMatch",
            "refuses the signature: check AWS_SECRET_ACCESS_KEY and the region",
        ),
        ("ExpiredToken", "reports that the session token has expired: renew the Secret"),
        ("InvalidToken", "refuses the session token: check AWS_SESSION_TOKEN"),
        ("RequestTimeTooSkewed", "reports that this node's clock is wrong"),
    ],
)
def test_a_refused_credential_is_named(code, words):
    failure = failure_of_s3(404, {}, S3Error(code, "m"), ASKED, NOW)

    assert type(failure) is Denied
    assert str(failure) == f"access to s3://b/a is denied: s3.example {words} ({code})"


def test_a_bucket_that_does_not_exist_is_named():
    failure = failure_of_s3(404, {}, S3Error("NoSuchBucket"), ASKED, NOW)

    assert type(failure) is NotFound
    assert str(failure) == "bucket 'b' does not exist at s3.example: check the URI"


def test_an_archived_object_is_no_matter_of_credentials():
    """S3 answers 403 to a request for an object that must be restored first."""
    failure = failure_of_s3(403, {}, S3Error("InvalidObjectState", "m"), ASKED, NOW)

    assert type(failure) is BadSource
    assert str(failure) == (
        "s3://b/a is in an archive, such as S3 Glacier (InvalidObjectState): restore it, or copy "
        "it to another storage class"
    )


@pytest.mark.parametrize(
    "code", ["SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable"]
)
def test_a_busy_server_is_asked_again_after_the_wait_that_it_wants(code):
    headers = {"Retry-After": "Fri, 24 May 2013 00:00:09 GMT"}

    failure = failure_of_s3(400, headers, S3Error(code), ASKED, NOW)

    assert type(failure) is Unreachable
    assert str(failure) == f"s3://b/a: s3.example answers {code}"
    assert failure.wait_seconds == 9


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (S3Error("C", "M"), " (C: M)"),
        (S3Error("C"), " (C)"),
        (S3Error("", "M\n m"), " (M m)"),
        (S3Error(), ""),
    ],
)
def test_any_other_error_is_quoted(said, words):
    failure = failure_of_s3(400, {}, said, ASKED, NOW)

    assert type(failure) is BadSource
    assert str(failure) == f"s3://b/a: the server answered with status 400{words}"


def test_a_status_without_a_code_decides():
    headers = {"Retry-After": "Fri, 24 May 2013 00:00:09 GMT"}

    assert failure_of_s3(500, headers, S3Error(), ASKED, NOW).wait_seconds == 9
    assert "check the credentials" in str(failure_of_s3(403, {}, S3Error(), ASKED, NOW))
    anonymous = Asked("s3://b/a", "b", "s3.example", told=False)
    assert "secretName" in str(failure_of_s3(403, {}, S3Error(), anonymous, NOW))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, MD5),
        ({"x-amz-checksum-sha256": IN_BASE64}, SHA256),
        ({"x-amz-checksum-sha256": IN_BASE64, "x-amz-checksum-type": "FULL_OBJECT"}, SHA256),
        ({"x-amz-checksum-sha256": IN_BASE64, "x-amz-checksum-type": "COMPOSITE"}, MD5),
        ({"x-amz-checksum-sha256": f"{IN_BASE64}-3"}, MD5),
        ({"x-amz-checksum-sha256": "damaged"}, MD5),
        ({"x-amz-checksum-sha256": IN_BASE64[4:]}, MD5),
        ({"x-amz-server-side-encryption": "AES256"}, MD5),
        ({"x-amz-server-side-encryption": "aws:kms"}, None),
        ({"x-amz-server-side-encryption": "aws:kms:dsse"}, None),
        ({"x-amz-server-side-encryption-customer-algorithm": "AES256"}, None),
        (
            {"x-amz-server-side-encryption": "aws:kms", "x-amz-checksum-sha256": IN_BASE64},
            SHA256,
        ),
    ],
)
def test_a_digest_is_the_servers_sha256_or_the_md5_of_the_content(headers, expected):
    assert promised_digest(MD5, headers) == expected


def test_a_declared_digest_takes_precedence():
    declared = Digest(Algorithm.SHA256, "0" * 64)

    assert promised_digest(declared, {"x-amz-checksum-sha256": IN_BASE64}) == declared
    assert promised_digest(None, {}) is None
