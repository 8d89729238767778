"""Azure Blob Storage: signatures, pages of a listing, and the failure for each response."""

import base64
import contextlib
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.azure_answers import (
    Asked,
    Blob,
    Page,
    digest_of,
    failure_of_azure,
    is_folder,
    md5_of,
    parse_page,
)
from moorage_runtime.fetch.decide.azure_key import make_account_key, sign
from moorage_runtime.fetch.decide.entries import Algorithm, Digest
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
    etag = '<Etag>"X0x8D"</Etag>'
    properties = f"<Content-Length>{size}</Content-Length>{etag}{more}"
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


@pytest.mark.usefixtures("tokyo")
def test_the_date_of_a_signature_is_in_utc():
    sent = sign("GET", "https://h/c", {}, key=make_account_key("a", SECRET), now=NOW.astimezone())

    assert sent["x-ms-date"] == "Fri, 26 Jun 2015 23:39:12 GMT"


@pytest.mark.parametrize(
    ("url", "resource"),
    [
        ("https://h", "/account/"),
        ("https://h/", "/account/"),
        ("https://h/c/a%20b?prefix=&comp=list", "/account/c/a%20b\ncomp:list\nprefix:"),
        ("https://h/c?Include=b&include=a%2Cc", "/account/c\ninclude:a,c,b"),
    ],
    ids=["empty", "root", "a blank value", "several values"],
)
def test_a_signature_covers_the_whole_query(url, resource):
    wanted = f"HEAD{chr(10) * 12}x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n{resource}"
    digest = hmac.new(b"secret", wanted.encode(), hashlib.sha256).digest()

    sent = sign("HEAD", url, {}, key=make_account_key("account", SECRET), now=NOW)

    assert sent["authorization"] == f"SharedKey account:{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize("text", ["no base64!", "c2VjcmV", "\u00e4"])
def test_a_key_that_is_not_base64_is_refused(text):
    with pytest.raises(BadSource) as caught:
        make_account_key("account", text)

    assert str(caught.value) == (
        "the key AZURE_STORAGE_KEY of the Secret is not valid base64: copy one of the access keys "
        "of the storage account"
    )


def test_a_page_has_blobs_and_a_marker():
    md5 = f"<Content-MD5>{MD5}</Content-MD5>"
    found = parse_page(page(blob("a/b.onnx", 7, md5), marker="next"), "what")

    (only,) = found.blobs
    assert (only.name, only.size, only.etag) == ("a/b.onnx", 7, "X0x8D")
    assert only.md5 == hashlib.md5(b"x").hexdigest()
    assert found.marker == "next"


def test_a_blob_needs_neither_a_tag_nor_an_md5():
    plain = "<Name>a</Name><Properties><Content-Length>0</Content-Length></Properties>"

    assert parse_page(page(plain), "what") == Page((Blob("a", 0, "", ""),), "")


@pytest.mark.parametrize(
    ("attribute", "name"),
    [(' Encoded="true"', "a\x01%"), (' Encoded="false"', "a%01%25"), ("", "a%01%25")],
)
def test_a_name_that_xml_cannot_contain_is_decoded(attribute, name):
    (only,) = parse_page(page(blob("a%01%25", attribute=attribute)), "what").blobs

    assert only.name == name


@pytest.mark.parametrize(
    "mark",
    [
        blob("folder", 0, "<ResourceType>directory</ResourceType>"),
        blob("folder", 0) + "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>",
        blob("folder", 0) + "<Metadata><Hdi_IsFolder>True</Hdi_IsFolder></Metadata>",
        blob("folder/", 0),
    ],
    ids=["hierarchical namespace", "metadata", "other letters", "slash"],
)
def test_marks_of_folders_are_left_out(mark):
    found = parse_page(page(mark, blob("folder/a")), "what")

    assert [each.name for each in found.blobs] == ["folder/a"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html></html>", b"<EnumerationResults>", page(blob("a", "many")),
        page(blob("a", -1)), page(blob("")), page("<Name>a</Name><Properties/>"),
        page("<Properties><Content-Length>1</Content-Length></Properties>"),
    ],
    ids=[
        "empty", "another document", "cut", "words", "negative", "empty name", "no size",
        "no name",
    ],
)  # fmt: skip
def test_a_page_that_is_not_a_listing_is_refused(body):
    with pytest.raises(Corrupt) as caught:
        parse_page(body, "azblob://a/c/x")

    assert str(caught.value) == (
        "azblob://a/c/x: the server's listing is not a valid Azure response"
    )


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"x-ms-meta-hdi_isfolder": "false"}, False),
        ({"x-ms-meta-hdi_isfolder": "True"}, True),
    ],
)
def test_a_head_shows_a_folder(headers, expected):
    assert is_folder(headers) is expected


