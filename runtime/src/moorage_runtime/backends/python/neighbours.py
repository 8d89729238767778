"""Modules beside model.py that it imports by bare names, after it has extended ``sys.path``.

forget -> import of model.py -> check ... close -> forget

Python has one module for a name. The next content of a model would therefore get the modules of
the last one, and a second model with another ``utils.py`` would get that of the first.
"""

import os
import pathlib
import sys
from types import FunctionType, ModuleType

from moorage_runtime.values.errors import InvalidConfig

# Those of all models that this process has imported.
_folders: set[str] = set()


def forget(path: pathlib.Path) -> None:
    """Forget the modules in the folder of a model, before its import and when it is closed."""
    own = _folders_of(path)
    _folders.update(own)
    # a list of the items would fail if another thread imported meanwhile
    for name, module in sys.modules.copy().items():
        if "." not in name and _folder(_file(module)) in own:
            for each in [one for one in list(sys.modules) if one.startswith(f"{name}.")]:
                sys.modules.pop(each, None)
            sys.modules.pop(name, None)


def check(path: pathlib.Path, model: ModuleType) -> None:
    """Check that model.py, once imported, uses none of another model's modules for its own.

    Raises:
        InvalidConfig: It does.
    """
    own = _folders_of(path)
    for value in list(vars(model).values()):
        used = value
        if isinstance(value, type | FunctionType):
            used = sys.modules.get(value.__module__)
        file = _file(used)
        folder = _folder(file)
        if folder not in _folders - own:
            continue
        beside = path.parent / os.path.relpath(file, folder)
        if beside.is_file() and _content(beside) != _content(pathlib.Path(file)):
            name = used.__name__ if isinstance(used, ModuleType) else ""
            raise InvalidConfig(
                f"{path.name} imports '{name}', which is that of another model already: import "
                f"the file beside {path.name} relatively (from . import {name})"
            )


def _folders_of(path: pathlib.Path) -> set[str]:
    """The folder of model.py, also where its links end, as in a mounted ConfigMap."""
    return {str(path.parent), str(pathlib.Path(os.path.realpath(path)).parent)}


def _file(module: object) -> str:
    # not the attribute, which a module that loads itself on demand may compute
    file = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
    return file if isinstance(file, str) else ""


def _folder(file: str) -> str:
    """The folder with the file of a module, or with the folder of a package."""
    folder, name = os.path.split(file)
    return os.path.split(folder)[0] if name == "__init__.py" else folder


def _content(path: pathlib.Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
