"""Unpacks what was downloaded: an archive of a model, or the layers of an image.

Each member is written by this module itself, never by an extracting call of a library, so that
nothing but plain files and folders can come of it whatever the archive says.
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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from moorage_runtime.fetch.archive_rules import Budget, Kind, member_path, whiteout
from moorage_runtime.fetch.download import no_space
from moorage_runtime.fetch.failures import Corrupt

__all__ = ["unpack", "unpack_layer"]

log = logging.getLogger(__name__)

COPY_BYTES = 1024 * 1024
# Names and attributes of a member are read into memory at once; no honest one has so many.
HEADER_LIMIT_BYTES = 8 * 1024 * 1024
BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError,
    NotImplementedError, UnicodeError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Member:
    """One member, with what opens it."""

    name: str
    kind: Kind
    open: Any


def unpack(archive: Path, name: str, folder: Path, budget: Budget) -> None:
    """Write an archive's files below a folder.

    Args:
        archive: The file.
        name: What the user knows it by; its end says whether it is a zip.
        folder: Where to; exists.
        budget: Room, which this spends.

    Raises:
        Corrupt: The archive is broken, or has members that are not plain files below it.
        NoSpace: There is no room.
    """
    with _read_errors(name):
        members = _zip(archive) if name.lower().endswith(".zip") else _tar(archive)
        for member in members:
            budget.spend_member(name)
            path = member_path(member.name, name)
            if member.kind in {Kind.LINK, Kind.OTHER}:
                raise Corrupt(
                    f"{name} has '{path}', which is a link or a device and no file; make the "
                    "archive with files in the place of links (tar --dereference)"
                )
            if path:
                _write(member, folder / path, name, budget)


def unpack_layer(layer: Path, name: str, folder: Path, budget: Budget, keep: str) -> None:
    """Lay one layer of an image over those before it.

    Links are left out: an image has many that have nothing to do with the model. What `keep` does
    not name, or lie below, is left out too; an empty `keep` keeps all. Raises as `unpack`.
    """
    left_out = 0
    with _read_errors(name):
        for member in _tar(layer):
            budget.spend_member(name)
            path = member_path(member.name, name)
            if not path or (keep and not f"{path}/".startswith(f"{keep}/")):
                continue
            if gone := whiteout(path):
                _take_away(folder / gone[0], below=gone[1])
            elif member.kind in {Kind.LINK, Kind.OTHER}:
                left_out += 1
            else:
                _write(member, folder / path, name, budget)
    if left_out:
        log.warning("%s: %d links and devices of the layer are left out", name, left_out)


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
        raise Corrupt(f"{archive} has '{member.name}' both as a file and as a folder") from error
    except OSError as error:
        if error.errno is None:
            raise  # a decompressor's, not the file system's
        raise no_space(error) from error


def _take_away(target: Path, *, below: bool) -> None:
    if target.is_dir():
        shutil.rmtree(target)
        if below:
            target.mkdir()
    elif not below:
        target.unlink(missing_ok=True)


def _tar(archive: Path) -> Iterator[_Member]:
    with (
        _decompressed(archive) as data,
        tarfile.open(fileobj=_Bounded(data), mode="r:") as tar,
    ):
        while info := tar.next():
            kind = (
                Kind.FILE if info.isreg()
                else Kind.FOLDER if info.isdir()
                else Kind.LINK if info.issym() or info.islnk()
                else Kind.OTHER
            )  # fmt: skip
            yield _Member(info.name, kind, lambda info=info: tar.extractfile(info))


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


def _zip(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            mode = stat.S_IFMT(info.external_attr >> 16)
            kind = (
                Kind.FOLDER if info.is_dir()
                else Kind.FILE if mode in {0, stat.S_IFREG}
                else Kind.LINK if mode == stat.S_IFLNK
                else Kind.OTHER
            )  # fmt: skip
            yield _Member(info.filename, kind, lambda info=info: opened.open(info))


class _Bounded(io.RawIOBase):
    """Decompressed bytes, of which never more are read at once than an honest archive asks for."""

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= HEADER_LIMIT_BYTES:
            raise tarfile.ReadError("a header is too large")
        return self._data.read(size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._data.seek(offset, whence)

    def tell(self) -> int:
        return self._data.tell()


@contextmanager
def _read_errors(name: str) -> Generator[None]:
    """What a library raises for a broken archive, as the one sentence for it."""
    try:
        yield
    except (*BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        what = "zip" if name.lower().endswith(".zip") else "tar archive"
        raise Corrupt(f"{name} is broken, or is no {what}: {error}") from error
