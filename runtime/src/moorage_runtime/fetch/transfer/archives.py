"""Unpacks a download: an archive of a model, the layers of an image, or a compressed file.

This module writes each member itself instead of calling a library's extract function, so that only
regular files and folders can result, whatever the archive contains. A hard link becomes another
name of a file that came before it.
"""

import bz2
import gzip
import io
import logging
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from moorage_runtime.fetch.decide.archive_rules import (
    Budget,
    Kind,
    Whiteout,
    is_metadata,
    member_path,
    whiteout,
)
from moorage_runtime.fetch.decide.failures import Corrupt
from moorage_runtime.fetch.transfer.download import no_space

__all__ = ["decompress", "unpack", "unpack_layer"]

log = logging.getLogger(__name__)

COPY_BYTES = 1024 * 1024
# Names and attributes of a member are read into memory at once; valid archives need far less.
HEADER_LIMIT_BYTES = 8 * 1024 * 1024
BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError,
    NotImplementedError, UnicodeError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Member:
    """One member, with the function that opens it, or with the name that a hard link points to."""

    name: str
    kind: Kind
    open: Any
    first: str = ""


def unpack(archive: Path, name: str, folder: Path, budget: Budget) -> None:
    """Write an archive's files below a folder.

    Args:
        archive: The file.
        name: Its name for messages; the suffix shows whether it is a zip.
        folder: Existing target folder.
        budget: The remaining room, which this reduces.

    Raises:
        Corrupt: The archive is invalid, or has members that are not files below it.
        NoSpace: The volume is full.
    """
    is_zip = name.lower().endswith(".zip")
    with _read_errors(name, "zip" if is_zip else "tar archive"):
        members = _zip(archive, name) if is_zip else _tar(archive, name, budget)
        for member in members:
            budget.spend_member(name)
            path = member_path(member.name, name)
            if member.kind in {Kind.LINK, Kind.OTHER}:
                raise Corrupt(
                    f"{name} contains '{path}', which is a symbolic link or a device: create the "
                    "archive with files instead of links (tar --dereference)"
                )
            if path and member.kind is Kind.HARD_LINK:
                if not _link(member, folder, path):
                    raise Corrupt(
                        f"{name} contains '{path}', a hard link to {member.first[:80]!r}: must be "
                        "a file that comes before it in the archive"
                    )
            elif path:
                _write(member, folder / path, name, budget)


def unpack_layer(layer: Path, name: str, folder: Path, budget: Budget, keep: str) -> None:
    """Unpack one layer of an image over earlier ones.

    Symbolic links are skipped, because an image has many that are unrelated to the model, and so
    are hard links to files that are not kept. Files outside of `keep` are skipped too; an empty
    `keep` keeps all. Raises like `unpack`.
    """
    left_out = 0
    with _read_errors(name, "tar archive"):
        for member in _tar(layer, name, budget):
            # some builders write absolute names, which mean the same
            path = member_path(member.name.lstrip("/"), name)
            if not path or is_metadata(path):
                continue
            gone = whiteout(path, name)
            if gone is not None:
                if gone.concerns(keep):
                    _remove(folder, gone)
                continue
            if keep and not f"{path}/".startswith(f"{keep}/"):
                continue
            budget.spend_member(name)
            target, kind = folder / path, member.kind
            if kind is not Kind.FOLDER and target.is_dir():
                _delete(target)
            if kind in {Kind.FILE, Kind.FOLDER}:
                _write(member, target, name, budget)
            elif kind is not Kind.HARD_LINK or not _link(member, folder, path):
                # what an earlier layer has there is no longer part of the image
                _delete(target)
                left_out += 1
    if left_out:
        log.warning("%s: skipped %d links and devices of the layer", name, left_out)


def decompress(file: Path, name: str, target: Path, budget: Budget) -> None:
    """Write the content of a file that its store keeps compressed with gzip.

    Raises like `unpack`.
    """
    with _read_errors(name, "gzip file"):
        _write(_Member(name, Kind.FILE, partial(gzip.open, file)), target, name, budget)


