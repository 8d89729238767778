"""Parses responses of Azure Blob Storage: a page of a listing, and an error with its code. Pure.

Source: Azure Storage documentation, "List Blobs" and "Status and error codes".
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from moorage_runtime.fetch.decide.amounts import parse_size
from moorage_runtime.fetch.decide.answers import cleaned, failure_of
from moorage_runtime.fetch.decide.entries import Algorithm, Digest
from moorage_runtime.fetch.decide.failures import Corrupt, Denied, FetchError, NotFound
from moorage_runtime.fetch.decide.xml_text import element_of

__all__ = [
    "Asked",
    "Blob",
    "Page",
    "digest_of",
    "failure_of_azure",
    "is_folder",
    "md5_of",
    "parse_page",
]

ERROR_HEADER = "x-ms-error-code"
# Tools mark an empty blob that represents a folder.
FOLDER_MARK = "hdi_isfolder"
# Without credentials, Azure hides a private container behind these.
HIDDEN = {"ResourceNotFound", "PublicAccessNotPermitted", "NoAuthenticationInformation"}


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob; `size` is None if unknown, `etag` without quotes, `md5` hexadecimal or empty."""

    name: str
    size: int | None
    etag: str
    md5: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page; an empty `marker` ends the listing."""

    blobs: tuple[Blob, ...]
    marker: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The object of a request, for messages; `key` names the credential, or is empty."""

    what: str
    account: str
    container: str
    key: str


def parse_page(body: bytes, what: str) -> Page:
    """A page of List Blobs, without the marks of folders.

    Raises:
        Corrupt: The body is not a page.
    """
    try:
        root = element_of(body)
        if root.tag != "EnumerationResults":
            raise Corrupt(f"{what}: the server's listing is not a valid Azure response")
        blobs = tuple(_blob(item) for item in root.iterfind("Blobs/Blob") if not _marks(item))
    except ValueError as error:
        raise Corrupt(f"{what}: the server's listing is not a valid Azure response") from error
    return Page(blobs, root.findtext("NextMarker") or "")


def is_folder(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a blob mark a folder."""
    return str(headers.get(f"x-ms-meta-{FOLDER_MARK}")).lower() == "true"


def md5_of(text: str) -> str:
    """The MD5 in a Content-MD5, in hexadecimal; empty without a valid one."""
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return digest.hex() if len(digest) == 16 else ""


def digest_of(md5: str) -> Digest | None:
    """The expected digest; None without an MD5."""
    return Digest(Algorithm.MD5, md5) if md5 else None


def failure_of_azure(
    status: int, headers: Mapping[str, str], body: str, asked: Asked, now: datetime
) -> FetchError:
    """The failure for a response other than success.

    The code is in a header, because the response to a HEAD has no body.
    """
    code = cleaned(headers.get(ERROR_HEADER, ""))
    if status in {401, 403} and asked.key:
        said = f"status {status} {code}".strip()
        return Denied(
            f"Azure refuses the credentials for {asked.what} ({said}): check that "
            f"{asked.key} belongs to the account '{asked.account}', permits reading and has not "
            "expired"
        )
    if code == "ContainerNotFound":
        return NotFound(
            f"container '{asked.container}' does not exist in the account '{asked.account}': "
            "check the URI"
        )
    if code == "BlobNotFound":
        return NotFound(f"{asked.what} contains no blobs: check the path")
    if code in HIDDEN and not asked.key:
        return Denied(
            f"{asked.what} does not exist or is not public ({code}); no credentials were sent: "
            "check the URI and set model.credentials.secretName to a Secret with credentials for "
            "this account"
        )
    words = ": ".join(text for text in (code, _message(body)) if text)
    told = bool(asked.key)
    return failure_of(status, headers, asked.what, words, now=now, told=told)


def _message(body: str) -> str:
    """The first line of the error's message; the following ones have a request id and a time."""
    try:
        root = element_of(body)
    except ValueError:
        return ""
    return cleaned((root.findtext("Message") or "").partition("\n")[0])


def _blob(item: ET.Element) -> Blob:
    name, size = item.find("Name"), parse_size(str(item.findtext("Properties/Content-Length")))
    if name is None or not name.text or size is None:
        raise ValueError
    # a name with characters that XML cannot contain
    plain = unquote(name.text) if name.get("Encoded") == "true" else name.text
    etag = (item.findtext("Properties/Etag") or "").strip('"')
    return Blob(plain, size, etag, md5_of(item.findtext("Properties/Content-MD5") or ""))


def _marks(item: ET.Element) -> bool:
    """Whether an item of a listing represents a folder."""
    if item.findtext("Properties/ResourceType") == "directory":
        return True
    found = {mark.tag.lower(): mark.text for mark in item.iterfind("Metadata/*")}
    marked = str(found.get(FOLDER_MARK)).lower() == "true"
    return marked or str(item.findtext("Name")).endswith("/")
