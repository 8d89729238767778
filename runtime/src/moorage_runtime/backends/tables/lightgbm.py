"""The LightGBM backend: a booster, saved as text.

The output ``predict`` is what ``Booster.predict`` returns: a probability for a binary objective,
one per class for ``multiclass``, otherwise a value. NaN is a missing value.

LightGBM ends the process on many damaged files, so ``lightgbm_text`` checks the file first.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.tables import layout, lightgbm_text
from moorage_runtime.backends.tables.layout import Features
from moorage_runtime.backends.tables.lightgbm_text import ModelText
from moorage_runtime.backends.tables.model import TableModel, tried_outputs
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import Datatype, TensorSpec

# Any, because type checks run without the libraries of this extra.
library: Any = importlib.import_module("lightgbm")

_PREDICT: Final = "predict"
# Type of the categories -> datatype of their column; other numbers are FP64.
_OF_NUMBERS: Final = {bool: Datatype.BOOL, int: Datatype.INT64}


class LightgbmBackend:
    """Loads boosters."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one booster, and try it with one row.

        Raises:
            InvalidConfig: The file is not a model of LightGBM, or model.yaml contradicts it.
        """
        try:
            text = source.path.read_bytes().decode()
            found = lightgbm_text.parse(text)
            # from memory: reading the file itself, LightGBM leaves a thread running on errors
            booster: Any = library.Booster(model_str=text)
        except BaseException as error:
            problem = str(error) if isinstance(error, ValueError) else sentence_of(error)
            raise InvalidConfig(
                f"{source.path.name} is not a valid LightGBM model: {problem}"
            ) from error
        chosen = layout.chosen(source, _features(source, booster, found))

        def answer(table: Any, wanted: Sequence[str]) -> Mapping[str, Any]:
            del wanted
            return {_PREDICT: booster.predict(table, num_threads=source.threads)}

        outputs = tried_outputs(source, chosen, answer, [_PREDICT])
        return TableModel("lightgbm_text", chosen, outputs, answer)


def _features(source: ModelSource, booster: Any, found: ModelText) -> Features:
    """Its columns; with pandas' categories, each column is an input of its own."""
    names = layout.with_spaces(source, [str(name) for name in booster.feature_name()])
    kept: list[list[Any]] = booster.pandas_categorical or []
    if not kept:
        # without names of their own, columns are called "Column_0", "Column_1", ...
        is_named = names != tuple(f"Column_{index}" for index in range(len(names)))
        return Features(len(names), names if is_named else ())
    # the file lists the categories, but not whose they are; they follow the order of the columns
    places = found.categorical
    if len(places) != len(kept):
        raise InvalidConfig(
            f"{source.path.name} has {len(kept)} categorical columns, and which of the "
            f"{len(names)} columns they are is not in the file, because one of them was constant "
            "in training: train without constant columns"
        )
    categories = {names[place]: values for place, values in zip(places, kept, strict=True)}
    specs = tuple(_column(name, categories.get(name)) for name in names)
    examples = {name: values[0] for name, values in categories.items() if values}
    return Features(len(names), names, specs, categories=categories, examples=examples)


def _column(name: str, categories: Sequence[Any] | None) -> TensorSpec:
    if not categories:
        return TensorSpec(name, Datatype.FP64, (-1,), any_number=True)
    if isinstance(categories[0], str):
        return TensorSpec(name, Datatype.BYTES, (-1,))
    kinds = set(map(type, categories))
    datatype = _OF_NUMBERS.get(kinds.pop(), Datatype.FP64) if len(kinds) == 1 else Datatype.FP64
    return TensorSpec(name, datatype, (-1,), any_number=True)
