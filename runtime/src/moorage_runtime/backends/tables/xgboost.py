"""The XGBoost backend: a booster, saved as JSON or UBJSON.

The output ``predict`` is what ``Booster.predict`` returns, so the objective decides what it is: a
probability for ``binary:logistic``, one per class for ``multi:softprob``, otherwise a value or a
class. NaN is a missing value. A file that scikit-learn's interface of XGBoost saved after early
stopping is used up to its best iteration, as that interface does.
"""

import importlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.tables import layout, ubjson, xgboost_trees
from moorage_runtime.backends.tables.estimator import serve_estimator
from moorage_runtime.backends.tables.layout import Features
from moorage_runtime.backends.tables.model import Answer, TableModel, tried_outputs
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.tensors import Datatype, TensorSpec

# Any, because type checks run without the libraries of this extra.
library: Any = importlib.import_module("xgboost")

PREDICT: Final = "predict"
_PLATFORMS: Final = {".json": "xgboost_json", ".ubj": "xgboost_ubj"}
# Its errors begin with the time and a file of its source: "[09:16:08] /src/data.cc:1196: ".
_ORIGIN: Final = re.compile(r"^\[[\d:]+\] \S+:\d+: (Check failed: [^:]*: )?")
_CATEGORICAL: Final = "c"
# After "{", UBJSON has the type of a length; JSON has white space or a quotation mark.
_UBJSON_STARTS: Final = (b"i", b"U", b"I", b"l", b"L")


class XgboostBackend:
    """Loads boosters."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one booster, and try it with one row.

        Raises:
            InvalidConfig: The file is not a model of XGBoost, or model.yaml contradicts it.
        """
        platform = _PLATFORMS.get(source.path.suffix)
        if platform is None:
            raise InvalidConfig(
                f"{source.path.name} is not an XGBoost file: must end with "
                f"{' or '.join(_PLATFORMS)}"
            )
        return serve_booster(source, platform)


def serve_booster(source: ModelSource, platform: str) -> LoadedModel:
    """A file with any name as a booster.

    Raises:
        InvalidConfig: The file is not a model of XGBoost, or model.yaml contradicts it.
    """
    booster = read_booster(source)
    try:
        features = _features(booster)
    except UnicodeDecodeError as error:
        raise InvalidConfig(
            f"{source.path.name} has categories that are not ASCII text, which XGBoost damages "
            "when it saves a model that was trained with pandas: rename them, or use numbers, and "
            "train again"
        ) from error
    chosen = layout.chosen(source, features)
    answer = _answer(booster)
    outputs = tried_outputs(source, chosen, answer, [PREDICT])
    return TableModel(platform, chosen, outputs, answer)


def serve_wrapped(source: ModelSource, kind: str) -> LoadedModel:
    """A file that scikit-learn's interface saved, as an estimator of that interface.

    Args:
        source: The file.
        kind: The class, such as ``XGBClassifier``.

    Raises:
        InvalidConfig: The file is not a model of XGBoost, or the class is unknown.
    """
    made: Any = getattr(library, kind, None)
    if made is None or not kind.startswith("XGB"):
        raise InvalidConfig(f"{source.path.name}: XGBoost has no class '{kind}'")
    booster = read_booster(source)
    estimator: Any = made(n_jobs=source.threads)
    estimator.load_model(bytearray(booster.save_raw("ubj")))
    return serve_estimator(source, "xgboost_model", estimator)


def read_booster(source: ModelSource) -> Any:
    """The booster of a file, limited to the threads of this process.

    Raises:
        InvalidConfig: The file is not a model of XGBoost.
    """
    try:
        content = source.path.read_bytes()
        _check(content)
        booster = library.Booster(model_file=bytearray(content))
        booster.set_param({"nthread": source.threads})
    except BaseException as error:
        problem = str(error).partition("\n")[0].replace(f"{source.path.parent}/", "")
        raise InvalidConfig(
            f"{source.path.name} is not a valid XGBoost model: "
            f"{_ORIGIN.sub('', problem) or sentence_of(error)}"
        ) from error
    return booster


