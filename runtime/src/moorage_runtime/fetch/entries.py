"""The plain value between stores and the download: files, each with where and what it is.

Paths come from object keys and manifests that anybody may have written, so they are checked here,
once, before anything is made of them. Pure.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from moorage_runtime.fetch.failures import BadSource, NotFound

__all__ = ["Algorithm", "Digest", "Entry", "Listing", "checked", "checked_path", "declared"]

# Of one path component and of a whole path, as Linux has them.
NAME_LIMIT_BYTES = 255
PATH_LIMIT_BYTES = 4000
# A model of more files is a mistake in the URI, such as the root of a data lake.
ENTRIES_LIMIT = 100_000


class Algorithm(StrEnum):
    """How a digest is made."""

    SHA256 = "sha256"
    MD5 = "md5"
    GIT_SHA1 = "git-sha1"  # of "blob SIZE\0" and the bytes, as git names a file


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file's bytes must hash to; `value` in lower-case hexadecimal."""

    algorithm: Algorithm
    value: str

    def __str__(self) -> str:
        """As in a message."""
        return f"{self.algorithm}:{self.value}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file to download.

    Attributes:
        path: Where it goes, relative, with slashes.
        url: Where it is.
        size: Bytes; None where the server does not say.
        identity: What names these very bytes at the store (an ETag, a generation, a digest);
            empty where nothing does, and then a download cannot be taken up again.
        etag: Sent as If-Match, so that a changed object is refused; empty: not sent.
        digest: What the bytes must hash to, None where nobody promised anything.
        layer: It is a layer of an image, to be unpacked over those before it.
    """

    path: str
    url: str
    size: int | None
    identity: str = ""
    etag: str = ""
    digest: Digest | None = None
    layer: bool = False

    @property
    def part_name(self) -> str:
        """File name of the bytes so far: another object of the same path gets another one."""
        return hashlib.sha256(f"{self.path}\0{self.identity}\0{self.digest}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Listing:
    """All files of one model, as the store has them now.

    Attributes:
        entries: The files; layers in the order in which they are laid over each other.
        revision: What a mutable name stood for, such as a commit or a manifest's digest; empty
            where the store has no such thing.
    """

    entries: tuple[Entry, ...]
    revision: str = ""

    @property
    def known_bytes(self) -> int:
        """Bytes of the files whose size is known."""
        return sum(entry.size or 0 for entry in self.entries)


def checked(entries: Iterable[Entry], what: str) -> tuple[Entry, ...]:
    """The entries, all of them safe to write, in the order given.

    Raises:
        NotFound: There is none.
        BadSource: A path leaves the folder, is both a file and a folder, or there are too many.
    """
    found = tuple(entries)
    if not found:
        raise NotFound(f"{what} holds no files; check the path")
    if len(found) > ENTRIES_LIMIT:
        raise BadSource(f"{what} holds more than {ENTRIES_LIMIT} files; expected one model")
    files = {entry.path for entry in found if not entry.layer}
    for entry in found:
        checked_path(entry.path, what)
        parts = entry.path.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if both := above & files:
            raise BadSource(f"{what} holds '{min(both)}' both as a file and as a folder")
    return found


def declared(entries: tuple[Entry, ...], sha256: str, what: str) -> tuple[Entry, ...]:
    """The one file with the SHA-256 that the user wrote; the entries as they are without one.

    Raises:
        BadSource: There are several files, and only one can have that digest.
    """
    if not sha256:
        return entries
    if len(entries) != 1:
        raise BadSource(f"#sha256= is of one file, and {what} holds {len(entries)}; remove it")
    digest = Digest(Algorithm.SHA256, sha256)
    return (replace(entries[0], digest=digest, identity=sha256),)


def checked_path(path: str, what: str) -> str:
    """The path, when it stays within its folder and any file system can hold it.

    Raises:
        BadSource: It does not.
    """
    parts = path.split("/")
    # half of a surrogate pair, which JSON can hold and no file system
    broken = any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in path)
    if not path or broken or any(part in {"", ".", ".."} for part in parts):
        raise BadSource(f"{what} holds {path!r}, which is no path below a folder")
    too_long = any(len(part.encode()) > NAME_LIMIT_BYTES for part in parts)
    if too_long or len(path.encode()) > PATH_LIMIT_BYTES:
        raise BadSource(f"{what} holds a path that is longer than a file system allows: {path!r}")
    return path
