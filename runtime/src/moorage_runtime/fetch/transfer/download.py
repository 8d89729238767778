"""Downloads one file: resumes a partial download, requests the rest, verifies the whole.

    parts/HASH.part  --->  parts/HASH        the name identifies the content
    partial download       complete, verified and on the disk

The name of a partial download is derived from the file's identity at the store: a changed object
has another name and starts again, and a restarted container resumes where the last one ended.
"""

import errno
import hashlib
import os
import re
from pathlib import Path
from typing import IO, Final

from moorage_runtime.fetch.clock import Stop
from moorage_runtime.fetch.decide.amounts import in_bytes
from moorage_runtime.fetch.decide.entries import Algorithm, Digest, Entry
from moorage_runtime.fetch.decide.failures import Changed, Corrupt, NoSpace, Unreachable
from moorage_runtime.fetch.stores.store import Store
from moorage_runtime.fetch.transfer.progress import Progress
from moorage_runtime.fetch.transfer.retries import persistently
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["Download", "Stopped", "no_space"]

READ_BYTES: Final = 1024 * 1024
CONTENT_RANGE = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+|\*)")
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Stopped(Exception):
    """Another file failed, so this download stops as well."""


class _StartOver(Exception):
    """The partial download is unusable."""


class Download:
    """Downloads files of one store into one folder; thread-safe.

    Args:
        store: Builds the requests.
        web: The network.
        parts: Existing folder of partial downloads.
        progress: Receives the number of bytes.
        stop: Stops all downloads.
        limit_bytes: Maximum size of a file of unknown size.
    """

    def __init__(
        self, store: Store, web: Web, parts: Path, progress: Progress, stop: Stop, limit_bytes: int
    ) -> None:
        self._store = store
        self._web = web
        self._parts = parts
        self._progress = progress
        self._stop = stop
        self._limit_bytes = limit_bytes

    def fetch(self, entry: Entry) -> Path:
        """The file, complete and verified.

        Raises:
            FetchError: The download failed.
            Stopped: Downloads must stop.
        """
        whole = self._parts / entry.part_name
        if not entry.identity:
            whole.unlink(missing_ok=True)  # the server may have another file by now
        if whole.exists():
            self._progress.resume(_size(whole))
        else:
            self._make_whole(entry, whole.with_suffix(".part"))
            whole.with_suffix(".part").rename(whole)
        self._progress.finish_file()
        return whole

    def _make_whole(self, entry: Entry, part: Path) -> None:
        farthest = 0

        def reached() -> int:
            """The largest size of the partial download so far: repeated bytes are not progress."""
            nonlocal farthest
            farthest = max(farthest, _size(part))
            return farthest

        try:
            self._progress.resume(_size(part))
            persistently(lambda: self._attempt(entry, part), self._pause, reached)
        except OSError as error:
            raise no_space(error) from error

    def _pause(self, seconds: float) -> None:
        self._stop.pause(seconds)
        if self._stop.is_set:
            raise Stopped

    def _attempt(self, entry: Entry, part: Path) -> None:
        """One attempt; a second one from the start if the partial download is invalid."""
        if not entry.identity:
            self._give_up(part)  # it is unknown whether the rest belongs to these bytes
        try:
            self._continue(entry, part)
        except _StartOver:
            self._give_up(part)
            try:
                self._continue(entry, part)
            except _StartOver as error:
                self._give_up(part)
                raise Unreachable(
                    f"{entry.path}: the server's response does not contain the requested range"
                ) from error

    def _give_up(self, part: Path) -> None:
        self._progress.resume(-_size(part))
        part.unlink(missing_ok=True)

    def _continue(self, entry: Entry, part: Path) -> None:
        with part.open("ab+") as file:
            offset = file.seek(0, os.SEEK_END)
            if entry.size is not None and offset >= entry.size:
                self._verify(entry, entry.digest, offset, part, resumed=bool(offset))
                _to_disk(file)
                return
            wanted: dict[str, str] = {}
            if offset:
                wanted["Range"] = f"bytes={offset}-"
            if entry.etag:
                wanted["If-Match"] = entry.etag
            headers = self._store.headers(entry, wanted)
            with self._web.open(entry.url, headers) as answer:
                self._check(answer, entry, offset)
                size = self._write(answer, entry, file, offset)
                digest = self._store.promised(entry, answer.headers)
            _to_disk(file)
        self._verify(entry, digest, size, part, resumed=bool(offset))

    def _check(self, answer: Answer, entry: Entry, offset: int) -> None:
        """Check that the response contains the requested bytes of the listed file."""
        if answer.status == 416 or (offset and answer.status == 200):
            raise _StartOver
        if answer.status not in {200, 206}:
            raise self._store.failure(answer, f"{entry.path}")
        etag = answer.headers.get("ETag", "")
        if entry.etag and etag and etag != entry.etag:
            raise Changed(f"{entry.path} changed during the download")
        if answer.status == 206:
            found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            total = str(entry.size) if entry.size is not None else None
            if not found or int(found[1]) != offset or found[3] not in {total or found[3], "*"}:
                raise _StartOver

    def _write(self, answer: Answer, entry: Entry, file: IO[bytes], offset: int) -> int:
        """Append the body; returns the new size of the file."""
        size = offset
        limit = self._limit_bytes if entry.size is None else entry.size
        for chunk in answer.chunks():
            if self._stop.is_set:
                raise Stopped
            size += len(chunk)
            if size > limit:
                if entry.size is None:
                    raise NoSpace(
                        f"{entry.path} is larger than {in_bytes(limit)}, the size of the volume"
                    )
                raise Changed(f"{entry.path} has more than {limit} bytes, the listed size")
            file.write(chunk)
            self._progress.add(len(chunk))
        # a server without a length closes the connection at the end of a body, complete or not
        if entry.size is not None and size < entry.size:
            raise Unreachable(f"{entry.path}: the connection ended at byte {size} of {entry.size}")
        return size

    def _verify(
        self, entry: Entry, digest: Digest | None, size: int, part: Path, *, resumed: bool
    ) -> None:
        if entry.size is not None and size != entry.size:
            raise _StartOver
        if digest is None:
            return
        found = _digest_of(part, digest.algorithm, size)
        if found == digest.value:
            return
        if resumed:
            raise _StartOver
        self._give_up(part)
        raise Corrupt(
            f"the checksum of {entry.path} is wrong: must be {digest}, but the {in_bytes(size)} "
            f"received have {digest.algorithm}:{found}"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest_of(path: Path, algorithm: Algorithm, size: int) -> str:
    names = {Algorithm.MD5: "md5", Algorithm.GIT_SHA1: "sha1", Algorithm.SHA256: "sha256"}
    # a store's own digest may be MD5 or SHA-1; a digest in the URI is SHA-256
    digest = hashlib.new(names[algorithm], usedforsecurity=False)
    if algorithm is Algorithm.GIT_SHA1:
        digest.update(f"blob {size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _to_disk(file: IO[bytes]) -> None:
    """Flush the file, so that a node failure cannot leave a verified name with missing content."""
    file.flush()
    os.fsync(file.fileno())


def no_space(error: OSError) -> NoSpace:
    """The failure for a failed write."""
    if error.errno in FULL:
        return NoSpace(
            "the volume is full: raise model.download.sizeLimit, or use a node with a larger disk"
        )
    return NoSpace(f"the volume cannot be written: {error.strerror}")
