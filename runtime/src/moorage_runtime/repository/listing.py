"""Lists a repository's disk as a value for ``layout``; blocks.

    loader -> read() -> Folder with stamps -> layout -> Listing

Symbolic links are followed, even out of the repository. Whoever can write to a repository can add
a Python class to it, so a link grants no additional access.
"""

import errno
import os
import pathlib
import stat
import time
from typing import Final

import msgspec

from moorage_runtime.repository.contents import layout
from moorage_runtime.repository.contents.layout import Folder, ModelLayout, Stamp
from moorage_runtime.values.errors import InvalidConfig

# repository / model / version: the levels that define models and versions
_LAYOUT_DEPTH: Final = 2
# Limits on depth and number of watched entries below a version's folder. A link to the root of a
# file system must not make every scan read all of it.
_DEPTH: Final = 8
_WATCHED_ENTRIES: Final = 10_000
# File systems count time in ticks of a few milliseconds: a file that changed just before a scan
# may change again without a new time.
_TICK_NS: Final = 50_000_000
# Python writes this folder beside the files that it imports.
_NOT_WATCHED: Final = "__pycache__"
_KINDS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Listing(msgspec.Struct, frozen=True):
    """The result of one scan of the disk.

    Attributes:
        models: The models, sorted by name.
        skipped: Entries that are not models, each with the reason.
    """

    models: tuple[ModelLayout, ...]
    skipped: tuple[str, ...] = ()


def read(root: pathlib.Path, model_name: str | None) -> Listing:
    """The models of a repository, or of a path that is one model or one file.

    Raises:
        InvalidConfig: The path does not exist or cannot be read.
    """
    look = _Look()
    try:
        if root.is_file():
            found = layout.single_file(_text(root.name), model_name)
            stamp = look.stamp(root.stat())
            version = msgspec.structs.replace(found.versions[0], stamp=stamp)
            return Listing((msgspec.structs.replace(found, versions=(version,), stamp=stamp),))
        # check the root first: without it there is no repository
        os.scandir(root).close()
        name = _text(root.resolve().name)
    except OSError as error:
        raise InvalidConfig(f"cannot read the model repository: {error.strerror}") from error
    folder = look.folder(os.fspath(root), 0, ())
    if folder.problem:
        raise InvalidConfig(f"cannot read the model repository: {folder.problem}")
    odd = tuple(f"{name!a} (its name is not UTF-8)" for name in look.unnamed)
    return Listing(
        layout.discover(folder, name, model_name), layout.skipped(folder, model_name) + odd
    )


def read_file(path: pathlib.Path, limit_bytes: int) -> bytes:
    """The content of a regular file, at most one byte more than the limit.

    Raises:
        OSError: It cannot be read, or is not a regular file, such as a FIFO without a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(limit_bytes + 1)


class _Look:
    """One scan of the disk.

    Attributes:
        unnamed: Names that are not UTF-8.
    """

    def __init__(self) -> None:
        self.unnamed: list[str] = []
        self._left = _WATCHED_ENTRIES
        # by this machine's clock; if the clock of a file server differs, a change is read twice
        self._recent = time.time_ns() - _TICK_NS

    def stamp(self, status: os.stat_result) -> tuple[object, ...]:
        """Differs after any change of the file or its permissions."""
        is_recent = status.st_ctime_ns > self._recent
        return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, is_recent)

    def folder(self, path: str, depth: int, above: tuple[str, ...]) -> Folder:
        """The listing of a folder, or the reason why it cannot be read."""
        here = (*above, path)
        if depth < _LAYOUT_DEPTH:
            self._left = _WATCHED_ENTRIES
        try:
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror}"
            return Folder(frozenset(), {}, problem=problem, stamp=(problem,))
        files: set[str] = set()
        folders: dict[str, Folder] = {}
        odd: dict[str, str] = {}
        stamps: list[tuple[object, ...]] = []
        config: Stamp = None
        for entry in entries:
            name = entry.name
            if not self._counts(name, depth):
                if not depth and _is_text(name):
                    odd[name] = "hidden"
                continue
            seen = self._entry(entry, depth, here)
            if isinstance(seen, Folder):
                folders[name] = seen
                stamps.append((name, seen.stamp, seen.config_stamp))
                continue
            if isinstance(seen, str):
                odd[name] = seen
            else:
                files.add(name)
            if name == layout.CONFIG_FILE:
                config = (seen,)
            else:
                stamps.append((name, seen))
        return Folder(frozenset(files), folders, odd, "", tuple(stamps), config)

    def _counts(self, name: str, depth: int) -> bool:
        """Whether an entry can be part of a model; hidden files cannot."""
        if name.startswith(".") or name == _NOT_WATCHED:
            return False
        if not _is_text(name):
            if depth < _LAYOUT_DEPTH:
                self.unnamed.append(name)
            return False
        return depth <= _LAYOUT_DEPTH or self._may_watch()

    def _entry(
        self, entry: "os.DirEntry[str]", depth: int, above: tuple[str, ...]
    ) -> "Folder | str | tuple[object, ...]":
        """The listing of a folder, the stamp of a file, or a description of another entry."""
        try:
            if not entry.is_dir():
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    return self.stamp(status)
                return _KINDS.get(stat.S_IFMT(status.st_mode), "not a file")
            if entry.is_symlink() and _leads_up(entry, above):
                return "a symbolic link to a folder that contains it"
        except OSError as error:
            what = "a broken symbolic link" if entry.is_symlink() else "unreadable"
            return f"{what} ({error.strerror})"
        if depth >= _DEPTH:
            return Folder(frozenset(), {})
        return self.folder(entry.path, depth + 1, above)

    def _may_watch(self) -> bool:
        self._left -= 1
        return self._left >= 0


def _leads_up(entry: "os.DirEntry[str]", above: tuple[str, ...]) -> bool:
    target = entry.stat()
    return any(os.path.samestat(target, os.stat(folder)) for folder in above)  # noqa: PTH116 - thousands of paths a second


def _is_text(name: str) -> bool:
    return name.isascii() or _text(name) == name


def _text(name: str) -> str:
    """The name, with a question mark for every byte that is not UTF-8."""
    return name.encode(errors="replace").decode()