@given(st.binary(max_size=200), st.integers(0, 400))
@example(junk=b"a", at=33)  # an encoding that does not exist
def test_any_page_is_read_or_refused(junk, at):
    whole = page(blob("a"), blob("b"))
    with contextlib.suppress(Corrupt):
        parse_page(whole[:at] + junk + whole[at:], "what")


def test_an_md5_is_a_digest():
    md5 = hashlib.md5(b"x").hexdigest()

    assert md5_of(MD5) == md5
    assert digest_of(md5) == Digest(Algorithm.MD5, md5)
    assert digest_of("") is None


@pytest.mark.parametrize("text", ["", "AAAA", "no base64!", f"!{MD5}", "\u00e4"])
def test_a_content_md5_that_is_invalid_is_ignored(text):
    assert not md5_of(text)


REFUSED = (
    "Azure refuses the credentials for azblob://a/c/x (status {}): check that AZURE_STORAGE_KEY "
    "belongs to the account 'account', permits reading and has not expired"
)
HIDDEN = (
    "azblob://a/c/x does not exist or is not public ({}); no credentials were sent: check the URI "
    "and set model.credentials.secretName to a Secret with credentials for this account"
)
ANSWERED = "azblob://a/c/x: the server answered with status "


@pytest.mark.parametrize(
    ("status", "code", "asked", "kind", "sentence"),
    [
        (401, "NoAuthenticationInformation", WITH_KEY, Denied,
         REFUSED.format("401 NoAuthenticationInformation")),
        (403, "AuthenticationFailed", WITH_KEY, Denied,
         REFUSED.format("403 AuthenticationFailed")),
        (403, "", WITH_KEY, Denied, REFUSED.format("403")),
        (404, "ContainerNotFound", WITH_KEY, NotFound,
         "container 'models' does not exist in the account 'account': check the URI"),
        (404, "BlobNotFound", WITH_KEY, NotFound,
         "azblob://a/c/x contains no blobs: check the path"),
        *(
            (status, code, WITHOUT_KEY, Denied, HIDDEN.format(code))
            for status, code in (
                (404, "ResourceNotFound"),
                (409, "PublicAccessNotPermitted"),
                (401, "NoAuthenticationInformation"),
            )
        ),
        (404, "ResourceNotFound", WITH_KEY, NotFound,
         "azblob://a/c/x does not exist (ResourceNotFound: It is wrong.): check the URI"),
        (403, "AuthorizationFailure", WITHOUT_KEY, Denied,
         ("access to azblob://a/c/x is denied with status 403 (AuthorizationFailure: It is wrong.)"
         "; no credentials were sent: set model.credentials.secretName to a Secret with "
         "credentials for this address")),
        (407, "", WITH_KEY, Denied,
         ("access to azblob://a/c/x is denied with status 407 (It is wrong.); check the "
         "credentials in the Secret and their permissions")),
        (503, "ServerBusy", WITH_KEY, Unreachable, f"{ANSWERED}503 (ServerBusy: It is wrong.)"),
        (400, "InvalidUri", WITH_KEY, BadSource, f"{ANSWERED}400 (InvalidUri: It is wrong.)"),
    ],
)  # fmt: skip
def test_a_response_means_one_failure(status, code, asked, kind, sentence):
    body = "\ufeff<Error><Message>It is wrong.\nRequestId:1\nTime:2</Message></Error>"
    headers = {"x-ms-error-code": code} if code else {}

    found = failure_of_azure(status, headers, body, asked, NOW)

    assert type(found) is kind
    assert str(found) == sentence


@pytest.mark.parametrize("body", ["", "no XML", "<Error/>", "<Error><Message/></Error>"])
def test_a_response_to_head_has_no_message(body):
    found = failure_of_azure(400, {"x-ms-error-code": "InvalidUri"}, body, WITH_KEY, NOW)

    assert str(found) == f"{ANSWERED}400 (InvalidUri)"


def test_a_busy_server_says_how_long_to_wait():
    headers = {"Retry-After": "Fri, 26 Jun 2015 23:39:21 GMT"}

    assert failure_of_azure(503, headers, "", WITH_KEY, NOW).wait_seconds == 9
