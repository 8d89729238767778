"""The values that stores and the download exchange: files with their location and identity.

Paths come from untrusted object keys and manifests, so they are checked here, before they are
used.
Pure.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from moorage_runtime.fetch.decide.failures import BadSource, NotFound

__all__ = ["Algorithm", "Digest", "Entry", "Listing", "checked", "declared"]

# Linux's limits for a path component and for a whole path.
NAME_LIMIT_BYTES = 255
PATH_LIMIT_BYTES = 4000
# More files than this indicate a wrong URI, such as the root of a data lake.
ENTRIES_LIMIT = 100_000


class Algorithm(StrEnum):
    """Algorithm of a digest."""

    SHA256 = "sha256"
    MD5 = "md5"
    GIT_SHA1 = "git-sha1"  # of "blob SIZE\0" and the content, as in git


@dataclass(frozen=True, slots=True)
class Digest:
    """The expected digest of a file; `value` is lower-case hexadecimal."""

    algorithm: Algorithm
    value: str

    def __str__(self) -> str:
        """The digest, as in a message."""
        return f"{self.algorithm}:{self.value}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file to download.

    Attributes:
        path: Its target, relative, with slashes.
        url: Its location.
        size: Bytes, or None if the server does not report them.
        identity: Identifies the content at the store (an ETag, a generation, a digest). If it is
            empty, a download cannot be resumed.
        etag: Sent as If-Match, so that a changed object is refused; not sent if it is empty.
        digest: Expected digest of the content, or None.
        layer: It is a layer of an image, to be unpacked over earlier ones.
        gzip: The store keeps it compressed with gzip, which is not part of its content.
    """

    path: str
    url: str
    size: int | None
    identity: str = ""
    etag: str = ""
    digest: Digest | None = None
    layer: bool = False
    gzip: bool = False

    @property
    def part_name(self) -> str:
        """File name of a partial download; another version of the object has another name."""
        return hashlib.sha256(f"{self.path}\0{self.identity}\0{self.digest}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of a model, as they are in the store now.

    Attributes:
        entries: The files; layers in the order in which they are unpacked.
        revision: What a mutable name refers to now, such as a commit or a manifest's digest; empty
            for stores without revisions.
    """

    entries: tuple[Entry, ...]
    revision: str = ""

    @property
    def known_bytes(self) -> int:
        """Total size of the files with a known size."""
        return sum(entry.size or 0 for entry in self.entries)


def checked(entries: Iterable[Entry], what: str) -> tuple[Entry, ...]:
    """The entries, after a check that they are safe to write.

    Raises:
        NotFound: There are none.
        BadSource: A path leaves the folder or is the path of two files or of a file and a folder,
            or there are too many.
    """
    found = tuple(entries)
    if not found:
        raise NotFound(f"{what} contains no files: check the path")
    if len(found) > ENTRIES_LIMIT:
        raise BadSource(
            f"{what} contains more than {ENTRIES_LIMIT} files: check that the path is one model"
        )
    files: set[str] = set()
    for entry in found:
        _check_path(entry.path, what)
        if entry.path in files:
            raise BadSource(f"{what} contains '{entry.path}' twice")
        files.add(entry.path)
    for entry in found:
        parts = entry.path.split("/")
        above = {"/".join(parts[:count]) for count in range(len(parts))}
        if both := above & files:
            raise BadSource(f"{what} contains '{min(both)}' both as a file and as a folder")
    return found


def declared(entries: tuple[Entry, ...], sha256: str, what: str) -> tuple[Entry, ...]:
    """The only file with the SHA-256 from the URI; without a SHA-256, the unchanged entries.

    Raises:
        BadSource: There are several files, and only one can have this digest.
    """
    if not sha256:
        return entries
    if len(entries) != 1:
        raise BadSource(
            f"#sha256= applies to one file, but {what} contains {len(entries)}: remove it"
        )
    digest = Digest(Algorithm.SHA256, sha256)
    return (replace(entries[0], digest=digest, identity=sha256),)


def _check_path(path: str, what: str) -> None:
    """Check that a path stays within its folder and is valid for a file system."""
    parts = path.split("/")
    # half of a surrogate pair, which JSON can contain but a file system cannot
    broken = any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in path)
    if not path or broken or any(part in {"", ".", ".."} for part in parts):
        raise BadSource(f"{what} contains the invalid path {path!r}: must be below a folder")
    too_long = any(len(part.encode()) > NAME_LIMIT_BYTES for part in parts)
    if too_long or len(path.encode()) > PATH_LIMIT_BYTES:
        raise BadSource(f"{what} contains a path that is too long for a file system: {path!r}")
