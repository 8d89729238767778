"""Interprets a model repository by the names of its files.

    loader lists the disk -> Folder -> discover() -> ModelLayout per model -> loader loads

A file, the folder of one model and a whole repository are supported:

    model.onnx                          a single model file
    digits/model.onnx                   the folder of one model; the version is "1"
    digits/1/model.onnx                 the folder of one model with a folder per version
    models/digits/1/model.onnx          a repository: a folder per model
    tokenizer.json, onnx/model.onnx     the folder of one encoder, as on the Hugging Face Hub; a
                                        variant such as onnx/model_q4.onnx counts if it is the only
                                        graph

Entries that start with a dot are ignored: Kubernetes mounts ConfigMaps with ``..data`` beside the
files. Folders of a repository without a model file or a version are skipped, and so is
``lost+found`` of an ext4 volume. Pure: the listing is a value.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

# Version of a model whose files are in its own folder.
UNVERSIONED: Final = "1"
CONFIG_FILE: Final = "model.yaml"
# File name or suffix -> format. A fixed name takes precedence over other files in the folder, so
# that a Python class may have a .joblib beside it, and a SavedModel its fingerprint.pb.
_FIXED_NAMES: Final = {"model.onnx": "onnx", "model.py": "python", "saved_model.pb": "openvino"}
# A folder that MLflow logged; this file lists the files of the other formats in it.
_MLFLOW: Final = "MLmodel"
_SUFFIXES: Final = {
    ".onnx": "onnx",
    ".joblib": "sklearn",
    ".pkl": "sklearn",
    ".pickle": "sklearn",
    ".skops": "sklearn",
    ".ubj": "xgboost",
    ".cbm": "catboost",
    ".xml": "openvino",
    ".pb": "openvino",
    ".pt": "torchscript",
}
# Such files are common beside a model, so in a folder only this name counts, and only alone.
_WEAK_NAMES: Final = {"model.json": "xgboost", "model.txt": "lightgbm"}
_WEAK_SUFFIXES: Final = {".json": "xgboost", ".txt": "lightgbm"}
EXPECTED: Final = (
    f"{', '.join((_MLFLOW, *_FIXED_NAMES, *_WEAK_NAMES))}, or a single file that ends with "
    f"{', '.join(_SUFFIXES)}"
)
# An encoder as on the Hugging Face Hub: these files, and one of the graphs.
_ENCODER_FILES: Final = frozenset({"config.json", "tokenizer.json"})
_GRAPH: Final = "model.onnx"
_GRAPH_FOLDER: Final = "onnx"
# Such as model_quantized.onnx. If there are several, nothing says which one to take.
_GRAPH_VARIANT: Final = re.compile(r"model_.+\.onnx")
ENCODER: Final = "text"
# The root of an ext4 file system contains this folder, which only root can read.
_LOST_AND_FOUND: Final = "lost+found"
# Preferred stem if a folder contains several files without a fixed name.
_STEM: Final = "model"


# Only compared, never interpreted.
Stamp = tuple[object, ...] | None


class Folder(msgspec.Struct, frozen=True):
    """A listing, with the depth of a repository.

    Attributes:
        files: Names of the regular files.
        folders: Name to listing of the folders.
        odd: Name to description of the other entries, such as "a FIFO".
        problem: Why the folder cannot be read, "" if it can.
        stamp: Differs if anything in the folder except model.yaml differs.
        config_stamp: Differs if model.yaml differs.
    """

    files: frozenset[str]
    folders: Mapping[str, "Folder"]
    odd: Mapping[str, str] = MappingProxyType({})
    problem: str = ""
    stamp: Stamp = None
    config_stamp: Stamp = None


class VersionLayout(msgspec.Struct, frozen=True):
    """One version of a model.

    Attributes:
        version: The version's name.
        folder: Path of its folder relative to the model's, "" for the model's own folder.
        file: The model file's name within that folder, "" without one.
        format: "onnx", "python", "sklearn", "xgboost", "lightgbm", "catboost", "mlflow",
            "openvino", "torchscript" or "text", "" without a file.
        problem: Why the version cannot be loaded, "" if it can.
        stamp: Differs if a file of the version differs.
    """

    version: str
    folder: str
    file: str
    format: str
    problem: str = ""
    stamp: Stamp = None


class ModelLayout(msgspec.Struct, frozen=True):
    """One model.

    Attributes:
        name: The model's name.
        folder: Path of its folder relative to the repository, "" for the repository itself.
        versions: Its versions, ascending; empty if the folder cannot be read.
        has_config: Its folder contains a model.yaml.
        problem: Why the whole model cannot be loaded, "" if it can.
        stamp: Differs if anything in the model's folder differs.
        config_stamp: Differs if its model.yaml differs.
    """

    name: str
    folder: str
    versions: tuple[VersionLayout, ...]
    has_config: bool
    problem: str = ""
    stamp: Stamp = None
    config_stamp: Stamp = None


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key: digit runs compare as numbers, so that "v10" follows "v9" (C-019)."""
    runs = re.findall(r"\d+|\D+", version)
    return tuple((0, int(run), run) if run[0] in "0123456789" else (1, 0, run) for run in runs)