def _write(member: _Member, target: Path, archive: str, budget: Budget) -> None:
    try:
        if target.is_file():
            target.unlink()
        if member.kind is Kind.FOLDER:
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as source, target.open("wb") as sink:
            while block := source.read(COPY_BYTES):
                budget.spend(len(block), archive)
                sink.write(block)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise Corrupt(
            f"{archive} contains '{member.name}' both as a file and as a folder"
        ) from error
    except OSError as error:
        if error.errno is None:
            raise  # raised by the decompressor, not by the file system
        raise no_space(error) from error


def _link(member: _Member, folder: Path, path: str) -> bool:
    """Give an earlier file another name; False if the hard link points to no such file."""
    names = [part for part in member.first.split("/") if part not in {"", "."}]
    first, target = folder.joinpath(*names), folder / path
    if ".." in names or not first.is_file() or target.is_dir():
        return False
    if first == target:
        return True
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.hardlink_to(first)
    except (FileExistsError, NotADirectoryError):
        return False
    except OSError as error:
        raise no_space(error) from error
    return True


def _remove(folder: Path, gone: Whiteout) -> None:
    """Remove the path of a whiteout; the target folder itself always stays."""
    target = folder / gone.path
    if gone.is_opaque:
        for child in target.iterdir() if target.is_dir() else ():
            _delete(child)
    else:
        _delete(target)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        return
    # a file in place of a parent folder: there is nothing to remove
    with suppress(NotADirectoryError):
        path.unlink(missing_ok=True)


def _tar(archive: Path, name: str, budget: Budget) -> Iterator[_Member]:
    with (
        _decompressed(archive) as data,
        tarfile.open(fileobj=(bounded := _Bounded(data)), mode="r:") as tar,
    ):
        while info := tar.next():
            kind = (
                Kind.FILE if info.isreg()
                else Kind.FOLDER if info.isdir()
                else Kind.HARD_LINK if info.islnk()
                else Kind.LINK if info.issym()
                else Kind.OTHER
            )  # fmt: skip
            yield _Member(info.name, kind, lambda info=info: tar.extractfile(info), info.linkname)
        # tarfile takes a header that it cannot read for the end
        if bounded.latest.strip(b"\0") or len(bounded.latest) not in {0, tarfile.BLOCKSIZE}:
            raise tarfile.ReadError("the header of a member is invalid or incomplete")
        # the checksum of a compressed file follows its last byte
        while block := data.read(COPY_BYTES):
            budget.spend(len(block), name)


def _decompressed(archive: Path) -> BinaryIO:
    with archive.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.open(archive))
    if magic.startswith(b"BZh"):
        return cast("BinaryIO", bz2.open(archive))
    if magic == b"\xfd7zXZ\0":
        return cast("BinaryIO", lzma.open(archive))
    return archive.open("rb")


def _zip(archive: Path, name: str) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if "\\" in info.filename:
                raise Corrupt(
                    f"{name} has a member {info.filename[:80]!r} with a backslash: create "
                    "the archive with '/' between folders"
                )
            mode = stat.S_IFMT(info.external_attr >> 16)
            kind = (
                Kind.FOLDER if info.is_dir()
                else Kind.FILE if mode in {0, stat.S_IFREG}
                else Kind.LINK if mode == stat.S_IFLNK
                else Kind.OTHER
            )  # fmt: skip
            yield _Member(info.filename, kind, lambda info=info: opened.open(info))


class _Bounded(io.RawIOBase):
    """Decompressed bytes; a single read is limited to what a valid archive needs.

    Attributes:
        latest: What the latest read returned.
    """

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data
        self.latest = b""

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= HEADER_LIMIT_BYTES:
            raise tarfile.ReadError("a header is too large")
        self.latest = self._data.read(size)
        return self.latest

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._data.seek(offset, whence)

    def tell(self) -> int:
        return self._data.tell()


@contextmanager
def _read_errors(name: str, what: str) -> Generator[None]:
    """Turn a library's exceptions for an invalid archive into one message."""
    try:
        yield
    except (*BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Corrupt(f"{name} is damaged, or is not a {what}: {error}") from error
