"""Ownership and locking of a cluster's folder.

`down` removes the whole folder of a cluster. The first command therefore marks the folder with a
file that contains the ports, and no command works in a folder without it. Only one command at a
time changes a cluster; others wait.
"""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from moorage_localcluster.files import write_whole
from moorage_localcluster.layout import DEFAULT_STATE, ClusterError, Ports

MARK = "ports.json"


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a folder for one command, and create it if it does not exist.

    The lock belongs to this process: the kernel releases it however the process ends.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_still(folder, handle):
            break
        # The previous holder removed the folder.
        os.close(handle)
    try:
        yield
    finally:
        os.close(handle)


def _is_still(folder: Path, handle: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def claim(folder: Path, ports: Ports) -> None:
    """Mark a new folder as a cluster's, with its ports; idempotent.

    Raises:
        ClusterError: The folder contains other files.
    """
    if read_mark(folder) is None:
        refuse_foreign(folder)
        write_whole(folder / MARK, json.dumps(asdict(ports)))


def read_mark(folder: Path) -> Ports | None:
    """The ports of the cluster in this folder; None if it is not a cluster's folder.

    Raises:
        ClusterError: The mark exists but is invalid.
    """
    mark = folder / MARK
    try:
        return Ports(**json.loads(mark.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"{mark} is invalid: it must contain the ports of a cluster as JSON: {error}"
        ) from error


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that has content but no mark.

    The default folder is ours by its name: a build can continue in it while `down` removes it.

    Raises:
        ClusterError: The folder is not a cluster's; the text names it.
    """
    if folder == DEFAULT_STATE or not folder.is_dir() or (folder / MARK).exists():
        return
    others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(MARK))
    if others:
        raise ClusterError(
            f"{folder} contains {others[0]!r} but no {MARK}, so it is not a cluster's folder: "
            "choose a new or empty folder, because `down` removes the whole folder"
        )
