"""Volumes with the content of Secrets, written and updated as a kubelet does.

Source: Kubernetes, pkg/volume/util, AtomicWriter: files are links through `..data`, which is
replaced at once.
"""

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path


class SecretVolumes:
    """Secrets by name, and their volumes below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data: dict[str, Mapping[str, str]] = {}

    def put(self, name: str, data: Mapping[str, str]) -> None:
        """Change a Secret at the API server."""
        self.data[name] = data

    def sync(self, name: str) -> None:
        """Update the files of a volume like a kubelet: one symbolic link changes."""
        volume = self.folder / name
        volume.mkdir(exist_ok=True)
        content = volume / f"..{uuid.uuid4().hex}"
        content.mkdir()
        for key, value in self.data[name].items():
            (content / key).write_text(value)
        former = (volume / "..data").resolve()
        link = volume / "..data_tmp"
        link.symlink_to(content.name)
        link.rename(volume / "..data")
        for key in self.data[name]:
            if not (volume / key).is_symlink():
                (volume / key).symlink_to(f"..data/{key}")
        for entry in volume.iterdir():
            if not entry.exists():
                entry.unlink()  # a key that the Secret no longer has
        if former.name != "..data":
            shutil.rmtree(former)
