"""Parses an OCI manifest: the image for this machine, and its layers as files. Pure.

Source: OCI Image Specification, "Image Index" and "Image Manifest". The file name of an artifact
is in the annotation org.opencontainers.image.title, as in ORAS.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moorage_runtime.fetch.decide.entries import Algorithm, Digest, Entry
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, NotFound
from moorage_runtime.fetch.decide.json_answers import items, mapping, number, text
from moorage_runtime.fetch.decide.source import OCI_DIGEST

__all__ = ["ACCEPTED", "entries_of", "image_of"]

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPTED = ", ".join((*INDEXES, *MANIFESTS))
TITLE = "org.opencontainers.image.title"
# A folder, which ORAS stores as a tar archive.
UNPACKED = "io.deis.oras.content.unpack"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def image_of(index: Mapping[str, Any], machine: str, what: str) -> Digest | None:
    """The digest of the image for this machine; None if the document is a manifest itself.

    Raises:
        NotFound: There is no image for this machine.
        Corrupt: It has no digest.
    """
    if not isinstance(index.get("manifests"), list):
        return None
    images = items(index, "manifests")
    wanted = ("linux", ARCHITECTURES.get(machine, machine))
    for image in images:
        platform = mapping(image.get("platform"))
        if (text(platform, "os"), text(platform, "architecture")) == wanted:
            return sha256_of(text(image, "digest"), what)
    plain = [text(image, "digest") for image in images if not image.get("platform")]
    if len(plain) == 1:
        return sha256_of(plain[0], what)
    raise NotFound(f"{what} has no image for {'/'.join(wanted)}")


def entries_of(manifest: Mapping[str, Any], blobs: str, keep: str, what: str) -> Iterator[Entry]:
    """The files and layers of a manifest.

    Args:
        manifest: The manifest.
        blobs: URL prefix of a blob's digest.
        keep: Path of the files to keep; empty keeps all.
        what: The image, for messages.

    Raises:
        BadSource: The format of a layer is not supported.
        Corrupt: A layer has no digest.
    """
    for number_, layer in enumerate(items(manifest, "layers"), start=1):
        digest = sha256_of(text(layer, "digest"), what)
        notes = mapping(layer.get("annotations"))
        title, kind = text(notes, TITLE), text(layer, "mediaType")
        packed = not title or text(notes, UNPACKED) == "true"
        if packed and ("zstd" in kind or "tar" not in kind):
            raise BadSource(
                f"{what}: layer {number_} is {kind or 'without a type'}: must be a tar archive, "
                "optionally with gzip"
            )
        if not packed and keep and not f"{title}/".startswith(f"{keep}/"):
            continue
        yield Entry(
            path=f"layer-{number_}" if packed else title,
            url=f"{blobs}{digest}",
            size=number(layer, "size"),
            identity=digest.value,
            digest=digest,
            layer=packed,
        )


def sha256_of(digest: str, what: str) -> Digest:
    """A digest in the form of manifests.

    Raises:
        Corrupt: It is not a SHA-256.
    """
    found = OCI_DIGEST.fullmatch(digest)
    if not found:
        raise Corrupt(
            f"{what}: the digest {digest[:80]!r} in the manifest is invalid: must be sha256"
        )
    return Digest(Algorithm.SHA256, found[1])
