"""The volume for the model, and the rename that publishes the model.

    VOLUME/parts/        partial downloads and verified files
    VOLUME/staging/      the model before it is published
    VOLUME/model/        the model, which is either complete or absent
    VOLUME/fetched.json  the URI of the model, and which of its files it has

The server's container mounts only `model`. An init container may run again in a pod that already
has its model; because of the file, nothing is fetched then.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any, cast

from moorage_runtime.fetch.decide.amounts import in_bytes
from moorage_runtime.fetch.decide.failures import NoSpace
from moorage_runtime.fetch.decide.selection import Selection

__all__ = ["MODEL_FOLDER", "Volume"]

MODEL_FOLDER = "model"


class Volume:
    """The folder of the volume.

    Args:
        root: Existing mount point of the volume.
        size_limit: Maximum size in bytes; 0 is the size of its file system.
    """

    def __init__(self, root: Path, size_limit: int) -> None:
        self._root = root
        self._size_limit = size_limit
        self.parts = root / "parts"
        self.staging = root / "staging"
        self.model = root / MODEL_FOLDER
        self._record = root / "fetched.json"

    def holds(self, uri: str, selection: Selection) -> bool:
        """Whether these files of the model of this URI are present and complete."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        wanted = _record(uri, selection)
        if not isinstance(record, dict):
            return False
        found = cast("dict[str, Any]", record)
        return all(found.get(key) == wanted[key] for key in wanted) and self.model.is_dir()

    def prepare(self) -> None:
        """Prepare a fetch, and keep earlier downloads."""
        self._record.unlink(missing_ok=True)
        for folder in (self.model, self.staging):
            shutil.rmtree(folder, ignore_errors=True)
        self.parts.mkdir(exist_ok=True)
        self.staging.mkdir()

    def free_bytes(self) -> int:
        """The free space in bytes."""
        found = os.statvfs(self._root)
        free = found.f_bavail * found.f_frsize
        return min(free, self._size_limit - self._used_bytes()) if self._size_limit else free

    def check_room(self, wanted_bytes: int, names: set[str]) -> None:
        """Check that there is room for the files beside their existing parts; other parts are
        removed.

        Raises:
            NoSpace: There is not enough room.
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
                else "use a node with a larger or emptier disk"
            )
            raise NoSpace(
                f"the model has {in_bytes(wanted_bytes)}, but the volume has room for "
                f"{in_bytes(there + max(free, 0))}: {advice}"
            )

    def publish(self, uri: str, selection: Selection, revision: str) -> None:
        """Publish the staged files as the model."""
        self.staging.rename(self.model)
        draft = self._record.with_suffix(".draft")
        record = {**_record(uri, selection), "revision": revision}
        draft.write_text(json.dumps(record), encoding="utf-8")
        draft.rename(self._record)
        shutil.rmtree(self.parts, ignore_errors=True)

    def _used_bytes(self) -> int:
        """The used space of the volume; a file with several names counts once."""
        found = {
            (status.st_dev, status.st_ino): status.st_size
            for path in self._root.rglob("*")
            if not path.is_dir() and (status := path.lstat())
        }
        return sum(found.values())


def _record(uri: str, selection: Selection) -> dict[str, Any]:
    """What identifies the model on the volume."""
    return {"uri": uri, "include": list(selection.include), "exclude": list(selection.exclude)}
