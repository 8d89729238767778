"""The scikit-learn backend: a fitted estimator, saved with skops, joblib or pickle.

A pickle (joblib's files are pickles) is code: it runs with the permissions of the server, and is
refused unless the server's settings allow it. A skops file is data, unless it contains a type that
skops does not trust, such as a function or a decision tree: it is then refused in the same way.
"""

import logging
import pickle
import re
import struct
from collections.abc import Callable
from typing import Any, Final

import joblib
import skops.io

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.tables.estimator import save_with_same_version, serve_estimator
from moorage_runtime.values.errors import InvalidConfig

log = logging.getLogger(__name__)

_PICKLES: Final = {
    ".joblib": "sklearn_joblib",
    ".pkl": "sklearn_pickle",
    ".pickle": "sklearn_pickle",
}
_SKOPS: Final = ".skops"
# Only describes an array, and is read with numpy's format for arrays without objects.
_HARMLESS: Final = frozenset({"numpy.dtype"})
# How the protocols of pickle report what a module does not have.
_MISSING: Final = re.compile(
    r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>[^']+)'"
    r"|module '(?P<of>[^']+)' has no attribute '(?P<attribute>[^']+)'"
)
# How scikit-learn refuses the decision trees of another version.
_OTHER_TREES: Final = "node array from the pickle has an incompatible dtype"
_HOW_TO_TRUST: Final = (
    "if you trust everyone who can write the model files, set spec.model.trusted: true in the "
    "InferenceModel, or start the server with --allow-pickle=true"
)


class ScikitLearnBackend:
    """Loads estimators."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one estimator, and try it with one row.

        Raises:
            InvalidConfig: The file does not load, is not trusted, contains no estimator, or the
                inputs and outputs of the estimator are unknown.
        """
        return serve_file(source)


def serve_file(source: ModelSource, default: str = "") -> LoadedModel:
    """The estimator in a file, with the method that answers by default; "" for ``predict``.

    Raises:
        InvalidConfig: As ``ScikitLearnBackend.load``, or the estimator lacks the method.
    """
    platform, estimator = read_estimator(source)
    return serve_estimator(source, platform, estimator, default)


def read_estimator(source: ModelSource) -> tuple[str, Any]:
    """The platform, and the object in the file.

    Raises:
        InvalidConfig: The file does not load, or is not trusted.
    """
    path = source.path
    trusted = bool(source.options.get("allow_pickle"))
    if path.suffix in _PICKLES:
        if not trusted:
            raise InvalidConfig(
                f"{path.name} is a pickle, which can run any code with the permissions of the "
                f"server: save the model with skops (model.skops), or, {_HOW_TO_TRUST}"
            )
        return _PICKLES[path.suffix], _attempt(source, lambda: joblib.load(path))
    if path.suffix != _SKOPS:
        raise InvalidConfig(
            f"{path.name} is not a scikit-learn file: must end with {', '.join(_PICKLES)} or "
            f"{_SKOPS}"
        )
    unknown: list[str] = _attempt(source, lambda: skops.io.get_untrusted_types(file=path))
    if not (trusted or _HARMLESS.issuperset(unknown)):
        raise InvalidConfig(
            f"{path.name} contains types that skops does not trust: "
            f"{', '.join(sorted(set(unknown) - _HARMLESS))}; they may "
            f"run code with the permissions of the server: {_HOW_TO_TRUST}"
        )
    return "sklearn_skops", _attempt(source, lambda: skops.io.load(path, trusted=unknown))


def _attempt(source: ModelSource, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except BaseException as error:
        log.exception("the model's file failed to load")
        problem = sentence_of(error).replace(f"{source.path.parent}/", "")
        if lack := _lack(error):
            problem = lack
        elif _OTHER_TREES in str(error):
            problem = f"its trees are of another version: {save_with_same_version('sklearn')}"
        elif source.path.suffix in _PICKLES and _is_damage(error):
            problem = f"it is not a pickle, or is damaged ({problem})"
        raise InvalidConfig(f"{source.path.name} cannot be loaded: {problem}") from error


def _lack(error: BaseException) -> str:
    """What the file refers to that this server does not have, and what to do; "" for others."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        module, what = error.name, f"module '{error.name}'"
    elif isinstance(error, AttributeError):
        missing = _MISSING.match(str(error))
        if missing is None:
            return ""
        # python -m calls its module, which is __main__, by the name of its package
        module = re.sub(r".*\.__main__$", "__main__", missing["module"] or missing["of"])
        what = f"'{missing['name'] or missing['attribute']}' of module '{module}'"
    else:
        return ""
    way_out = (
        save_with_same_version(module)
        or "put it into a package in the image of the server, or write a Python model (model.py)"
    )
    return f"it refers to {what}, which this server does not have: {way_out}"


def _is_damage(error: BaseException) -> bool:
    """Whether reading a pickle ends so in the middle of other bytes, which name no cause."""
    is_unknown_code = isinstance(error, KeyError) and isinstance(error.args[0], int)
    return is_unknown_code or isinstance(error, (EOFError, pickle.UnpicklingError, struct.error))