def discover(root: Folder, root_name: str, model_name: str | None) -> tuple[ModelLayout, ...]:
    """The models of a repository, sorted by name.

    Args:
        root: Listing of the repository.
        root_name: Name of the folder, which is the model's name if the folder is one model.
        model_name: The configured name, which makes the whole folder one model.
    """
    if model_name is not None or _is_one_model(root):
        return (_model(root, model_name or root_name, ""),)
    return tuple(
        _model(root.folders[name], name, name)
        for name in sorted(root.folders)
        if _counts(name) and _is_model(root.folders[name])
    )


def skipped(root: Folder, model_name: str | None) -> tuple[str, ...]:
    """The entries of a repository that are not models, sorted, each with the reason."""
    if model_name is not None or _is_one_model(root):
        return ()
    reasons = dict.fromkeys(root.files, "a file") | dict(root.odd)
    for name, folder in root.folders.items():
        if not _counts(name):
            reasons[name] = "a reserved name"
        elif not _is_model(folder):
            reasons[name] = "no model file, model.yaml or version folder in it"
    return tuple(f"{name} ({reasons[name]})" for name in sorted(reasons))


def single_file(file: str, model_name: str | None) -> ModelLayout:
    """The model for a path that is a file; its name is the configured one or the file's stem."""
    stem, _, _ = file.rpartition(".")
    suffix = file[len(stem) :]
    version = VersionLayout(
        UNVERSIONED, "", file, format_of(file) or _WEAK_SUFFIXES.get(suffix, "")
    )
    if not version.format:
        version = msgspec.structs.replace(
            version, file="", problem=f"{file} is not a model file: must be {EXPECTED}"
        )
    return ModelLayout(model_name or stem or file, "", (version,), has_config=False)


def format_of(file: str) -> str:
    """The format of a file by its name, "" for an unknown one."""
    named = {_MLFLOW: "mlflow"} | _FIXED_NAMES | _WEAK_NAMES
    if file in named:
        return named[file]
    return next((form for suffix, form in _SUFFIXES.items() if file.endswith(suffix)), "")


def _is_one_model(root: Folder) -> bool:
    """A model file or model.yaml in the folder itself, or only numbered versions."""
    if (
        CONFIG_FILE in root.files
        or _encoder(root)
        or any(format_of(name) for name in root.files if _counts(name))
    ):
        return True
    folders = [name for name in root.folders if _counts(name)]
    return bool(folders) and all(
        name.isdecimal() and _model_files(root.folders[name]) for name in folders
    )


def _is_model(folder: Folder) -> bool:
    """Whether the folder appears to be intended as a model."""
    if folder.problem or CONFIG_FILE in {*folder.files, *folder.folders, *folder.odd}:
        return True
    if _model_files(folder) or any(format_of(name) for name in folder.odd if _counts(name)):
        return True
    return any(
        name.isdecimal() or _model_files(child)
        for name, child in folder.folders.items()
        if _counts(name)
    )


