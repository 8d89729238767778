"""The columns of a fitted estimator: how many, their names, and which of them are text.

An estimator that was fitted with a data frame keeps the names of its columns, but not their types.
Columns of text show in the fitted state of the transformer that takes them: the categories of an
encoder, the fill values of an imputer, the vocabulary of a vectorizer. A search of parameters, an
ensemble and similar estimators pass their columns on to those that they contain.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any, Final, cast

from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from moorage_runtime.backends.tables.layout import Features, pandas
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import Datatype, TensorSpec

# Estimators that pass all their columns on -> the attribute with the fitted ones that take them.
_PASSING_ON: Final[Sequence[tuple[tuple[type, ...], str]]] = (
    ((FixedThresholdClassifier, TunedThresholdClassifierCV), "estimator_"),
    ((FrozenEstimator,), "estimator"),
    ((TransformedTargetRegressor,), "regressor_"),
    (
        (
            MultiOutputClassifier,
            MultiOutputRegressor,
            OneVsRestClassifier,
            StackingClassifier,
            StackingRegressor,
            VotingClassifier,
            VotingRegressor,
        ),
        "estimators_",
    ),
)

# Ensembles of one kind of estimator, which may be any.
_OF_ONE_KIND: Final = (AdaBoostClassifier, AdaBoostRegressor, BaggingClassifier, BaggingRegressor)


def features_of(estimator: Any) -> Features:
    """The columns of an estimator, as far as it says.

    Raises:
        InvalidConfig: It has text columns that cannot be identified.
    """
    known = _knowing(estimator)
    names = tuple(map(str, _list(getattr(known, "feature_names_in_", None))))
    count = len(names) or getattr(known, "n_features_in_", None)
    if count == 0:
        return _of_catboost(estimator)
    if count is None:
        return Features(None, certain=False)
    # columns without names are called by their places
    columns = list(names) or [str(place) for place in range(int(count))]
    examples: dict[str, Any] = {}
    used: set[str] = set()
    is_split = False
    for transformer, taken, is_part in _readers(estimator, columns):
        is_split = is_split or is_part
        used.update(taken)
        for place, name in enumerate(taken):
            example = _example(transformer, place)
            if example is not None and not isinstance(examples.get(name), str):
                examples[name] = example
    if not names:
        return Features(int(count), examples=examples, certain=False)
    if not is_split and not any(isinstance(value, str) for value in examples.values()):
        return Features(len(names), names, examples=examples, certain=False, framed=True)
    kept = [name for name in names if name in used]
    specs = tuple(_spec(name, examples.get(name)) for name in kept)
    return Features(len(kept), names, specs, examples=examples, certain=False, framed=True)


def _of_catboost(estimator: Any) -> Features:
    """The columns of an estimator of CatBoost, or around one: its pickles say that it has none."""
    first = first_step(estimator)
    inner = _passed_on(first)
    if inner:
        return _of_catboost(inner[0])
    names = tuple(map(str, _list(getattr(first, "feature_names_", None))))
    # without names of their own, columns are called "0", "1", ...
    real = () if names == tuple(map(str, range(len(names)))) else names
    return Features(len(names) or None, real, certain=False)


def _knowing(estimator: Any) -> Any:
    """The estimator, or the one within it that knows the columns.

    A pipeline does not know them if its first step is a placeholder such as "passthrough", which a
    search of parameters may have chosen, nor does an estimator around it.
    """
    if hasattr(estimator, "n_features_in_"):
        return estimator
    first = first_step(estimator)
    inner = [first] if first is not estimator else _passed_on(estimator)
    return _knowing(inner[0]) if inner else estimator


def first_step(estimator: Any) -> Any:
    """The estimator, or the first step of a pipeline that is not a placeholder."""
    while isinstance(estimator, Pipeline):
        steps = [step for _, step in cast("Any", estimator).steps]
        real = (step for step in steps if not (step is None or isinstance(step, str)))
        estimator = next(real, steps[0])
    return estimator


def steps_of(estimator: Any) -> list[Any] | None:
    """The estimators that one is made of, without placeholders; None if there are none."""
    kind: Any = type(estimator)
    if kind is Pipeline:
        found = [step for _, step in estimator.steps]
    elif kind is ColumnTransformer:
        found = [
            step for _, step, _ in getattr(estimator, "transformers_", estimator.transformers)
        ]
    elif kind is FeatureUnion:
        found = [step for _, step in estimator.transformer_list]
    elif kind in _OF_ONE_KIND:
        found = list(estimator.estimators_[:1])
    else:
        return None
    return [step for step in found if not (step is None or isinstance(step, str) or _passes(step))]


def fitted_in(estimator: Any) -> list[Any]:
    """The fitted estimators that one calls, which its parameters may not show."""
    return [*(steps_of(estimator) or ()), *_passed_on(estimator)]


def _passes(step: Any) -> bool:
    """Whether it is what "passthrough" becomes: a function that changes nothing."""
    return type(step) is FunctionTransformer and cast("Any", step).func is None


def _readers(
    estimator: Any, columns: list[str], *, is_part: bool = False
) -> Iterator[tuple[Any, list[str], bool]]:
    """What reads these columns first: transformers, each with its columns.

    The last item is whether a column transformer has selected the columns. The whole pipeline is
    listed for a part of a column transformer, as any of its steps may know about them.
    """
    first = first_step(estimator)
    table = _column_transformer(first)
    if table is not None:
        for _, part, chosen in table.transformers_:
            if part != "drop":
                yield from _readers(part, _selected(chosen, columns), is_part=True)
    elif inner := _passed_on(first):
        for each in inner:
            yield from _readers(each, columns, is_part=is_part)
    else:
        yield estimator if is_part else first, columns, is_part


def _passed_on(estimator: Any) -> list[Any]:
    """The fitted estimators to which one passes all its columns; [] if it takes them itself."""
    if isinstance(estimator, FeatureUnion):
        return [step for _, step in cast("Any", estimator).transformer_list if step != "drop"]
    if isinstance(estimator, CalibratedClassifierCV):
        fitted: Sequence[Any] = cast("Any", estimator).calibrated_classifiers_
        return [each.estimator for each in fitted]
    found: Any = getattr(estimator, "best_estimator_", None)  # of any search of parameters
    for kinds, attribute in _PASSING_ON:
        if isinstance(estimator, kinds):
            found = getattr(estimator, attribute)
    if found is None:
        return []
    return list(found) if isinstance(found, list) else [found]


def _column_transformer(first: Any) -> Any:
    if isinstance(first, ColumnTransformer):
        return first
    # HistGradientBoosting encodes its categorical columns itself
    inner = getattr(first, "_preprocessor", None)
    if isinstance(inner, ColumnTransformer):
        return inner
    if any(_list(getattr(first, "is_categorical_", None))):
        raise InvalidConfig(
            f"the categories of {type(first).__name__} are unknown in this version of "
            "scikit-learn: save the model with the version of the image"
        )
    return None


def _selected(columns: Any, names: Sequence[str]) -> list[str]:
    """The column names that a column transformer selects."""
    frame = pandas.DataFrame(columns=list(names))
    wanted = [columns] if isinstance(columns, str | int) else columns
    ends = (columns.start, columns.stop) if isinstance(columns, slice) else wanted
    by_name = any(isinstance(each, str) for each in ends)
    return list(frame.loc[:, wanted] if by_name else frame.iloc[:, wanted])


def _example(transformer: Any, place: int) -> Any:
    """A value that a transformer knows for its column at a place; None if it says nothing."""
    is_pipeline = isinstance(transformer, Pipeline)
    steps = [step for _, step in transformer.steps] if is_pipeline else [transformer]
    known = (value for step in steps for value in _known(step, place))
    return next(filter(_is_value, known), None)


def _known(step: Any, place: int) -> list[Any]:
    """The values of a column in the fitted state of one transformer."""
    if isinstance(getattr(step, "vocabulary_", None), Mapping):
        return ["text"]
    categories, statistics = (
        _list(getattr(step, name, None))[place : place + 1]
        for name in ("categories_", "statistics_")
    )
    return [*(value for each in categories for value in _list(each)), *statistics]


def _is_value(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, int | float) and not isnan(item))


def _spec(name: str, example: Any) -> TensorSpec:
    is_text = isinstance(example, str)
    datatype = Datatype.BYTES if is_text else Datatype.FP64
    return TensorSpec(name, datatype, (-1,), any_number=not is_text)


def _list(values: Any) -> list[Any]:
    """A list of anything that an estimator keeps in an array; [] for None."""
    if values is None:
        return []
    return list(values.tolist() if hasattr(values, "tolist") else values)
