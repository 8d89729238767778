"""The URI of a model, read: which store, what in it, and how to reach it. Pure.

    s3://BUCKET/PATH?region=R&endpoint=URL#sha256=HEX
    gs://BUCKET/PATH?endpoint=URL#sha256=HEX
    hf://OWNER/NAME@REVISION/PATH?endpoint=URL
    oci://REGISTRY/NAME:TAG or @sha256:HEX, ?path=PATH
    https://HOST/PATH/FILE#sha256=HEX

A path is percent-decoded, so that a key with '?', '#', '@' or '%' can be written. A user or
password in a URI is refused: it would stand in every log.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from moorage_runtime.fetch.failures import BadSource

__all__ = [
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
    "hf": "hf://OWNER/NAME[@REVISION][/PATH]",
    "oci": "oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME@sha256:DIGEST",
    "https": "https://HOST/PATH/FILE[#sha256=DIGEST]",
}
OPTIONS = {
    "s3": {"region", "endpoint"},
    "gs": {"endpoint"},
    "hf": {"endpoint"},
    "oci": {"path"},
}
HASHED = {"s3", "gs", "https"}
SHA256 = re.compile(r"[0-9a-f]{64}")
BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
REGION = re.compile(r"[a-z0-9-]{1,64}")
HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
HOST = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)
# Source: OCI Distribution Specification, "Pulling manifests".
OCI_NAME = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*")
OCI_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class S3Source:
    """Objects of a bucket: the one of this key, or all below it; empty: the whole bucket."""

    bucket: str
    path: str
    region: str = ""
    endpoint: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class GcsSource:
    """As S3Source, of Google Cloud Storage."""

    bucket: str
    path: str
    endpoint: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file or folder of a repository of the Hugging Face Hub, or the whole of it."""

    repository: str
    revision: str
    path: str
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class OciSource:
    """An image or artifact; `reference` is a tag or a digest, `path` what to keep of it."""

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


Source = S3Source | GcsSource | HubSource | OciSource | HttpsSource


def parse(uri: str) -> Source:
    """What the URI means.

    Raises:
        BadSource: It cannot be used; the sentence says what to write.
    """
    scheme = uri.partition("://")[0]
    if scheme not in EXPECTED or "://" not in uri:
        raise BadSource(f"the URI has no scheme that is fetched, expected {_or(EXPECTED)}")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise _bad(scheme, f"it is no URI ({error})") from error
    if "@" in parts.netloc and scheme != "hf":
        raise _bad(scheme, "without a user or password, which belong into a Secret")
    if not uri.isascii() or not uri.isprintable() or " " in uri or port == 0:
        raise _bad(scheme, "with what is not plain ASCII percent-encoded")
    sha256 = _sha256(scheme, parts.fragment)
    if scheme == "https":
        return _https(uri.partition("#")[0], parts.netloc, parts.path, sha256)
    options = _options(scheme, parts.query)
    holder, path = parts.netloc, unquote(parts.path).lstrip("/")
    if scheme == "hf":
        return _hub(holder, parts.path.lstrip("/"), options)
    if scheme == "oci":
        return _oci(holder, parts.path.lstrip("/"), options.get("path", "").strip("/"))
    if not BUCKET.fullmatch(holder):
        raise _bad(scheme, f"{holder!r} is no bucket's name")
    endpoint = options.get("endpoint", "")
    if scheme == "gs":
        return GcsSource(holder, path, endpoint, sha256)
    return S3Source(holder, path, options.get("region", ""), endpoint, sha256)


def parse_endpoint(text: str, where: str) -> str:
    """A store's own address, without a slash at its end.

    Raises:
        BadSource: It is none.
    """
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise BadSource(f"{where} is no address ({error})") from error
    plain = not parts.query and not parts.fragment and parts.path in {"", "/"}
    if parts.scheme not in {"http", "https"} or not HOST.fullmatch(parts.netloc) or not plain:
        raise BadSource(
            f"{where} cannot be used, expected an address like https://s3.example:9000"
        )
    return text.rstrip("/")


def _https(url: str, host: str, path: str, sha256: str) -> HttpsSource:
    file = unquote(path.rpartition("/")[2])
    if not HOST.fullmatch(host) or file in {"", ".", ".."} or "/" in file:
        raise _bad("https", "it has to end with a file's name")
    return HttpsSource(url, file, sha256)


def _hub(owner: str, rest: str, options: dict[str, str]) -> HubSource:
    named, _, path = rest.partition("/")
    name, marked, revision = named.partition("@")
    if not HUB_NAME.fullmatch(owner) or not HUB_NAME.fullmatch(name):
        raise _bad("hf", "it has to name the owner and the repository")
    if marked and not revision:
        raise _bad("hf", "the revision after '@' is empty; a '/' in it is written %2F")
    chosen = unquote(revision) or "main"
    endpoint = options.get("endpoint", "")
    return HubSource(f"{owner}/{name}", chosen, unquote(path).strip("/"), endpoint)


def _oci(registry: str, rest: str, path: str) -> OciSource:
    name, digested, digest = rest.partition("@")
    if not digested:
        name, _, tag = rest.partition(":")
        if not OCI_TAG.fullmatch(tag):
            raise _bad("oci", "it has to end with a tag or a digest")
    elif not digest.startswith("sha256:") or not SHA256.fullmatch(digest.removeprefix("sha256:")):
        raise _bad("oci", "the digest has to be sha256: and 64 hexadecimal digits in lower case")
    else:
        name, tag = name.partition(":")[0], digest
    if not HOST.fullmatch(registry) or not OCI_NAME.fullmatch(name):
        raise _bad("oci", "it has to name the registry and the repository")
    if any(part in {".", ".."} for part in path.split("/")):
        raise _bad("oci", "path may have no '.' and '..' parts")
    return OciSource(registry, name, tag, path)


def _sha256(scheme: str, fragment: str) -> str:
    if not fragment:
        return ""
    name, _, value = fragment.partition("=")
    if scheme not in HASHED or name != "sha256" or not SHA256.fullmatch(value):
        where = "#sha256= and 64 hexadecimal digits in lower case, or no '#'"
        raise _bad(scheme, where if scheme in HASHED else "without '#'")
    return value


def _options(scheme: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise _bad(scheme, "the options after '?' have to be name=value") from error
    options = dict(pairs)
    known = OPTIONS[scheme]
    wrong = sorted(set(options) - known)
    if wrong or len(options) < len(pairs) or not all(options.values()):
        raise _bad(scheme, f"after '?' each of {_or(known)} may be given once, with a value")
    if not REGION.fullmatch(options.get("region", "r")):
        raise _bad(scheme, "region has to be one like eu-west-1")
    if "endpoint" in options:
        options["endpoint"] = parse_endpoint(options["endpoint"], f"endpoint in the {scheme} URI")
    return options


def _bad(scheme: str, why: str) -> BadSource:
    return BadSource(f"the URI cannot be used, expected {EXPECTED[scheme]}: {why}")


def _or(words: Iterable[str]) -> str:
    return " or ".join(sorted(words))