def _model(folder: Folder, name: str, path: str) -> ModelLayout:
    return ModelLayout(
        name,
        path,
        () if folder.problem else _versions(folder, name),
        CONFIG_FILE in folder.files,
        folder.problem or _config_problem(folder),
        (folder.stamp, folder.config_stamp),
        folder.config_stamp,
    )


def _config_problem(folder: Folder) -> str:
    what = "a folder" if CONFIG_FILE in folder.folders else folder.odd.get(CONFIG_FILE)
    return f"{CONFIG_FILE} is {what}: must be a file" if what else ""


def _versions(folder: Folder, name: str) -> tuple[VersionLayout, ...]:
    if _model_files(folder):
        return (_version(folder, UNVERSIONED, ""),)
    names = [
        child
        for child, listing in folder.folders.items()
        if _counts(child)
        and child != CONFIG_FILE
        and (listing.files or listing.problem or child.isdecimal())
    ]
    if not names:
        problem = (
            f"no model file in the folder of model '{name}': must contain {EXPECTED}, or a folder "
            f"per version with one of these{_odd_files(folder)}"
        )
        return (VersionLayout(UNVERSIONED, "", "", "", problem, folder.stamp),)
    versions = tuple(
        _version(folder.folders[child], child, child) for child in sorted(names, key=version_key)
    )
    # Folders without a model file (assets, notes) are not versions if others have one.
    real = tuple(version for version in versions if version.file or version.version.isdecimal())
    return real or versions


def _version(folder: Folder, version: str, path: str) -> VersionLayout:
    if graph := _encoder(folder):
        return VersionLayout(version, path, graph, ENCODER, stamp=folder.stamp)
    found = _strongest(_model_files(folder))
    fixed = [name for name in _FIXED_NAMES if name in found]
    named = [name for name in found if name.rpartition(".")[0] == _STEM]
    chosen = next((names[0] for names in (fixed, named, found) if len(names) == 1), "")
    if chosen and len(fixed) < 2:
        return VersionLayout(version, path, chosen, format_of(chosen), stamp=folder.stamp)
    if folder.problem:
        problem = f"version '{version}': {folder.problem}"
    elif found:
        problem = f"version '{version}' has several model files ({', '.join(found)}): keep one"
    else:
        problem = (
            f"version '{version}' contains no model file: must contain "
            f"{EXPECTED}{_odd_files(folder)}"
        )
    return VersionLayout(version, path, "", "", problem, folder.stamp)


def _strongest(found: list[str]) -> list[str]:
    """The candidates, without those that another one outranks by its name."""
    if _MLFLOW in found:
        return [_MLFLOW]
    return [name for name in found if name not in _WEAK_NAMES] or found


def _odd_files(folder: Folder) -> str:
    """Entries that are named like a model file but are not files."""
    odd = [f"{name} is {what}" for name, what in sorted(folder.odd.items()) if format_of(name)]
    return f"; {', '.join(odd)}" if odd else ""


def _encoder(folder: Folder) -> str:
    """The graph of an encoder, relative to its folder; "" for any other model."""
    # a Python class may use such files itself
    others = {_MLFLOW, *_FIXED_NAMES} - {_GRAPH}
    if not folder.files >= _ENCODER_FILES or folder.files & others:
        return ""
    below = folder.folders.get(_GRAPH_FOLDER)
    places = (
        ("", folder.files),
        (f"{_GRAPH_FOLDER}/", below.files if below else frozenset[str]()),
    )
    for place, files in places:
        if _GRAPH in files:
            return f"{place}{_GRAPH}"
    variants = [f"{place}{name}" for place, files in places for name in files if _is_variant(name)]
    return variants[0] if len(variants) == 1 else ""


def _is_variant(name: str) -> bool:
    return _GRAPH_VARIANT.fullmatch(name) is not None


def _model_files(folder: Folder) -> list[str]:
    if graph := _encoder(folder):
        return [graph]
    return sorted(name for name in folder.files if _counts(name) and format_of(name))


def _counts(name: str) -> bool:
    return not name.startswith((".", "__")) and name != _LOST_AND_FOUND
