"""Parses responses of S3: a page of a listing, and an error with its code. Pure.

Source: Amazon S3 API Reference, ListObjectsV2 and "Error responses".
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree as ET

from moorage_runtime.fetch.decide.amounts import parse_size
from moorage_runtime.fetch.decide.answers import failure_of, retry_after_seconds
from moorage_runtime.fetch.decide.entries import Algorithm, Digest
from moorage_runtime.fetch.decide.failures import (
    BadSource,
    Corrupt,
    Denied,
    FetchError,
    NotFound,
    Unreachable,
)
from moorage_runtime.fetch.decide.xml_text import element_of

__all__ = [
    "Asked",
    "Page",
    "S3Error",
    "StoredObject",
    "failure_of_s3",
    "parse_error",
    "parse_page",
    "promised_digest",
]

# An ETag that is the MD5 of the content: an object that was uploaded in one part.
MD5 = re.compile(r"[0-9a-f]{32}")
# A SHA-256 in base64; that of the parts of an upload ends with "-" and their number.
SHA256 = re.compile(r"[A-Za-z0-9+/]{43}=")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object; `size` is None if it is unknown, and `etag` has no quotes."""

    key: str
    size: int | None
    etag: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page; an empty `next_token` ends the listing."""

    objects: tuple[StoredObject, ...]
    next_token: str


@dataclass(frozen=True, slots=True)
class S3Error:
    """The server's own error; all fields are empty without one."""

    code: str = ""
    message: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The object of a request, for messages; `told` is true for a signed request."""

    what: str
    bucket: str
    host: str
    told: bool


def parse_page(body: bytes, what: str) -> Page:
    """A page of ListObjectsV2.

    Keys are requested without encoding: servers disagree on how encoding-type=url encodes a plus,
    and a name that XML cannot contain is not the name of a model's file.

    Raises:
        Corrupt: The body is not a page.
    """
    try:
        root = element_of(body)
        if _name(root) != "ListBucketResult":
            raise Corrupt(f"{what}: the server's listing is not a valid S3 response")
        objects = tuple(_object(item) for item in root if _name(item) == "Contents")
    except ValueError as error:
        raise Corrupt(f"{what}: the server's listing is not a valid S3 response") from error
    if _text(root, "IsTruncated") != "true":
        return Page(objects, "")
    token = _text(root, "NextContinuationToken")
    if not token:
        raise Corrupt(f"{what}: the server's listing is truncated and has no continuation token")
    return Page(objects, token)


def parse_error(body: str) -> S3Error:
    """The error in a body, or an empty one."""
    try:
        root = element_of(body)
    except ValueError:
        return S3Error()
    if _name(root) != "Error":
        return S3Error()
    return S3Error(_text(root, "Code"), _text(root, "Message"), _text(root, "Region"))


def failure_of_s3(
    status: int, headers: Mapping[str, str], said: S3Error, asked: Asked, now: datetime
) -> FetchError:
    """The failure for a response, with a message that names the invalid part of the Secret."""
    host, what = asked.host, asked.what
    unknown = f"{host} does not know the access key: check AWS_ACCESS_KEY_ID"
    denied = {
        "InvalidAccessKeyId": unknown,
        "XAdminUserNotFound": unknown,  # the code of Versity's gateway, with status 404
        "SignatureDoesNotMatch": (
            f"{host} refuses the signature: check AWS_SECRET_ACCESS_KEY and the region"
        ),
        "ExpiredToken": f"{host} reports that the session token has expired: renew the Secret",
        "InvalidToken": f"{host} refuses the session token: check AWS_SESSION_TOKEN",
        "RequestTimeTooSkewed": f"{host} reports that this node's clock is wrong",
    }
    if said.code in denied:
        return Denied(f"access to {what} is denied: {denied[said.code]} ({said.code})")
    if said.code == "NoSuchBucket":
        return NotFound(f"bucket '{asked.bucket}' does not exist at {host}: check the URI")
    if said.code == "InvalidObjectState":
        return BadSource(
            f"{what} is in an archive, such as S3 Glacier ({said.code}): restore it, or copy it "
            "to another storage class"
        )
    if said.code in {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable"}:
        sentence = f"{what}: {host} answers {said.code}"
        return Unreachable(sentence, retry_after_seconds(headers, now))
    words = ": ".join(text for text in (said.code, said.message) if text)
    return failure_of(status, headers, what, words, now=now, told=asked.told)


def promised_digest(known: Digest | None, headers: Mapping[str, str]) -> Digest | None:
    """The expected digest of an object, from the headers of its response.

    A declared SHA-256 takes precedence. Next is the server's own SHA-256, unless it covers the
    parts of an upload (it then ends with their number), then MD5. The ETag of an object that is
    encrypted by a key service or with a customer's key is not the MD5 of the content.

    Source: Amazon S3 User Guide, "Checking object integrity".
    """
    if known and known.algorithm is Algorithm.SHA256:
        return known
    kept = headers.get("x-amz-checksum-sha256", "")
    if SHA256.fullmatch(kept) and headers.get("x-amz-checksum-type") != "COMPOSITE":
        return Digest(Algorithm.SHA256, base64.b64decode(kept).hex())
    encrypted = "kms" in headers.get("x-amz-server-side-encryption", "")
    if encrypted or headers.get("x-amz-server-side-encryption-customer-algorithm"):
        return None
    return known


def _object(item: ET.Element) -> StoredObject:
    size = parse_size(_text(item, "Size"))
    if size is None:
        raise ValueError
    return StoredObject(_text(item, "Key"), size, _text(item, "ETag").strip('"'))


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ET.Element, name: str) -> str:
    found = (child.text or "" for child in element if _name(child) == name)
    return next(found, "")
