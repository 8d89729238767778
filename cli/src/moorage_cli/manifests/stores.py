"""Where `moorage deploy --to` puts a model: a folder of a bucket, or a repository; pure.

--to URI, name, Content --> Bucket or Artifact --> an upload of `ask`; URI of the model

Like the name of a ConfigMap, the place contains the digest of the content: changed files are a new
place, and earlier revisions keep theirs.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from moorage_cli.manifests.deploying import Content
from moorage_cli.printing.failures import WrongUsage

__all__ = ["EXPECTED", "MANIFEST_TYPE", "NO_CONFIG", "Artifact", "Bucket", "Store", "store_of"]

EXPECTED = {
    "s3": "s3://BUCKET[/FOLDER]",
    "gs": "gs://BUCKET[/FOLDER]",
    "azblob": "azblob://ACCOUNT/CONTAINER[/FOLDER]",
    "oci": "oci://REGISTRY[/PATH]",
}
OPTIONS = {"s3": {"endpoint", "region"}, "gs": {"endpoint"}, "azblob": {"endpoint"}, "oci": set()}
ENDPOINT = re.compile(r"https?://[^/?#@\s]+/?")
# Source: OCI Image Specification, "Image Manifest" and its "Guidance for an Empty Descriptor".
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
NO_CONFIG = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
ARTIFACT_TYPE = "application/vnd.moorage.model"
TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A folder of a bucket, or of a container of a storage account.

    Args:
        scheme: `s3`, `gs` or `azblob`.
        account: The storage account; empty for `s3` and `gs`.
        bucket: The bucket or container.
        folder: Key of the folder, without slashes around it.
        endpoint: Address of the server; empty for the provider's own.
        region: Empty for that of the environment.
        uri: What the model's spec contains.
    """

    scheme: str
    account: str
    bucket: str
    folder: str
    endpoint: str
    region: str
    uri: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact of an OCI registry, of which each layer is a file.

    Args:
        registry: Host and port.
        repository: Without the registry.
        tag: Without a tag, some registries delete what they hold.
        manifest: The document. It depends on the files alone, so equal files are one artifact.
        uri: What the model's spec contains.
    """

    registry: str
    repository: str
    tag: str
    manifest: bytes
    uri: str


Store = Bucket | Artifact


def store_of(to: str, name: str, content: Content) -> Store:
    """The place of a model's files.

    Args:
        to: The value of `--to`.
        name: Name of the model.
        content: Its files.

    Raises:
        WrongUsage: `to` is invalid.
    """
    scheme, mark, _ = to.partition("://")
    if not mark or scheme not in EXPECTED:
        known = ", ".join(EXPECTED.values())
        raise WrongUsage(f"--to: {to!r} is invalid: must be one of {known}")
    parts = urlsplit(to)
    path = parts.path.strip("/")
    if not parts.netloc or "@" in to or "#" in to or (scheme == "azblob" and not path):
        raise _invalid(to, scheme)
    if scheme == "oci":
        if ":" in path or parts.query:
            raise _invalid(to, scheme)
        return _artifact(parts.netloc, "/".join(each for each in (path, name) if each), content)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    endpoint = options.get("endpoint", "")
    if not options.keys() <= OPTIONS[scheme] or (
        "endpoint" in options and not ENDPOINT.fullmatch(endpoint)
    ):
        known = " and ".join(sorted(OPTIONS[scheme]))
        raise WrongUsage(
            f"--to: {to!r} is invalid: after '?', only {known} may occur, and an endpoint must be "
            "an address such as https://s3.example:9000"
        )
    folder = "/".join(each for each in (path, name, content.digest) if each)
    query = f"?{parts.query}" if parts.query else ""
    uri = f"{scheme}://{parts.netloc}/{folder}{query}"
    key = unquote(folder)
    account, bucket = "", parts.netloc
    if scheme == "azblob":
        account = parts.netloc
        bucket, _, key = key.partition("/")
    region = options.get("region", "")
    return Bucket(scheme, account, bucket, key, endpoint.rstrip("/"), region, uri)


def _artifact(registry: str, repository: str, content: Content) -> Artifact:
    manifest = json.dumps(_manifest(content), separators=(",", ":")).encode()
    digest = hashlib.sha256(manifest).hexdigest()
    uri = f"oci://{registry}/{repository}@sha256:{digest}"
    return Artifact(registry, repository, content.digest, manifest, uri)


def _manifest(content: Content) -> dict[str, Any]:
    empty = f"sha256:{hashlib.sha256(NO_CONFIG).hexdigest()}"
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": {"mediaType": EMPTY_TYPE, "digest": empty, "size": len(NO_CONFIG)},
        "layers": [
            {
                "mediaType": "application/octet-stream",
                "digest": f"sha256:{digest}",
                "size": size,
                "annotations": {TITLE: path},
            }
            for path, (size, digest) in sorted(content.files.items())
        ],
    }


def _invalid(to: str, scheme: str) -> WrongUsage:
    why = ", without a tag" if scheme == "oci" else ""
    return WrongUsage(f"--to: {to!r} is invalid: must be {EXPECTED[scheme]}{why}")
