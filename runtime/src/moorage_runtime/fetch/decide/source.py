"""Parses the URI of a model. Pure.

    s3://BUCKET/PATH?region=R&endpoint=URL#sha256=HEX
    gs://BUCKET/PATH?endpoint=URL#sha256=HEX
    azblob://ACCOUNT/CONTAINER/PATH?endpoint=URL#sha256=HEX
    hf://OWNER/NAME@REVISION/PATH?endpoint=URL
    oci://REGISTRY/NAME:TAG or @sha256:HEX, ?path=PATH
    https://HOST/PATH/FILE#sha256=HEX

A path is percent-decoded, so a key may contain '?', '#', '@' or '%'. A user or password in a URI
is refused, because logs contain the URI.

The CRD's patterns refuse most invalid URIs at admission. This parser also has to split the valid
ones, and checks what a pattern cannot express, such as the syntax of an endpoint. A contract test
sends URIs that match the patterns through it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from moorage_runtime.fetch.decide.failures import BadSource

__all__ = [
    "AzureSource",
    "GcsSource",
    "HttpsSource",
    "HubSource",
    "OciSource",
    "S3Source",
    "Source",
    "parse",
    "parse_endpoint",
]

EXPECTED = {
    "s3": "s3://BUCKET/PATH",
    "gs": "gs://BUCKET/PATH",
    "azblob": "azblob://ACCOUNT/CONTAINER/PATH",
    "hf": "hf://OWNER/NAME[@REVISION][/PATH]",
    "oci": "oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME@sha256:DIGEST",
    "https": "https://HOST/PATH/FILE[#sha256=DIGEST]",
}
OPTIONS = {
    "s3": {"region", "endpoint"},
    "gs": {"endpoint"},
    "azblob": {"endpoint"},
    "hf": {"endpoint"},
    "oci": {"path"},
}
HASHED = {"s3", "gs", "azblob", "https"}
DECLARED = re.compile(r"sha256=([0-9a-f]{64})")
OCI_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
# Source: Azure documentation, "Naming rules and restrictions for Azure resources".
ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
CONTAINER = re.compile(r"[a-z0-9](-?[a-z0-9]){2,62}")
CONTAINER_LIMIT = 63
REGION = re.compile(r"[a-z0-9-]{1,64}")
HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
HOST = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)
# Source: OCI Distribution Specification, "Pulling manifests".
OCI_NAME = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
OCI_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class S3Source:
    """Objects of a bucket: the one with this key, or all below it; an empty key is the whole
    bucket.
    """

    bucket: str
    path: str
    region: str = ""
    endpoint: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class GcsSource:
    """Like S3Source, for Google Cloud Storage."""

    bucket: str
    path: str
    endpoint: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class AzureSource:
    """Like S3Source, for a container of an Azure storage account."""

    account: str
    container: str
    path: str
    endpoint: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file or folder of a repository of the Hugging Face Hub, or the whole repository."""

    repository: str
    revision: str
    path: str
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class OciSource:
    """An image or artifact; `reference` is a tag or a digest, `path` selects a part."""

    registry: str
    repository: str
    reference: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class HttpsSource:
    """One file; an archive is unpacked."""

    url: str
    file: str
    sha256: str = ""


Source = S3Source | GcsSource | AzureSource | HubSource | OciSource | HttpsSource


def parse(uri: str) -> Source:
    """Parse a URI.

    Raises:
        BadSource: It is invalid; the message says what to write.
    """
    scheme = uri.partition("://")[0]
    if scheme not in EXPECTED or "://" not in uri:
        raise BadSource(f"the URI has no supported scheme: must be {_or(EXPECTED)}")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise _bad(scheme, f"it is not a URI ({error})") from error
    if "@" in parts.netloc and scheme != "hf":
        raise _bad(scheme, "it must not contain a user or password; put them in a Secret")
    if not uri.isascii() or not uri.isprintable() or " " in uri:
        raise _bad(scheme, "characters other than ASCII must be percent-encoded")
    if port == 0:
        raise _bad(scheme, "its port must be 1 to 65535")
    sha256 = _sha256(scheme, parts.fragment)
    if scheme == "https":
        return _https(uri.partition("#")[0], parts.netloc, parts.path, sha256)
    options = _options(scheme, parts.query)
    holder, path = parts.netloc, unquote(parts.path).lstrip("/")
    if scheme == "hf":
        return _hub(holder, parts.path.lstrip("/"), options)
    if scheme == "oci":
        return _oci(holder, parts.path.lstrip("/"), options.get("path", "").strip("/"))
    if scheme == "azblob":
        return _azure(holder, path, options.get("endpoint", ""), sha256)
    return _bucket(scheme, holder, path, options, sha256)