def _check(content: bytes) -> None:
    """Refuse a file with which XGBoost would end the process.

    Raises:
        ValueError: It is neither JSON nor UBJSON, is incomplete, or its trees are none.
    """
    if len(content) < 2 or not content.startswith(b"{"):
        raise ValueError(
            "it is neither JSON nor UBJSON: if it has the older binary format, save it again with "
            "save_model('model.json') in the version of XGBoost that wrote it"
        )
    is_ubjson = content[1:2] in _UBJSON_STARTS
    xgboost_trees.check(ubjson.decode(content) if is_ubjson else json.loads(content))


def _features(booster: Any) -> Features:
    """Its columns; those with categories of text are inputs of their own."""
    count = int(booster.num_features())
    names = tuple(map(str, booster.feature_names or ()))
    kinds: Sequence[str] = booster.feature_types or ()
    kept = _categories(booster) if _CATEGORICAL in kinds else []
    if not any(kept):
        return Features(count, names, datatype=Datatype.FP32)
    categories = {
        name: values for name, values in zip(names, kept, strict=False) if values is not None
    }
    specs = tuple(_column(name, categories.get(name)) for name in names)
    examples = {name: values[0] for name, values in categories.items() if values}
    return Features(count, names, specs, Datatype.FP32, categories, examples)


def _column(name: str, categories: Sequence[Any] | None) -> TensorSpec:
    if not categories:
        return TensorSpec(name, Datatype.FP32, (-1,), any_number=True)
    if isinstance(categories[0], str):
        return TensorSpec(name, Datatype.BYTES, (-1,))
    return TensorSpec(name, Datatype.INT64, (-1,), any_number=True)


def _categories(booster: Any) -> list[list[Any] | None]:
    """The categories of each column in the order of their codes; None for numbers.

    Source: XGBoost's JSON schema of models, ``gradient_booster.model.cats``. Text is kept as
    offsets into bytes, numbers as a list.

    Raises:
        UnicodeDecodeError: Text is not ASCII. XGBoost up to 3.2 counts characters for the
            offsets, so names of pandas are cut at wrong places (dmlc/xgboost#12371), and a cut
            name can be valid text.
    """
    document: Any = json.loads(bytes(booster.save_raw("json")))
    model: Any = document["learner"]["gradient_booster"]
    model = model.get("gbtree", model).get("model", {})
    return [_decoded(column) for column in model.get("cats", {}).get("enc", [])]


def _decoded(column: Mapping[str, Any]) -> list[Any] | None:
    values: list[int] = column.get("values", [])
    if "offsets" not in column:
        return values or None
    offsets: list[int] = column["offsets"]
    # bytes are written as signed numbers
    data = bytes(value % 256 for value in values)
    return [data[start:end].decode("ascii") for start, end in pairwise(offsets)] or None


def _answer(booster: Any) -> Answer:
    rounds = (0, _best_iteration(booster) + 1)
    is_plain = _kind(booster) == "gbtree"
    # other boosters keep state between calls
    lock = threading.Lock()

    def answer(table: Any, wanted: Sequence[str]) -> Mapping[str, Any]:
        del wanted
        if not is_plain:
            return {PREDICT: _locked(booster, lock, table, rounds)}
        # the columns are in the order of the file, so their names need no check
        value = booster.inplace_predict(table, iteration_range=rounds, validate_features=False)
        return {PREDICT: value}

    return answer


def _best_iteration(booster: Any) -> int:
    """The last iteration that scikit-learn's interface would use, -1 for all."""
    attributes: dict[str, str] = booster.attributes()
    best = attributes.get("best_iteration", "")
    return int(best) if "scikit_learn" in attributes and best.isdecimal() else -1


def _kind(booster: Any) -> str:
    """One of "gbtree", "dart" and "gblinear"."""
    settings: Any = json.loads(booster.save_config())
    return settings["learner"]["gradient_booster"]["name"]


def _locked(booster: Any, lock: threading.Lock, table: Any, rounds: tuple[int, int]) -> Any:
    """The answer by way of XGBoost's own matrix, which accepts no infinite numbers."""
    is_frame = hasattr(table, "dtypes")
    if not is_frame and np.isinf(table).any():
        raise InvalidRequest(
            "the input contains infinity, which this kind of XGBoost model refuses: send finite "
            "numbers, or NaN for a missing value"
        )
    with lock:
        rows = library.DMatrix(table, enable_categorical=is_frame)
        return booster.predict(rows, iteration_range=rounds, validate_features=False)
