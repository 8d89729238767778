"""Installs the requirements.txt of a Python model into a folder of its own.

    requirements.txt -> check -> pip install --require-hashes -> CACHE/KEY -> the model's process

The folder's name is a hash of the file, so models with the same file share it. The installation
uses a scratch folder, which is renamed when it is complete: a folder with the final name is never
partial. A lock on a file makes concurrent loads, also those of other server processes, wait for
one installation.
"""

import fcntl
import hashlib
import importlib.util
import logging
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from moorage_runtime.backends.extra import installation
from moorage_runtime.backends.python import requirements
from moorage_runtime.values.errors import InvalidConfig

__all__ = ["Packages"]

log = logging.getLogger(__name__)

SETTING: Final = "--python-packages"
VARIABLE: Final = "MOORAGE_PYTHON_PACKAGES"
INDEX_SETTING: Final = "--python-index"
INDEX_VARIABLE: Final = "MOORAGE_PYTHON_INDEX"
# Words of pip.
_CONNECTION_ERROR: Final = "connection broken by"
_NOTHING_FOUND: Final = "No matching distribution found"
# Length of pip's words in a message.
_QUOTE_LIMIT: Final = 500


class Packages:
    """Installed packages of Python models; thread-safe.

    Args:
        cache: Folder for installed packages, or None to install none.
        index: A folder of wheels, or the URL of a package index; empty for pip's own default.
    """

    def __init__(self, cache: pathlib.Path | None = None, index: str = "") -> None:
        self._cache = cache
        self._index = index

    def installed(
        self, model: pathlib.Path, report: Callable[[str], None] = lambda _: None
    ) -> pathlib.Path:
        """The folder with the packages of the requirements.txt beside a model file; blocks.

        Args:
            model: The model file.
            report: Receives what is done while packages are installed, and "" at the end.

        Raises:
            InvalidConfig: The file is missing or invalid, the server installs no packages, or pip
                fails; the message has pip's last words.
        """
        file = model.with_name(requirements.FILE)
        content = _content(file)
        count = requirements.check(_text(content))
        if self._cache is None:
            raise InvalidConfig(
                f"{model.name} requires the packages of {requirements.FILE}, but this server "
                f"installs none: set {SETTING} (in spec.runtime.env of an InferenceModel: "
                f"{VARIABLE}) to a writable folder, such as /tmp/packages"
            )
        if importlib.util.find_spec("pip") is None:
            raise InvalidConfig(
                f"{requirements.FILE} requires the extra 'pip', which is not installed: "
                f"{installation('pip')}"
            )
        target = self._cache.absolute() / _key(content)
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            if not target.is_dir():
                # one text for the whole installation: each change would update the model's status
                packages = "1 package" if count == 1 else f"{count} packages"
                report(f"installing {packages} of {requirements.FILE}")
                self._install(file, content, target)
                report("")
        except OSError as error:
            raise InvalidConfig(
                f"the packages of {requirements.FILE} cannot be installed in {SETTING}="
                f"{self._cache}: {error.strerror}"
            ) from error
        return target

    def _install(self, file: pathlib.Path, content: bytes, target: pathlib.Path) -> None:
        with _lock(target.with_suffix(".lock")):
            if target.is_dir():
                return
            for left in target.parent.glob(f".{target.name}-*"):
                shutil.rmtree(left, ignore_errors=True)
            scratch = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                # the file may change while pip runs
                wanted = scratch / requirements.FILE
                wanted.write_bytes(content)
                log.info("installing the packages of %s", file)
                self._pip(scratch, wanted)
                (scratch / "packages").rename(target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        log.info("installed the packages of %s", file)

    def _pip(self, scratch: pathlib.Path, wanted: pathlib.Path) -> None:
        packages = scratch / "packages"
        # pip does not create it for a file without requirements
        packages.mkdir()
        done = subprocess.run(  # noqa: S603 - fixed words and paths
            [
                *(sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-input"),
                *("--no-cache-dir", "--disable-pip-version-check", "--no-warn-conflicts"),
                *("--require-hashes", "--only-binary", ":all:"),
                *self._source(),
                *("--target", str(packages), "--requirement", str(wanted)),
            ],
            # the rest of the file system may be read-only
            env={**os.environ, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            said = done.stdout.decode(errors="replace")
            log.error("pip: %s", said.strip())
            raise InvalidConfig(
                f"the packages of {requirements.FILE} cannot be installed: {_advised(said)}"
            )

    def _source(self) -> list[str]:
        if not self._index:
            return []
        if "://" in self._index:
            return ["--index-url", self._index]
        return ["--no-index", "--find-links", str(pathlib.Path(self._index).absolute())]


def _content(file: pathlib.Path) -> bytes:
    try:
        with file.open("rb") as opened:
            content = opened.read(requirements.LIMIT_BYTES + 1)
    except FileNotFoundError:
        raise InvalidConfig(
            f"model.yaml: python.requirements is true, but there is no {file.name} beside the "
            "model's file"
        ) from None
    except OSError as error:
        raise InvalidConfig(f"{file.name} cannot be read: {error.strerror}") from error
    if len(content) > requirements.LIMIT_BYTES:
        raise InvalidConfig(
            f"{file.name} is too large: must have {requirements.LIMIT_BYTES} bytes or fewer"
        )
    return content


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{requirements.FILE} is not UTF-8 text") from error


def _key(content: bytes) -> str:
    """The folder's name: a cache can be shared by images with other versions of Python."""
    made_for = (
        f"{sys.implementation.cache_tag} {platform.machine()} {'-'.join(platform.libc_ver())}"
    )
    return hashlib.sha256(made_for.encode() + b"\n" + content).hexdigest()[:32]


@contextmanager
def _lock(file: pathlib.Path) -> Generator[None]:
    """Wait for the lock on a file, and hold it; the end of the process releases it as well."""
    with file.open("ab") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _advised(said: str) -> str:
    """The last error of pip; of an index that does not answer, pip says that it has no package."""
    words = _last_words(said)
    if _CONNECTION_ERROR not in said or _NOTHING_FOUND not in words:
        return words
    return (
        f"the package index does not answer: set {INDEX_SETTING} ({INDEX_VARIABLE}) to the URL of "
        f"an index that the server can reach, or to a folder of wheels; pip: {words}"
    )


def _last_words(said: str) -> str:
    """The last error of pip in one line; an error about hashes has several lines."""
    _, found, last = said.rpartition("ERROR: ")
    line = " ".join((last if found else said).split())
    return line if len(line) <= _QUOTE_LIMIT else f"{line[: _QUOTE_LIMIT - 3]}..."
