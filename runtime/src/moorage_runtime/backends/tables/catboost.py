"""The CatBoost backend: a model in CatBoost's binary format.

A classifier has the outputs ``predict``, the class, and on request ``predict_proba``. Any other
model has one output, ``predict``, which is what ``CatBoostRegressor.predict`` returns. NaN is a
missing value in columns of numbers. Categorical and text columns are text. A categorical column
can be declared as whole numbers or booleans, as it may have been in training.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import Any, Final

import numpy as np

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.tables import layout
from moorage_runtime.backends.tables.catboost_trial import path_of, try_loading
from moorage_runtime.backends.tables.layout import Features
from moorage_runtime.backends.tables.model import Answer, TableModel, tried_outputs
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import Datatype, TensorSpec

# Any, because type checks run without the libraries of this extra.
library: Any = importlib.import_module("catboost")

_PREDICT: Final = "predict"
_PROBABILITIES: Final = "predict_proba"
_MAGIC: Final = b"CBM1"
_HEADER_BYTES: Final = 8


class CatboostBackend:
    """Loads models of CatBoost."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model, and try it with one row.

        Raises:
            InvalidConfig: The file is not a model of CatBoost, or model.yaml contradicts it.
        """
        model = _read(source)
        chosen = layout.chosen(source, _features(source, model))
        is_classifier = bool(len(model.classes_))
        answer = _answer(model, source.threads, is_classifier=is_classifier)
        names = [_PREDICT, _PROBABILITIES] if is_classifier else [_PREDICT]
        outputs = tried_outputs(source, chosen, answer, names)
        return TableModel("catboost_cbm", chosen, outputs, answer)


def _read(source: ModelSource) -> Any:
    path = source.path
    try:
        with FileIO(path) as file:
            written = _written(file)
            _check_size(file.readall())
            try_loading(file)
            _check_unwritten(file, written)
            model = _loaded(library.CatBoostClassifier(), file)
            if not len(model.classes_):
                # the class of the object decides what predict returns by default
                model = _loaded(library.CatBoostRegressor(), file)
            _check_unwritten(file, written)
            return model
    except BaseException as error:
        problem = str(error) if isinstance(error, ValueError) else sentence_of(error)
        raise InvalidConfig(f"{path.name} is not a valid CatBoost model: {problem}") from error


def _loaded(model: Any, file: FileIO) -> Any:
    # from a path: a model from a stream or from bytes does not know its loss function, and so
    # predicts raw values where others are its default
    file.seek(0)
    return model.load_model(path_of(file))


def _written(file: FileIO) -> tuple[int, int]:
    """Return what a write to the open file changes: its size or its time."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _check_unwritten(file: FileIO, written: tuple[int, int]) -> None:
    """Refuse a file that is written in place: what was tried is not what is loaded.

    Raises:
        ValueError: The file has changed.
    """
    if _written(file) != written:
        raise ValueError(
            "it was written while it was loaded: write the new file under another name and rename "
            "it"
        )


def _check_size(content: bytes) -> None:
    """CatBoost allocates the size in the header first, and ends the process if it cannot.

    Source: catboost/libs/model/model.cpp, TFullModel::Load.

    Raises:
        ValueError: The file does not begin as a model, or is shorter than its header says.
    """
    if not content.startswith(_MAGIC):
        raise ValueError(f"the first bytes must be '{_MAGIC.decode()}'")
    size = int.from_bytes(content[len(_MAGIC) : _HEADER_BYTES], "little")
    if len(content) < _HEADER_BYTES + size:
        raise ValueError(
            f"it has {len(content)} bytes: must have at least {_HEADER_BYTES + size}: the file is "
            "incomplete"
        )


def _features(source: ModelSource, model: Any) -> Features:
    names = tuple(map(str, model.feature_names_))
    if model.get_embedding_feature_indices():
        raise InvalidConfig(f"{source.path.name} has embedding features, which are not supported")
    words = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    if not words:
        # without names of their own, columns are called "0", "1", ...
        real = () if names == tuple(map(str, range(len(names)))) else names
        return Features(len(names), real, datatype=Datatype.FP32)
    specs = tuple(
        TensorSpec(name, Datatype.BYTES, (-1,))
        if index in words
        else TensorSpec(name, Datatype.FP32, (-1,), any_number=True)
        for index, name in enumerate(names)
    )
    coded = frozenset(names[index] for index in model.get_cat_feature_indices())
    return Features(len(names), names, specs, Datatype.FP32, coded=coded)


def _answer(model: Any, threads: int, *, is_classifier: bool) -> Answer:
    def answer(table: Any, wanted: Sequence[str]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        if _PREDICT in wanted:
            value = np.asarray(model.predict(table, thread_count=threads))
            # one class per row, for several classes as a column
            is_column = is_classifier and value.ndim == 2 and value.shape[1] == 1
            found[_PREDICT] = value.reshape(-1) if is_column else value
        if _PROBABILITIES in wanted:
            found[_PROBABILITIES] = model.predict_proba(table, thread_count=threads)
        return found

    return answer