def parse_endpoint(text: str, where: str) -> str:
    """A store's address, without a trailing slash.

    Raises:
        BadSource: It is invalid.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadSource(f"{where} is not a valid address ({error})") from error
    plain = not parts.query and not parts.fragment and parts.path in {"", "/"} and port != 0
    if parts.scheme not in {"http", "https"} or not HOST.fullmatch(parts.netloc) or not plain:
        raise BadSource(f"{where} is invalid: must be an address such as https://s3.example:9000")
    return f"{parts.scheme}://{parts.netloc}"


def _https(url: str, host: str, path: str, sha256: str) -> HttpsSource:
    file = unquote(path.rpartition("/")[2])
    if not HOST.fullmatch(host) or file in {"", ".", ".."} or "/" in file:
        raise _bad("https", "it must end with a file name")
    return HttpsSource(url, file, sha256)


def _bucket(
    scheme: str, bucket: str, path: str, options: dict[str, str], sha256: str
) -> GcsSource | S3Source:
    if not BUCKET.fullmatch(bucket):
        raise _bad(scheme, f"{bucket!r} is not a valid bucket name")
    endpoint = options.get("endpoint", "")
    if scheme == "gs":
        return GcsSource(bucket, path, endpoint, sha256)
    return S3Source(bucket, path, options.get("region", ""), endpoint, sha256)


def _azure(account: str, rest: str, endpoint: str, sha256: str) -> AzureSource:
    container, _, path = rest.partition("/")
    if not ACCOUNT.fullmatch(account):
        raise _bad("azblob", f"{account!r} is not a valid name of a storage account")
    if not CONTAINER.fullmatch(container) or len(container) > CONTAINER_LIMIT:
        raise _bad("azblob", f"{container!r} is not a valid container name")
    return AzureSource(account, container, path.lstrip("/"), endpoint, sha256)


def _hub(owner: str, rest: str, options: dict[str, str]) -> HubSource:
    named, _, path = rest.partition("/")
    name, marked, revision = named.partition("@")
    if not HUB_NAME.fullmatch(owner) or not HUB_NAME.fullmatch(name):
        raise _bad("hf", "it must contain the owner and the repository")
    if marked and not revision:
        raise _bad("hf", "the revision after '@' is empty; write a '/' in it as %2F")
    chosen = unquote(revision) or "main"
    endpoint = options.get("endpoint", "")
    return HubSource(f"{owner}/{name}", chosen, unquote(path).strip("/"), endpoint)


def _oci(registry: str, rest: str, path: str) -> OciSource:
    name, digested, digest = rest.partition("@")
    if not digested:
        name, _, tag = rest.partition(":")
        if not OCI_TAG.fullmatch(tag):
            raise _bad("oci", "it must end with a tag or a digest")
    elif not OCI_DIGEST.fullmatch(digest):
        raise _bad("oci", "the digest must be sha256: and 64 lower-case hexadecimal digits")
    else:
        name, tag = name.partition(":")[0], digest
    if not HOST.fullmatch(registry) or not OCI_NAME.fullmatch(name):
        raise _bad("oci", "it must contain the registry and the repository")
    if any(part in {".", ".."} for part in path.split("/")):
        raise _bad("oci", "path must not contain '.' or '..'")
    return OciSource(registry, name, tag, path)


def _sha256(scheme: str, fragment: str) -> str:
    if not fragment:
        return ""
    found = DECLARED.fullmatch(fragment)
    if scheme not in HASHED or not found:
        where = "the part after '#' must be sha256= and 64 lower-case hexadecimal digits"
        raise _bad(scheme, where if scheme in HASHED else "without '#'")
    return found[1]


def _options(scheme: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError as error:
        raise _bad(scheme, "the options after '?' must be name=value") from error
    options = dict(pairs)
    known = OPTIONS[scheme]
    wrong = sorted(set(options) - known)
    if wrong or len(options) < len(pairs) or not all(options.values()):
        raise _bad(scheme, f"after '?', each of {_or(known)} may occur once, with a value")
    if not REGION.fullmatch(options.get("region", "r")):
        raise _bad(scheme, "region must be a region such as eu-west-1")
    if "endpoint" in options:
        options["endpoint"] = parse_endpoint(options["endpoint"], f"endpoint in the {scheme} URI")
    return options


def _bad(scheme: str, why: str) -> BadSource:
    return BadSource(f"the URI is invalid: must be {EXPECTED[scheme]}: {why}")


def _or(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))
