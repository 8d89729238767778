"""Serves a fitted estimator with the methods of scikit-learn, whichever library it is from.

Each of its methods is an output with the same name. The default is ``predict``, or the first
method that it has; the others are computed on request. Where a method returns one array per
target, as ``predict_proba`` of a classifier with several targets does, each of them is an output.
"""

import contextlib
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import joblib
import msgspec

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.tables import layout
from moorage_runtime.backends.tables.columns import features_of, fitted_in, steps_of
from moorage_runtime.backends.tables.layout import Features, Layout
from moorage_runtime.backends.tables.model import Answer, TableModel, first_by_default, tried
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.tensors import Datatype, TensorSpec

log = logging.getLogger(__name__)

_METHODS: Final = ("predict", "predict_proba", "decision_function", "transform")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Estimators whose methods process each row independently, by their definition.
_ROW_WISE: Final = _names(
    "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor BernoulliNB "
    "CatBoostClassifier CatBoostRegressor DecisionTreeClassifier DecisionTreeRegressor ElasticNet "
    "ExtraTreesClassifier ExtraTreesRegressor GaussianNB GradientBoostingClassifier "
    "GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor "
    "KBinsDiscretizer KMeans KNeighborsClassifier KNeighborsRegressor LGBMClassifier "
    "LGBMRegressor Lasso LinearRegression LinearSVC LinearSVR LogisticRegression MLPClassifier "
    "MLPRegressor MaxAbsScaler MinMaxScaler MultinomialNB Normalizer OneHotEncoder OrdinalEncoder "
    "PCA PolynomialFeatures PowerTransformer QuantileTransformer RandomForestClassifier "
    "RandomForestRegressor Ridge RidgeClassifier RobustScaler SGDClassifier SGDRegressor SVC SVR "
    "SimpleImputer StandardScaler TargetEncoder TfidfVectorizer XGBClassifier XGBRegressor"
)
# Parameters that may be functions, which get all rows of a batch together.
_OF_ALL_ROWS: Final = ("kernel", "weights")
# The call of an estimator that saves its booster, which keeps the categories of a data frame.
_SAVE_BOOSTER: Final[Mapping[str, str]] = {
    "lightgbm": "booster_.save_model('model.txt')",
    "xgboost": "save_model('model.ubj')",
}
_LIBRARIES: Final = ("sklearn", "xgboost", "lightgbm", "catboost")
# Libraries whose pickles fit only one version -> their names.
_VERSIONED: Final[Mapping[str, str]] = {
    "catboost": "CatBoost",
    "lightgbm": "LightGBM",
    "numpy": "NumPy",
    "pandas": "pandas",
    "scipy": "SciPy",
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
}


def serve_estimator(
    source: ModelSource, platform: str, estimator: Any, default: str = ""
) -> LoadedModel:
    """A model of an estimator, which is tried with one row.

    Args:
        source: Its file.
        platform: Platform name.
        estimator: The object in the file.
        default: The method that answers by default; "" for ``predict``.

    Raises:
        InvalidConfig: The object is not an estimator, lacks the method, or its inputs or outputs
            are unknown.
    """
    methods = [name for name in _METHODS if callable(getattr(estimator, name, None))]
    if not methods:
        raise InvalidConfig(
            f"{source.path.name} contains {type(estimator).__name__}: must contain an "
            f"estimator with one of {', '.join(_METHODS)}"
        )
    if default and default not in methods:
        raise InvalidConfig(
            f"{source.path.name}: {type(estimator).__name__} cannot answer with {default}: must "
            f"be one of {', '.join(methods)}"
        )
    methods.sort(key=lambda name: name != default)
    _limit_threads(estimator, source.threads)
    features = features_of(estimator)
    if _library(estimator) == "lightgbm":
        names = layout.with_spaces(source, features.names)
        features = msgspec.structs.replace(features, names=names)
    chosen = layout.chosen(source, features)
    options = _options(estimator, source.threads)
    if source.outputs is not None:
        outputs = _declared_outputs(source, source.outputs, methods)
    else:
        chosen, outputs = _tried_layout(source, estimator, methods, features, options)
    return TableModel(
        platform,
        chosen,
        outputs,
        _answer(estimator, options),
        merge_obstacle=_merge_obstacle(estimator),
        refusals=(ValueError,),
    )


