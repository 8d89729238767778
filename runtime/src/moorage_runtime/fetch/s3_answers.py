"""What S3 says: a page of a listing, and an error with its code. Pure.

Source: Amazon S3 API Reference, ListObjectsV2 and "Error responses".
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from xml.etree import ElementTree as ET

from moorage_runtime.fetch.answers import cleaned, failure_of, retry_after_seconds
from moorage_runtime.fetch.entries import Algorithm, Digest
from moorage_runtime.fetch.failures import Corrupt, Denied, FetchError, NotFound, Unreachable

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

# An ETag that is the MD5 of the bytes: one upload in one part.
MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a listing; `etag` without its quotes."""

    key: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page; an empty `next_token` ends the listing."""

    objects: tuple[StoredObject, ...]
    next_token: str


@dataclass(frozen=True, slots=True)
class S3Error:
    """The server's own error; all empty where the body is none."""

    code: str = ""
    message: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request was for, as the user knows it; `told`: it was signed."""

    what: str
    bucket: str
    host: str
    told: bool


def parse_page(body: bytes, what: str) -> Page:
    """A page of ListObjectsV2.

    Keys are asked for as they are: servers disagree on how encoding-type=url writes a plus, and
    what XML cannot hold is no name of a model's file.

    Raises:
        Corrupt: It is none.
    """
    try:
        root = ET.fromstring(body)  # noqa: S314  expat bounds the expansion of entities itself
        if _name(root) != "ListBucketResult":
            raise Corrupt(f"{what}: the server does not answer a listing as S3 does")
        objects = tuple(
            StoredObject(
                _text(item, "Key"),
                int(_text(item, "Size")),
                _text(item, "ETag").strip('"'),
            )
            for item in root
            if _name(item) == "Contents"
        )
    except (ET.ParseError, ValueError) as error:
        raise Corrupt(f"{what}: the server does not answer a listing as S3 does") from error
    more = _text(root, "IsTruncated") == "true"
    return Page(objects, _text(root, "NextContinuationToken") if more else "")


def parse_error(body: str) -> S3Error:
    """The error in a body; empty where there is none."""
    try:
        root = ET.fromstring(body)  # noqa: S314  expat bounds the expansion of entities itself
    except (ET.ParseError, ValueError):
        return S3Error()
    if _name(root) != "Error":
        return S3Error()
    return S3Error(_text(root, "Code"), _text(root, "Message"), _text(root, "Region"))


def failure_of_s3(
    status: int, headers: Mapping[str, str], said: S3Error, asked: Asked, now: datetime
) -> FetchError:
    """The failure that an answer means, in words that say which half of the Secret is wrong."""
    host, what = asked.host, asked.what
    unknown = f"{host} does not know the access key; check AWS_ACCESS_KEY_ID"
    denied = {
        "InvalidAccessKeyId": unknown,
        "XAdminUserNotFound": unknown,  # as Versity's gateway calls it, with status 404
        "SignatureDoesNotMatch": (
            f"{host} refuses the signature; check AWS_SECRET_ACCESS_KEY and the region"
        ),
        "ExpiredToken": f"{host} says that the session token has expired; renew the Secret",
        "InvalidToken": f"{host} refuses the session token; check AWS_SESSION_TOKEN",
        "RequestTimeTooSkewed": f"{host} says that this node's clock is wrong",
    }
    if said.code in denied:
        return Denied(f"access to {what} is denied: {denied[said.code]} ({said.code})")
    if said.code == "NoSuchBucket":
        return NotFound(f"bucket '{asked.bucket}' does not exist at {host}; check the URI")
    if said.code in {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable"}:
        sentence = f"{what}: {host} answers {said.code}"
        return Unreachable(sentence, retry_after_seconds(headers, now))
    words = ": ".join(cleaned(text) for text in (said.code, said.message) if text)
    return failure_of(status, headers, what, words, now=now, told=asked.told)


def promised_digest(known: Digest | None, headers: Mapping[str, str]) -> Digest | None:
    """What an object's bytes must hash to, by its answer's headers.

    A declared SHA-256 stands. One that the server keeps is better than MD5, unless it is that of
    the parts of an upload (it then ends with their number). The ETag of an object that is
    encrypted by a key service or a key of the client's is no MD5 of the bytes.
    Source: Amazon S3 User Guide, "Checking object integrity".
    """
    if known and known.algorithm is Algorithm.SHA256:
        return known
    kept = headers.get("x-amz-checksum-sha256", "")
    if kept and "-" not in kept and headers.get("x-amz-checksum-type") != "COMPOSITE":
        return Digest(Algorithm.SHA256, base64.b64decode(kept).hex())
    encrypted = "kms" in headers.get("x-amz-server-side-encryption", "")
    if encrypted or headers.get("x-amz-server-side-encryption-customer-algorithm"):
        return None
    return known


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ET.Element, name: str) -> str:
    found = (child.text or "" for child in element if _name(child) == name)
    return next(found, "")
