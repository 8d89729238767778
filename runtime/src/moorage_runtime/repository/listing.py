"""Lists a repository's disk as the value that ``layout`` decides upon; blocks."""

import os
import pathlib
from typing import Final

from moorage_runtime.errors import InvalidConfig
from moorage_runtime.repository import layout
from moorage_runtime.repository.layout import Folder, ModelLayout

# repository / model / version
_DEPTH: Final = 3


def read(root: pathlib.Path, model_name: str | None) -> tuple[ModelLayout, ...]:
    """The models of a repository, or of a path that is one model or one file.

    Raises:
        InvalidConfig: The path does not exist or cannot be read.
    """
    try:
        if root.is_file():
            return (layout.single_file(root.name, model_name),)
        return layout.discover(_folder(root, _DEPTH), root.resolve().name, model_name)
    except OSError as error:
        raise InvalidConfig(f"cannot read the model repository: {error.strerror}") from error


def fingerprint(path: pathlib.Path) -> str:
    """Changes when the file, or its model.yaml, changes; "" when there is none."""
    parts: list[str] = []
    for file in (path, path.parent / layout.CONFIG_FILE, path.parent.parent / layout.CONFIG_FILE):
        try:
            stat = file.stat()
        except OSError:
            continue
        parts.append(f"{file.name}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}")
    return "|".join(parts)


def _folder(path: pathlib.Path, depth: int) -> Folder:
    files: set[str] = set()
    folders: dict[str, Folder] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            # followed links: Kubernetes mounts ConfigMaps and Secrets as links
            if entry.is_dir():
                if depth:
                    folders[entry.name] = _folder(pathlib.Path(entry.path), depth - 1)
            elif entry.is_file():
                files.add(entry.name)
    return Folder(frozenset(files), folders)