def _answer(estimator: Any, options: Mapping[str, Any]) -> Answer:
    def answer(table: Any, wanted: Sequence[str]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        # by default, jobs are processes: each has a copy of the libraries and outlives the server
        with joblib.parallel_config(backend="threading"):
            for name in wanted:
                if name not in found:
                    method = name if name in _METHODS else name.rpartition("_")[0]
                    # a copy, because a scaler with copy=False, for example, writes into it
                    value = getattr(estimator, method)(table.copy(), **options)
                    found.update(_by_name(method, value))
        return found

    return answer


def _by_name(method: str, value: Any) -> dict[str, Any]:
    """The outputs of a method: one, or one per target."""
    if _is_per_target(value):
        return {f"{method}_{index}": item for index, item in enumerate(value)}
    # scipy's sparse matrices, which transformers of text and categories return
    return {method: value.toarray() if hasattr(value, "toarray") else value}


def _is_per_target(value: Any) -> bool:
    """Whether it is a list of matrices or a tuple of arrays; any other list is one of rows."""
    if not (isinstance(value, list | tuple) and value):
        return False
    least = 1 if isinstance(value, tuple) else 2
    return all(getattr(item, "ndim", 0) >= least for item in cast("Sequence[Any]", value))


def _options(estimator: Any, threads: int) -> Mapping[str, Any]:
    """Arguments of each call: CatBoost ignores every other limit of its threads."""
    return {"thread_count": threads} if _library(estimator) == "catboost" else {}


def _library(estimator: Any) -> str:
    return type(estimator).__module__.partition(".")[0]


def _limit_threads(estimator: Any, threads: int) -> None:
    """Lower every ``n_jobs`` above the cores of this process, such as -1 for all of the host."""
    _limit_parameters(estimator, threads)
    # a search of parameters, for example, answers with a fitted copy of its estimator
    for inner in fitted_in(estimator):
        _limit_threads(inner, threads)


def _limit_parameters(estimator: Any, threads: int) -> None:
    get: Any = getattr(estimator, "get_params", None)
    if not callable(get):
        return
    try:
        found: Any = get(deep=True)
        many = {
            name: threads
            for name, value in found.items()
            if name.rpartition("__")[2] == "n_jobs"
            and isinstance(value, int)
            and not 0 < value <= threads
        }
        if many:
            estimator.set_params(**many)
    except Exception as error:  # noqa: BLE001 - the model's own code; it can serve without it
        log.warning("n_jobs of the model cannot be limited: %s", sentence_of(error))


def _merge_obstacle(estimator: Any) -> str:
    """Why rows may influence each other; "" for estimators that are known to keep them apart."""
    kind = type(estimator)
    inner = steps_of(estimator)
    if inner is not None:
        return next(filter(None, map(_merge_obstacle, inner)), "")
    if _library(estimator) not in _LIBRARIES or kind.__name__ not in _ROW_WISE:
        return f"estimator {kind.__name__} is not known to keep the rows of a batch apart"
    for name in _OF_ALL_ROWS:
        if callable(getattr(estimator, name, None)):
            return (
                f"parameter {name} of estimator {kind.__name__} is a function, which may combine "
                "the rows of a batch"
            )
    # gradient boosting begins with the answer of any estimator
    first: Any = getattr(estimator, "init", None)
    return _merge_obstacle(first) if hasattr(first, "predict") else ""


def save_with_same_version(module: str) -> str:
    """Advice for a file that does not fit the installed version of a library; "" for others.

    Args:
        module: A module that the file refers to, such as ``sklearn.svm``.
    """
    top = module.partition(".")[0]
    version: Any = getattr(sys.modules.get(top), "__version__", None)
    if top not in _VERSIONED or version is None:
        return ""
    return f"save it with {_VERSIONED[top]} {version}, which this server has"


def _way_out(source: ModelSource, estimator: Any, error: Exception) -> str:
    # an estimator of another version lacks what this one sets when it is fitted
    lacking = error.obj if isinstance(error, AttributeError) else None
    is_estimator = hasattr(lacking, "get_params")
    if is_estimator and (advice := save_with_same_version(type(lacking).__module__)):
        return advice
    save = _SAVE_BOOSTER.get(_library(estimator))
    if save is None and source.inputs is None:
        return "declare the inputs in model.yaml if some are text, otherwise the outputs"
    if save is None:
        return "declare the outputs in model.yaml"
    return (
        "declare the outputs in model.yaml or, if the model has categorical columns of pandas, "
        f"serve the file that {save} writes"
    )


def _declared_outputs(
    source: ModelSource, declared: tuple[TensorSpec, ...], methods: list[str]
) -> tuple[TensorSpec, ...]:
    for index, spec in enumerate(declared):
        if spec.name not in methods:
            raise InvalidConfig(
                f"{source.declared_in}: outputs[{index}].name: the estimator has no method "
                f"'{spec.name}': must be one of {', '.join(methods)}"
            )
    return first_by_default(declared)


def _tried_layout(
    source: ModelSource,
    estimator: Any,
    methods: list[str],
    features: Features,
    options: Mapping[str, Any],
) -> tuple[Layout, tuple[TensorSpec, ...]]:
    """The inputs that the estimator takes, and the outputs for one example."""
    chosen = layout.chosen(source, features)
    try:
        return chosen, _tried_outputs(source, estimator, methods, chosen, options)
    except InvalidConfig:
        if source.inputs is not None or features.columns is not None:
            raise
        # KMeans takes only the datatype that it was fitted on
        narrow = msgspec.structs.replace(features, datatype=Datatype.FP32)
        chosen = layout.chosen(source, narrow)
        with contextlib.suppress(InvalidConfig):
            return chosen, _tried_outputs(source, estimator, methods, chosen, options)
        raise


def _tried_with_numbers(chosen: Layout, answer: Answer, name: str) -> tuple[TensorSpec, ...]:
    try:
        return tried(chosen, answer, [name])
    except ModelFailed:
        raise
    except Exception:
        # a logarithm and a division have no result for 0
        with contextlib.suppress(Exception):
            return tried(chosen, answer, [name], 1)
        raise


def _tried_outputs(
    source: ModelSource,
    estimator: Any,
    methods: list[str],
    chosen: Layout,
    options: Mapping[str, Any],
) -> tuple[TensorSpec, ...]:
    """Datatypes and shapes of the methods' results for one example."""
    found: list[TensorSpec] = []
    for name in methods:
        try:
            found += _tried_with_numbers(chosen, _answer(estimator, options), name)
        except Exception as error:
            if name == methods[0] and isinstance(error, ModelFailed):
                raise InvalidConfig(f"{source.path.name}: {error.message}") from error
            if name == methods[0]:
                raise InvalidConfig(
                    f"{source.path.name}: {name} failed for an example of zeros or empty text "
                    f"({sentence_of(error)}): {_way_out(source, estimator, error)}"
                ) from error
            log.info("model '%s' has no output '%s': %s", source.name, name, sentence_of(error))
    return first_by_default(found)
