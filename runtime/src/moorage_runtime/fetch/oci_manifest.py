"""What an OCI manifest has: the image for this machine, and its layers as files. Pure.

Source: OCI Image Specification, "Image Index" and "Image Manifest"; a file of an artifact has its
name in the annotation org.opencontainers.image.title, as ORAS writes it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from moorage_runtime.fetch.entries import Algorithm, Digest, Entry
from moorage_runtime.fetch.failures import BadSource, Corrupt, NotFound
from moorage_runtime.fetch.json_answers import items, mapping, number, text
from moorage_runtime.fetch.source import SHA256

__all__ = ["ACCEPTED", "entries_of", "image_of", "sha256_of"]

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
# A folder, which ORAS packs as a tar archive.
UNPACKED = "io.deis.oras.content.unpack"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def image_of(index: Mapping[str, Any], machine: str, what: str) -> str:
    """The digest of the image for this machine; empty where the document is a manifest itself.

    Raises:
        NotFound: There is none for it.
    """
    if not isinstance(index.get("manifests"), list):
        return ""
    images = items(index, "manifests")
    wanted = ("linux", ARCHITECTURES.get(machine, machine))
    for image in images:
        platform = mapping(image.get("platform"))
        if (text(platform, "os"), text(platform, "architecture")) == wanted:
            return text(image, "digest")
    plain = [text(image, "digest") for image in images if not image.get("platform")]
    if len(plain) == 1:
        return plain[0]
    raise NotFound(f"{what} has no image for {'/'.join(wanted)}")


def entries_of(manifest: Mapping[str, Any], blobs: str, keep: str, what: str) -> Iterator[Entry]:
    """The files and layers of a manifest.

    Args:
        manifest: The manifest.
        blobs: URL that a blob's digest is appended to.
        keep: Of the files, those at or below this path; empty: all.
        what: The image, as the user knows it.

    Raises:
        BadSource: A layer is packed in a way that is not read.
        Corrupt: A layer has no digest.
    """
    for number_, layer in enumerate(items(manifest, "layers"), start=1):
        digest = sha256_of(text(layer, "digest"), what)
        notes = mapping(layer.get("annotations"))
        title, kind = text(notes, TITLE), text(layer, "mediaType")
        packed = not title or text(notes, UNPACKED) == "true"
        if packed and ("zstd" in kind or "tar" not in kind):
            raise BadSource(
                f"{what}: layer {number_} is {kind or 'of no type'}, expected a tar archive with "
                "or without gzip"
            )
        if not packed and keep and not f"{title}/".startswith(f"{keep}/"):
            continue
        yield Entry(
            path=f"layer-{number_}" if packed else title,
            url=f"{blobs}{digest.algorithm}:{digest.value}",
            size=number(layer, "size"),
            identity=digest.value,
            digest=digest,
            layer=packed,
        )


def sha256_of(digest: str, what: str) -> Digest:
    """A digest as manifests write it.

    Raises:
        Corrupt: It is no SHA-256.
    """
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or not SHA256.fullmatch(value):
        raise Corrupt(f"{what}: the manifest has a digest that is no SHA-256: {digest[:80]!r}")
    return Digest(Algorithm.SHA256, value)
