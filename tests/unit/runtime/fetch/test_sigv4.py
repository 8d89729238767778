"""Signatures for S3 and compatible servers."""

from datetime import UTC, datetime

import pytest

from moorage_runtime.fetch.decide.sigv4 import AccessKey, canonical_query, quoted_path, sign

NOW = datetime(2013, 5, 24, tzinfo=UTC)
# Amazon S3 API Reference, "Examples: Signature Calculations"
KEY = AccessKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
BUCKET = "https://examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("url", "headers", "signature"),
    [
        (
            "/test.txt",
            {"Range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        ("?lifecycle=", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "?prefix=J&max-keys=2",
            {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
    ids=["an object", "a subresource", "a listing"],
)
def test_signatures_equal_those_of_amazons_examples(url, headers, signature):
    sent = sign("GET", BUCKET + url, headers, key=KEY, region="us-east-1", now=NOW)

    assert sent["authorization"].endswith(f"Signature={signature}")
    assert sent["x-amz-date"] == "20130524T000000Z"


def test_a_session_token_is_signed():
    key = AccessKey("id", "secret", "token")

    sent = sign("GET", f"{BUCKET}/a", {}, key=key, region="us-east-1", now=NOW)

    assert sent["x-amz-security-token"] == "token"
    assert "x-amz-security-token," not in sent["authorization"].split("Signature=")[1]
    assert "x-amz-security-token" in sent["authorization"]
    assert "secret" not in repr(key)
    assert "token" not in repr(key).replace("token=", "")


def test_paths_and_queries_are_encoded_once():
    assert quoted_path("a b/ä+%.bin") == "a%20b/%C3%A4%2B%25.bin"
    assert canonical_query("b=1&a=x%20y&a=%2B") == "a=%2B&a=x%20y&b=1"


def test_a_signature_names_the_key_its_scope_and_all_signed_headers():
    sent = sign(
        "GET", f"{BUCKET}/test.txt", {"Range": "bytes=0-9"}, key=KEY, region="us-east-1", now=NOW
    )

    assert sent == {
        "range": "bytes=0-9",
        "x-amz-date": "20130524T000000Z",
        "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "authorization": (
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        ),
    }


@pytest.mark.usefixtures("tokyo")
def test_the_time_of_a_signature_is_in_utc():
    sent = sign("GET", f"{BUCKET}/test.txt", {}, key=KEY, region="us-east-1", now=NOW.astimezone())

    assert sent["x-amz-date"] == "20130524T000000Z"


@pytest.mark.parametrize(
    ("one", "other", "headers"),
    [
        (BUCKET, f"{BUCKET}/", [{}, {}]),
        (f"{BUCKET}?a", f"{BUCKET}?a=", [{}, {}]),
        (BUCKET, BUCKET, [{"Range": "bytes=5-"}, {"RANGE": " bytes=5- "}]),
    ],
    ids=["an empty path", "an empty value", "spaces around a header"],
)
def test_the_same_request_in_other_words_has_the_same_signature(one, other, headers):
    first, second = (
        sign("GET", url, given, key=KEY, region="us-east-1", now=NOW)["authorization"]
        for url, given in zip((one, other), headers, strict=True)
    )

    assert first == second


def test_unreserved_characters_are_not_encoded():
    assert quoted_path("/A-z_0.9~/") == "/A-z_0.9~/"
    assert canonical_query("A-z_0.9~=A-z_0.9~") == "A-z_0.9~=A-z_0.9~"
    assert canonical_query("a=b/c&%2F") == "%2F=&a=b%2Fc"
