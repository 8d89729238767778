"""The volume that the model is fetched to, and the one rename that makes the model appear.

    VOLUME/parts/        files on their way and verified files
    VOLUME/staging/      the model as it will be
    VOLUME/model/        the model; it is there whole or not at all
    VOLUME/fetched.json  which URI it is of

The server's container mounts `model` alone. An init container may run again in a pod that has its
model already; the file says so, and nothing is fetched.
"""

import json
import os
import shutil
from pathlib import Path

from moorage_runtime.fetch.amounts import in_bytes
from moorage_runtime.fetch.failures import NoSpace

__all__ = ["MODEL_FOLDER", "Volume"]

MODEL_FOLDER = "model"


class Volume:
    """The folder that all is written to.

    Args:
        root: The volume's mount; exists.
        size_limit: Bytes that it may hold, 0: as many as its file system can.
    """

    def __init__(self, root: Path, size_limit: int) -> None:
        self._root = root
        self._size_limit = size_limit
        self.parts = root / "parts"
        self.staging = root / "staging"
        self.model = root / MODEL_FOLDER
        self._record = root / "fetched.json"

    def holds(self, uri: str) -> bool:
        """Whether the model of this URI is there, whole."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(record, dict) and record.get("uri") == uri and self.model.is_dir()

    def prepare(self) -> None:
        """Make room for a fetch; keep what an earlier one has downloaded."""
        self._record.unlink(missing_ok=True)
        for folder in (self.model, self.staging):
            shutil.rmtree(folder, ignore_errors=True)
        self.parts.mkdir(exist_ok=True)
        self.staging.mkdir()

    def free_bytes(self) -> int:
        """What can still be written."""
        found = os.statvfs(self._root)
        free = found.f_bavail * found.f_frsize
        return min(free, self._size_limit - self._used_bytes()) if self._size_limit else free

    def check_room(self, wanted_bytes: int, names: set[str]) -> None:
        """That so many bytes fit beside what is there of these parts; others are removed.

        Raises:
            NoSpace: They do not.
        """
        there = 0
        for path in self.parts.iterdir():
            if path.stem in names:
                there += path.stat().st_size
            else:
                path.unlink()
        missing, free = wanted_bytes - there, self.free_bytes()
        if missing > free:
            limited = self._size_limit and self._size_limit - self._used_bytes() == free
            advice = (
                "raise model.download.sizeLimit"
                if limited
                else "the node's disk is too small, or too full"
            )
            raise NoSpace(
                f"the model has {in_bytes(wanted_bytes)} and the volume has room for "
                f"{in_bytes(there + max(free, 0))}; {advice}"
            )

    def publish(self, uri: str, revision: str) -> None:
        """The staged files are the model."""
        self.staging.rename(self.model)
        draft = self._record.with_suffix(".draft")
        draft.write_text(json.dumps({"uri": uri, "revision": revision}), encoding="utf-8")
        draft.rename(self._record)
        shutil.rmtree(self.parts, ignore_errors=True)

    def _used_bytes(self) -> int:
        """What lies on the volume; a file of several names counts once."""
        found = {
            (status.st_dev, status.st_ino): status.st_size
            for path in self._root.rglob("*")
            if not path.is_dir() and (status := path.lstat())
        }
        return sum(found.values())
