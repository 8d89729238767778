"""What a model repository holds, decided from the names of its files alone.

    loader lists the disk -> Folder -> discover() -> ModelLayout per model -> loader loads

Three forms are understood, so that one file, one model's folder and a whole repository all work:

    model.onnx                          a single model file
    digits/model.onnx                   one model's folder; the version is "1"
    digits/1/model.onnx                 one model's folder with a folder per version
    models/digits/1/model.onnx          a repository: a folder per model

Entries that start with a dot are ignored: Kubernetes mounts ConfigMaps with ``..data`` beside the
files. Pure: the listing comes in as a value.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

# Version of a model whose files lie in its folder directly.
UNVERSIONED: Final = "1"
CONFIG_FILE: Final = "model.yaml"
# File name or suffix -> format; a fixed name is preferred over other files in one folder, so that
# a Python class may have a .joblib beside it and a SavedModel its fingerprint.pb.
_FIXED_NAMES: Final = {"model.onnx": "onnx", "model.py": "python", "saved_model.pb": "openvino"}
_SUFFIXES: Final = {
    ".onnx": "onnx",
    ".joblib": "sklearn",
    ".skops": "sklearn",
    ".xml": "openvino",
    ".pb": "openvino",
    ".pt": "torchscript",
}
EXPECTED: Final = (
    f"{', '.join(_FIXED_NAMES)}, or a single file that ends with {', '.join(_SUFFIXES)}"
)
# Among several files of no fixed name, the one of this stem.
_STEM: Final = "model"


class Folder(msgspec.Struct, frozen=True):
    """A listing, as deep as a repository can be.

    Attributes:
        files: Names of the regular files.
        folders: Name to listing of the folders.
    """

    files: frozenset[str]
    folders: Mapping[str, "Folder"]


class VersionLayout(msgspec.Struct, frozen=True):
    """One version of a model.

    Attributes:
        version: The version's name.
        folder: Path of its folder relative to the model's, "" for the model's own folder.
        file: The model file's name within that folder, "" when there is none.
        format: "onnx", "python", "sklearn", "openvino" or "torchscript", "" without a file.
        problem: Why the version cannot be loaded, "" when it can.
    """

    version: str
    folder: str
    file: str
    format: str
    problem: str = ""


class ModelLayout(msgspec.Struct, frozen=True):
    """One model.

    Attributes:
        name: The model's name.
        folder: Path of its folder relative to the repository, "" for the repository itself.
        versions: Its versions, ascending.
        has_config: A model.yaml lies in its folder.
    """

    name: str
    folder: str
    versions: tuple[VersionLayout, ...]
    has_config: bool


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key: digit runs compare as numbers, so that "v10" follows "v9" (C-019)."""
    runs = re.findall(r"\d+|\D+", version)
    return tuple((0, int(run), run) if run[0] in "0123456789" else (1, 0, run) for run in runs)


def discover(root: Folder, root_name: str, model_name: str | None) -> tuple[ModelLayout, ...]:
    """The models of a repository, sorted by name.

    Args:
        root: Listing of the repository.
        root_name: Name of the folder, the model's name where the folder is one model.
        model_name: The configured name; makes the whole folder this one model.
    """
    if model_name is not None or _is_one_model(root):
        return (_model(root, model_name or root_name, ""),)
    folders = {name: root.folders[name] for name in sorted(root.folders) if _counts(name)}
    return tuple(_model(folder, name, name) for name, folder in folders.items())


def single_file(file: str, model_name: str | None) -> ModelLayout:
    """The model of a path that is a file; its name is the configured one or the file's stem."""
    stem, _, _ = file.rpartition(".")
    version = VersionLayout(UNVERSIONED, "", file, format_of(file))
    if not version.format:
        version = msgspec.structs.replace(
            version, file="", problem=f"{file} is not a model file, expected {EXPECTED}"
        )
    return ModelLayout(model_name or stem or file, "", (version,), has_config=False)


def format_of(file: str) -> str:
    """The format of a file by its name, "" when it is none."""
    if file in _FIXED_NAMES:
        return _FIXED_NAMES[file]
    return next((form for suffix, form in _SUFFIXES.items() if file.endswith(suffix)), "")


def _is_one_model(root: Folder) -> bool:
    """A model file or model.yaml directly inside, or nothing but numbered versions."""
    if CONFIG_FILE in root.files or any(format_of(name) for name in root.files if _counts(name)):
        return True
    folders = [name for name in root.folders if _counts(name)]
    return bool(folders) and all(
        name.isdecimal() and _model_files(root.folders[name]) for name in folders
    )


def _model(folder: Folder, name: str, path: str) -> ModelLayout:
    has_config = CONFIG_FILE in folder.files
    if _model_files(folder):
        return ModelLayout(name, path, (_version(folder, UNVERSIONED, ""),), has_config)
    names = [
        child
        for child, listing in folder.folders.items()
        if _counts(child) and (listing.files or child.isdecimal())
    ]
    if not names:
        nothing = VersionLayout(
            UNVERSIONED,
            "",
            "",
            "",
            problem=f"no model file in the folder of model '{name}': expected {EXPECTED}, "
            "or a folder per version that holds one",
        )
        return ModelLayout(name, path, (nothing,), has_config)
    versions = tuple(
        _version(folder.folders[child], child, child) for child in sorted(names, key=version_key)
    )
    # folders without a model file (assets, notes) are no versions where others are
    real = tuple(version for version in versions if version.file or version.version.isdecimal())
    return ModelLayout(name, path, real or versions, has_config)


def _version(folder: Folder, version: str, path: str) -> VersionLayout:
    found = _model_files(folder)
    fixed = [name for name in _FIXED_NAMES if name in found]
    named = [name for name in found if name.rpartition(".")[0] == _STEM]
    chosen = next((names[0] for names in (fixed, named, found) if len(names) == 1), "")
    if chosen and len(fixed) < 2:
        return VersionLayout(version, path, chosen, format_of(chosen))
    if found:
        problem = f"version '{version}' has several model files ({', '.join(found)}): keep one"
    else:
        problem = f"version '{version}' holds no model file: expected {EXPECTED}"
    return VersionLayout(version, path, "", "", problem)


def _model_files(folder: Folder) -> list[str]:
    return sorted(
        name
        for name in folder.files
        if _counts(name) and (name in _FIXED_NAMES or name.endswith(tuple(_SUFFIXES)))
    )


def _counts(name: str) -> bool:
    return not name.startswith((".", "__"))
