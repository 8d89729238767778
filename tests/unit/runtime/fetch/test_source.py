"""URIs of models: what each part means, and what is refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.failures import BadSource
from moorage_runtime.fetch.decide.source import (
    AzureSource,
    GcsSource,
    HttpsSource,
    HubSource,
    OciSource,
    S3Source,
    parse,
    parse_endpoint,
)

SHA = "0" * 64
USER = "it must not contain a user or password; put them in a Secret"
ASCII = "characters other than ASCII must be percent-encoded"
HUB = "it must contain the owner and the repository"
DIGEST = "the digest must be sha256: and 64 lower-case hexadecimal digits"
REGISTRY = "it must contain the registry and the repository"
FILE = "it must end with a file name"
TWO_OPTIONS = "after '?', each of endpoint or region may occur once, with a value"
FRAGMENT = "the part after '#' must be sha256= and 64 lower-case hexadecimal digits"
EXPECTED = {
    "s3": "s3://BUCKET/PATH",
    "gs": "gs://BUCKET/PATH",
    "azblob": "azblob://ACCOUNT/CONTAINER/PATH",
    "hf": "hf://OWNER/NAME[@REVISION][/PATH]",
    "oci": "oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME@sha256:DIGEST",
    "https": "https://HOST/PATH/FILE[#sha256=DIGEST]",
}


@pytest.mark.parametrize(
    ("uri", "source"),
    [
        ("s3://models", S3Source("models", "")),
        ("s3://models/", S3Source("models", "")),
        ("s3://models/a/b%20c%3F%23/", S3Source("models", "a/b c?#/")),
        (
            f"s3://models/a?region=eu-west-1&endpoint=http://h:9000/#sha256={SHA}",
            S3Source("models", "a", "eu-west-1", "http://h:9000", SHA),
        ),
        ("s3://models/XaX", S3Source("models", "XaX")),
        ("s3://models/a?", S3Source("models", "a")),
        ("s3://models/a#", S3Source("models", "a")),
        ("gs://my_bucket.example/a", GcsSource("my_bucket.example", "a")),
        (
            f"gs://models/a?endpoint=https://h#sha256={SHA}",
            GcsSource("models", "a", "https://h", SHA),
        ),
        ("azblob://acct/models/a%20b", AzureSource("acct", "models", "a b")),
        ("azblob://acct/models", AzureSource("acct", "models", "")),
        ("azblob://acct/models/a/", AzureSource("acct", "models", "a/")),
        ("azblob://acct//models//a", AzureSource("acct", "models", "a")),
        ("azblob://acct/models//Xa", AzureSource("acct", "models", "Xa")),
        ("azblob://acct/" + "a" * 63, AzureSource("acct", "a" * 63, "")),
        (
            f"azblob://acct/models/a?endpoint=http://h:1#sha256={SHA}",
            AzureSource("acct", "models", "a", "http://h:1", SHA),
        ),
        ("hf://o/n", HubSource("o/n", "main", "")),
        ("hf://o/n@v1", HubSource("o/n", "v1", "")),
        ("hf://o/n@refs%2Fpr%2F1/a%20b/c/", HubSource("o/n", "refs/pr/1", "a b/c")),
        ("hf://o/Xn/XaX", HubSource("o/Xn", "main", "XaX")),
        ("hf://o/n/a@b", HubSource("o/n", "main", "a@b")),
        ("hf://o/n?endpoint=https://h", HubSource("o/n", "main", "", "https://h")),
        ("oci://r.example:5000/a/b:v1", OciSource("r.example:5000", "a/b", "v1")),
        (f"oci://r/n@sha256:{SHA}", OciSource("r", "n", f"sha256:{SHA}")),
        (f"oci://r/n:v1@sha256:{SHA}", OciSource("r", "n", f"sha256:{SHA}")),
        ("oci://r/n:v1?path=/models/iris/", OciSource("r", "n", "v1", "models/iris")),
        ("oci://r/n:v1?path=XaX", OciSource("r", "n", "v1", "XaX")),
        ("oci://[::1]:5000/n:v1", OciSource("[::1]:5000", "n", "v1")),
        ("https://h/a/b.onnx", HttpsSource("https://h/a/b.onnx", "b.onnx")),
        (
            f"https://H.example:8443/a%20b.zip?token=a/b#sha256={SHA}",
            HttpsSource("https://H.example:8443/a%20b.zip?token=a/b", "a b.zip", SHA),
        ),
    ],
)
def test_a_uri_is_parsed(uri, source):
    assert parse(uri) == source


@pytest.mark.parametrize("uri", ["", "s3", "s3:/models", "ftp://h/a", "S3://models", "http://h/a"])
def test_a_uri_without_a_supported_scheme_is_refused(uri):
    with pytest.raises(BadSource) as caught:
        parse(uri)

    assert str(caught.value) == (
        "the URI has no supported scheme: must be azblob or gs or hf or https or oci or s3"
    )


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("s3://u:p@models/a", USER),
        ("https://u@h/a", USER),
        ("s3://models/ä", ASCII),
        ("s3://models/a b", ASCII),
        ("s3://models/a\n", ASCII),
        ("https://h:0/a", "its port must be 1 to 65535"),
        ("https://h:99999/a", "it is not a URI (Port out of range 0-65535)"),
        ("s3://Models/a", "'Models' is not a valid bucket name"),
        ("gs://m/a", "'m' is not a valid bucket name"),
        ("gs:///a", "'' is not a valid bucket name"),
        ("azblob://Acct/models", "'Acct' is not a valid name of a storage account"),
        ("azblob://acct", "'' is not a valid container name"),
        ("azblob://acct/a--b/c", "'a--b' is not a valid container name"),
        ("azblob://acct/" + "a" * 64, f"'{'a' * 64}' is not a valid container name"),
        ("azblob://acct/" + "a-" * 32 + "a", f"'{'a-' * 32}a' is not a valid container name"),
        ("hf://o", HUB),
        ("hf://gpt2@main", HUB),
        ("hf://-o/n", HUB),
        ("hf://o/-n", HUB),
        ("hf://o/n@", "the revision after '@' is empty; write a '/' in it as %2F"),
        ("oci://r/n", "it must end with a tag or a digest"),
        ("oci://r/n:", "it must end with a tag or a digest"),
        (
            f"oci://r/n@{SHA}",
            DIGEST,
        ),
        (
            f"oci://r/n@sha256:{SHA[1:]}",
            DIGEST,
        ),
        (f"oci://r/@sha256:{SHA}", REGISTRY),
        ("oci://r/N:v1", REGISTRY),
        ("oci://r/Xn:v1", REGISTRY),
        (f"oci://r/n:v1@x@sha256:{SHA}", DIGEST),
        ("oci:///n:v1", REGISTRY),
        ("oci://r/n:v1?path=a/../b", "path must not contain '.' or '..'"),
        ("oci://r/n:v1?path=./a", "path must not contain '.' or '..'"),
        ("https://h", FILE),
        ("https://h/a/", FILE),
        ("https:///a", FILE),
        ("https://h/%2E%2E", FILE),
        ("https://h/%2E", FILE),
        ("https://h/a%2Fb", FILE),
        ("s3://models/a?region", "the options after '?' must be name=value"),
        ("s3://models/a?region=", TWO_OPTIONS),
        (
            "s3://models/a?region=a&region=a",
            TWO_OPTIONS,
        ),
        ("s3://models/a?path=a", TWO_OPTIONS),
        ("gs://models/a?region=a", "after '?', each of endpoint may occur once, with a value"),
        ("oci://r/n:1?endpoint=a", "after '?', each of path may occur once, with a value"),
        ("s3://models/a?region=EU", "region must be a region such as eu-west-1"),
        (
            f"s3://models/a#{SHA}",
            FRAGMENT,
        ),
        (
            f"https://h/a#md5={SHA}",
            FRAGMENT,
        ),
        (
            f"https://h/a#sha256={'A' * 64}",
            FRAGMENT,
        ),
        (f"hf://o/n#sha256={SHA}", "without '#'"),
        ("oci://r/n:1#a", "without '#'"),
    ],
)
def test_an_invalid_uri_is_refused_with_the_form_and_the_reason(uri, why):
    with pytest.raises(BadSource) as caught:
        parse(uri)

    scheme = uri.partition(":")[0]
    assert str(caught.value) == f"the URI is invalid: must be {EXPECTED[scheme]}: {why}"


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("https://s3.example", "https://s3.example"),
        ("http://S3.example:9000/", "http://S3.example:9000"),
        ("HTTP://[::1]:9", "http://[::1]:9"),
        ("https://h?", "https://h"),
        ("https://h\n", "https://h"),
    ],
)
def test_an_endpoint_is_an_address(text, endpoint):
    assert parse_endpoint(text, "AWS_ENDPOINT_URL") == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "ftp://h",
        "https://h/a",
        "https://h?a",
        "https://h#a",
        "https://u@h",
        "https://h:0",
    ],
)
def test_another_text_than_an_address_is_refused(text):
    with pytest.raises(BadSource) as caught:
        parse_endpoint(text, "AWS_ENDPOINT_URL")

    assert str(caught.value) == (
        "AWS_ENDPOINT_URL is invalid: must be an address such as https://s3.example:9000"
    )


@pytest.mark.parametrize("text", ["https://[h", "https://h:99999", "https://h:x"])
def test_a_malformed_address_is_refused(text):
    with pytest.raises(BadSource, match=r"^AWS_ENDPOINT_URL is not a valid address \(.+\)$"):
        parse_endpoint(text, "AWS_ENDPOINT_URL")


def test_an_invalid_endpoint_in_a_uri_is_named():
    with pytest.raises(BadSource, match=r"^endpoint in the s3 URI is invalid"):
        parse("s3://models/a?endpoint=h")


@given(st.sampled_from(sorted(EXPECTED)), st.text("a/:@?#%=.[]&2F ", max_size=30))
def test_any_uri_is_parsed_or_refused(scheme, rest):
    with contextlib.suppress(BadSource):
        parse(f"{scheme}://{rest}")
