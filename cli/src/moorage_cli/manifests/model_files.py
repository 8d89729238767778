"""Which models a file or folder holds, by the names of its files; pure.

paths of the files --> FoundModel per model --> `moorage run`, `moorage deploy`

The bundled runtime decides in the end. The tool shares no code with it, so tests/contract compares
what both find.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = [
    "EXTRAS",
    "FIXED_NAMES",
    "FoundModel",
    "find_in_folder",
    "find_of_file",
    "format_of",
    "is_pickle",
]

# A fixed name takes precedence over the other files of its folder, and MLFLOW over all of them.
MLFLOW = "MLmodel"
FIXED_NAMES = {"model.onnx": "onnx", "model.py": "python", "saved_model.pb": "openvino"}
SUFFIXES = {
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
# Such files are common beside a model, so in a folder only these names count, and only alone.
WEAK_NAMES = {"model.json": "xgboost", "model.txt": "lightgbm"}
WEAK_SUFFIXES = {".json": "xgboost", ".txt": "lightgbm"}
PICKLES = (".joblib", ".pkl", ".pickle")
ENCODER_FILES = frozenset({"config.json", "tokenizer.json"})
ENCODER_VARIANT = re.compile(r"model_.+\.onnx")
ENCODER = "text"
CONFIG = "model.yaml"
EXTRAS: Mapping[str, str] = {
    "sklearn": "tables",
    "xgboost": "tables",
    "lightgbm": "tables",
    "catboost": "tables",
    "mlflow": "tables",
    "openvino": "openvino",
    "torchscript": "torchscript",
    "text": "text",
}
"""The extra of moorage-runtime that a format needs."""
EXPECTED = (
    f"{', '.join((MLFLOW, *FIXED_NAMES, *WEAK_NAMES))}, or a single file that ends with "
    f"{', '.join(SUFFIXES)}"
)


@dataclass(frozen=True, slots=True)
class FoundModel:
    """One model.

    Args:
        name: Its name, unless the user chooses another one.
        format: Its format; empty if no file decides it.
        file: Path of its model file; empty if there is none.
        problem: Why it cannot be served, as a sentence without a full stop; empty if it can.
    """

    name: str
    format: str
    file: str
    problem: str = ""


@dataclass(slots=True)
class _Folder:
    files: set[str] = field(default_factory=set[str])
    folders: dict[str, "_Folder"] = field(default_factory=dict[str, "_Folder"])


def find_of_file(name: str) -> FoundModel:
    """The model of a path that is a file."""
    stem, _, _ = name.rpartition(".")
    found = format_of(name) or WEAK_SUFFIXES.get(name[len(stem) :], "")
    problem = "" if found else f"{name} is not a model file: must be {EXPECTED}"
    return FoundModel(stem or name, found, name if found else "", problem)


def find_in_folder(files: Iterable[str], name: str, *, single: bool = False) -> list[FoundModel]:
    """The models of a folder.

    Args:
        files: Paths of the files below the folder, with slashes.
        name: Name of the folder, which is the model's name if the folder is one model.
        single: The folder is one model, whatever it contains.
    """
    root = _tree(files)
    if single or _is_one_model(root):
        return [_model(root, name, "")]
    found = [
        _model(child, each, f"{each}/")
        for each, child in sorted(root.folders.items())
        if _looks_like_model(child)
    ]
    return found or [_model(root, name, "")]


def format_of(file: str) -> str:
    """The format of a file in a folder by its name, empty for an unknown one."""
    named = {MLFLOW: "mlflow", **FIXED_NAMES, **WEAK_NAMES}
    if file in named:
        return named[file]
    return next((form for suffix, form in SUFFIXES.items() if file.endswith(suffix)), "")


def is_pickle(file: str) -> bool:
    """Whether loading the file can run any code."""
    return file.endswith(PICKLES)


def _tree(files: Iterable[str]) -> _Folder:
    root = _Folder()
    for path in files:
        *parents, name = path.split("/")
        if not all(_counts(part) for part in (*parents, name)):
            continue
        folder = root
        for parent in parents:
            folder = folder.folders.setdefault(parent, _Folder())
        folder.files.add(name)
    return root


def _counts(name: str) -> bool:
    return not name.startswith((".", "__")) and name != "lost+found"


def _is_one_model(root: _Folder) -> bool:
    if CONFIG in root.files or _candidates(root):
        return True
    return bool(root.folders) and all(
        name.isdecimal() and _candidates(child) for name, child in root.folders.items()
    )


def _looks_like_model(folder: _Folder) -> bool:
    return (
        CONFIG in folder.files
        or bool(_candidates(folder))
        or any(name.isdecimal() or _candidates(child) for name, child in folder.folders.items())
    )


def _model(folder: _Folder, name: str, path: str) -> FoundModel:
    if _candidates(folder):
        return _chosen(folder, name, path)
    versions = [each for each, child in folder.folders.items() if _candidates(child)]
    if versions:
        last = max(versions, key=lambda each: (each.isdecimal(), each.zfill(20)))
        return _chosen(folder.folders[last], name, f"{path}{last}/")
    problem = f"{name} contains no model file: must contain {EXPECTED}, or a folder per version"
    return FoundModel(name, "", "", problem)


def _chosen(folder: _Folder, name: str, path: str) -> FoundModel:
    """The model of a folder with at least one candidate."""
    if graph := _encoder(folder):
        return FoundModel(name, ENCODER, f"{path}{graph}")
    found = _candidates(folder)
    if MLFLOW in found:
        found = [MLFLOW]
    found = [each for each in found if each not in WEAK_NAMES] or found
    fixed = [each for each in found if each in FIXED_NAMES]
    named = [each for each in found if each.rpartition(".")[0] == "model"]
    chosen = next((each[0] for each in (fixed, named, found) if len(each) == 1), "")
    if not chosen or len(fixed) > 1:
        problem = f"{path or name} has several model files ({', '.join(found)}): keep one"
        return FoundModel(name, "", "", problem)
    return FoundModel(name, format_of(chosen), f"{path}{chosen}")


def _candidates(folder: _Folder) -> list[str]:
    if graph := _encoder(folder):
        return [graph]
    return sorted(name for name in folder.files if format_of(name))


def _encoder(folder: _Folder) -> str:
    """The graph of an encoder in the layout of the Hugging Face Hub; empty for other models."""
    others = {MLFLOW, *FIXED_NAMES} - {"model.onnx"}
    if not folder.files >= ENCODER_FILES or folder.files & others:
        return ""
    below = folder.folders.get("onnx")
    places = (("", folder.files), ("onnx/", below.files if below else set[str]()))
    for place, files in places:
        if "model.onnx" in files:
            return f"{place}model.onnx"
    variants = [
        f"{place}{name}"
        for place, files in places
        for name in files
        if ENCODER_VARIANT.fullmatch(name)
    ]
    return variants[0] if len(variants) == 1 else ""
