"""Azure Blob Storage: signatures, pages of a listing, and the failure for each response."""

import base64
import contextlib
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.azure_answers import Asked, failure_of_azure, md5_of, parse_page
from moorage_runtime.fetch.decide.azure_key import make_account_key, sign
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, Denied, NotFound, Unreachable

NOW = datetime(2015, 6, 26, 23, 39, 12, tzinfo=UTC)
SECRET = base64.b64encode(b"secret").decode()
MD5 = base64.b64encode(hashlib.md5(b"x").digest()).decode()
WITH_KEY = Asked("azblob://a/c/x", "account", "models", "AZURE_STORAGE_KEY")
WITHOUT_KEY = Asked("azblob://a/c/x", "account", "models", "")


def page(*blobs: str, marker: str = "") -> bytes:
    items = "".join(f"<Blob>{blob}</Blob>" for blob in blobs)
    text = f"<EnumerationResults><Blobs>{items}</Blobs><NextMarker>{marker}</NextMarker>"
    return f"\ufeff<?xml version='1.0' encoding='utf-8'?>{text}</EnumerationResults>".encode()


def blob(name: str, size: object = 3, more: str = "", attribute: str = "") -> str:
    properties = f"<Content-Length>{size}</Content-Length><Etag>0x8D</Etag>{more}"
    return f"<Name{attribute}>{name}</Name><Properties>{properties}</Properties>"


def test_the_string_to_sign_is_that_of_the_documentation():
    # "Authorize with Shared Key", the example of Get Container Metadata, with a Range and a date
    url = "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata"
    headers = {"x-ms-version": "2015-02-21", "Range": "bytes=5-", "If-Match": '"0x8D"'}
    wanted = (
        'GET\n\n\n\n\n\n\n\n"0x8D"\n\n\nbytes=5-\n'
        "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
        "/myaccount/mycontainer\ncomp:metadata\nrestype:container"
    )
    digest = hmac.new(b"secret", wanted.encode(), hashlib.sha256).digest()

    sent = sign("GET", url, headers, key=make_account_key("myaccount", SECRET), now=NOW)

    assert sent["authorization"] == f"SharedKey myaccount:{base64.b64encode(digest).decode()}"
    assert (sent["range"], sent["if-match"]) == ("bytes=5-", '"0x8D"')


def test_a_key_that_is_not_base64_is_refused():
    with pytest.raises(BadSource, match="AZURE_STORAGE_KEY"):
        make_account_key("account", "no base64!")


def test_a_page_has_blobs_and_a_marker():
    md5 = f"<Content-MD5>{MD5}</Content-MD5>"
    found = parse_page(page(blob("a/b.onnx", 7, md5), marker="next"), "what")

    (only,) = found.blobs
    assert (only.name, only.size, only.etag) == ("a/b.onnx", 7, "0x8D")
    assert only.md5 == hashlib.md5(b"x").hexdigest()
    assert found.marker == "next"


def test_a_name_that_xml_cannot_contain_is_decoded():
    (only,) = parse_page(page(blob("a%01%25", attribute=' Encoded="true"')), "what").blobs

    assert only.name == "a\x01%"


@pytest.mark.parametrize(
    "mark",
    [
        blob("folder", 0, "<ResourceType>directory</ResourceType>"),
        blob("folder", 0) + "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>",
        blob("folder/", 0),
    ],
    ids=["hierarchical namespace", "metadata", "slash"],
)
def test_marks_of_folders_are_left_out(mark):
    found = parse_page(page(mark, blob("folder/a")), "what")

    assert [each.name for each in found.blobs] == ["folder/a"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html></html>", b"<EnumerationResults>", page(blob("a", "many")),
        page("<Properties><Content-Length>1</Content-Length></Properties>"),
    ],
    ids=["empty", "another document", "cut", "size", "no name"],
)  # fmt: skip
def test_a_page_that_is_not_a_listing_is_refused(body):
    with pytest.raises(Corrupt, match="azblob://a/c/x"):
        parse_page(body, "azblob://a/c/x")


@given(st.binary(max_size=200), st.integers(0, 400))
@example(junk=b"a", at=33)  # an encoding that does not exist
def test_any_page_is_read_or_refused(junk, at):
    whole = page(blob("a"), blob("b"))
    with contextlib.suppress(Corrupt):
        parse_page(whole[:at] + junk + whole[at:], "what")


@pytest.mark.parametrize("text", ["", "AAAA", "no base64!", "\u00e4"])
def test_a_content_md5_that_is_none_is_ignored(text):
    assert not md5_of(text)


@pytest.mark.parametrize(
    ("status", "code", "asked", "kind", "words"),
    [
        (403, "AuthenticationFailed", WITH_KEY, Denied, "AZURE_STORAGE_KEY"),
        (403, "AuthorizationFailure", WITH_KEY, Denied, "AuthorizationFailure"),
        (404, "ContainerNotFound", WITH_KEY, NotFound, "'models'"),
        (404, "BlobNotFound", WITH_KEY, NotFound, "azblob://a/c/x contains no blobs"),
        (404, "ResourceNotFound", WITHOUT_KEY, Denied, "model.credentials.secretName"),
        (409, "PublicAccessNotPermitted", WITHOUT_KEY, Denied, "PublicAccessNotPermitted"),
        (503, "ServerBusy", WITH_KEY, Unreachable, "ServerBusy"),
        (400, "InvalidUri", WITH_KEY, BadSource, "InvalidUri: The requested URI is wrong."),
    ],
)
def test_a_response_means_one_failure(status, code, asked, kind, words):
    text = "The requested URI is wrong.\nRequestId:1\nTime:2"
    body = f"\ufeff<Error><Code>{code}</Code><Message>{text}</Message></Error>"

    found = failure_of_azure(status, {"x-ms-error-code": code}, body, asked, NOW)

    assert type(found) is kind
    assert words in str(found)
    assert "RequestId" not in str(found)
