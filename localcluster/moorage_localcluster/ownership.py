"""Whose a folder is, and who changes it now.

`down` removes a cluster's whole folder, so no folder is worked in without the mark that the
first command left there: its ports. One command at a time changes a cluster; others wait.
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
    """Hold a folder, made when it is absent, for the length of one command.

    The lock belongs to this process: the kernel lifts it however the process ends.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_still(folder, handle):
            break
        # whoever held it before took the folder down
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
    """Mark a new folder as a cluster's, with the ports that it uses; safe to repeat.

    Raises:
        ClusterError: Something else is in the folder.
    """
    if read_mark(folder) is None:
        refuse_foreign(folder)
        write_whole(folder / MARK, json.dumps(asdict(ports)))


def read_mark(folder: Path) -> Ports | None:
    """The ports of the cluster whose folder this is, None when it is no cluster's.

    Raises:
        ClusterError: The mark is there and unreadable.
    """
    mark = folder / MARK
    try:
        return Ports(**json.loads(mark.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"{mark} should hold the ports of a cluster as a JSON object, but: {error}"
        ) from error


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something and no mark.

    The default folder is ours by its name: a build may go on in it while `down` removes it.

    Raises:
        ClusterError: It does; the text names the folder.
    """
    if folder == DEFAULT_STATE or not folder.is_dir() or (folder / MARK).exists():
        return
    others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(MARK))
    if others:
        raise ClusterError(
            f"{folder} holds {others[0]!r} and no {MARK}, so it is not a cluster's folder; "
            "name a new or empty one, since `down` removes all of it"
        )
