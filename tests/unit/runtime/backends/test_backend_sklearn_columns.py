"""Estimators that were fitted with data frames, several targets, and the threads of estimators."""

import os

import catboost
import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_transformer,
)
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.tables.estimator import serve_estimator
from moorage_runtime.backends.tables.scikit_learn import ScikitLearnBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules

CITIES = ["Aachen", "Bonn", "Łódź"]
RANDOM = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "city": [CITIES[i % 3] for i in range(30)],
        "size": RANDOM.normal(size=30),
        "rooms": RANDOM.integers(1, 6, 30),
        "note": [f"flat {i % 4}" for i in range(30)],
    }
)
PRICES = RANDOM.normal(size=30)
NUMBER = st.floats(-1e6, 1e6)


def served(folder, estimator, **options):
    skops.io.dump(estimator, folder / "model.skops")
    return ScikitLearnBackend().load(ModelSource("m", "1", folder / "model.skops", **options))


def pickled(folder, estimator, **options):
    joblib.dump(estimator, folder / "model.joblib")
    path = folder / "model.joblib"
    trust = {"allow_pickle": True}
    return ScikitLearnBackend().load(ModelSource("m", "1", path, options=trust, **options))


def column(name, values):
    if isinstance(values[0], str):
        array = np.array([value.encode() for value in values], np.object_)
        return Tensor(name, Datatype.BYTES, array)
    return Tensor(name, Datatype.FP64, np.asarray(values, np.float64))


def ask(model, *tensors, outputs=()):
    request = InferRequest("m", "1", tuple(tensors), tuple(map(RequestedOutput, outputs)))
    RequestRules(model.inputs, model.outputs, dynamic=False).check(request)
    return {tensor.name: tensor.array for tensor in model.infer(request)}


@pytest.fixture(scope="module")
def mixed():
    """A pipeline for columns of text and of numbers, without the column "note"."""
    columns = ColumnTransformer(
        [
            ("city", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), [0]),
            ("numbers", StandardScaler(), ["size", "rooms"]),
        ]
    )
    return make_pipeline(columns, LinearRegression()).fit(FRAME, PRICES)


def test_a_pipeline_for_mixed_columns_has_an_input_for_each_column_that_it_uses(tmp_path, mixed):
    model = served(tmp_path, mixed)

    assert [(spec.name, spec.datatype, spec.shape, spec.any_number) for spec in model.inputs] == [
        ("city", Datatype.BYTES, (-1,), False),
        ("size", Datatype.FP64, (-1,), True),
        ("rooms", Datatype.FP64, (-1,), True),
    ]
    assert model.merge_obstacle == ""


def for_mixed_columns(last):
    """A pipeline for the columns "city" and "rooms", before it is fitted."""
    return make_pipeline(
        make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["rooms"])), last
    )


CLASSIFIER = for_mixed_columns(LogisticRegression())
REGRESSOR = for_mixed_columns(LinearRegression())
CLASSES = np.arange(30) % 2


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [
        (GridSearchCV(REGRESSOR, {"linearregression__fit_intercept": [True, False]}), PRICES),
        (make_pipeline(GridSearchCV(CLASSIFIER, {"logisticregression__C": [0.5, 1.0]})), CLASSES),
        (TransformedTargetRegressor(REGRESSOR, transformer=StandardScaler()), PRICES),
        (CalibratedClassifierCV(CLASSIFIER), CLASSES),
        (FixedThresholdClassifier(CLASSIFIER, threshold=0.4), CLASSES),
        (FrozenEstimator(for_mixed_columns(LogisticRegression()).fit(FRAME, CLASSES)), CLASSES),
        (VotingClassifier([("a", CLASSIFIER), ("b", CLASSIFIER)]), CLASSES),
        (StackingRegressor([("a", REGRESSOR)]), PRICES),
        (OneVsRestClassifier(CLASSIFIER), np.arange(30) % 3),
        (MultiOutputRegressor(REGRESSOR), np.stack([PRICES, PRICES**2], axis=1)),
    ],
    ids=[
        "search", "search in a pipeline", "target", "calibration", "threshold", "frozen",
        "voting", "stacking", "one against the rest", "several outputs",
    ],
)  # fmt: skip
def test_an_estimator_around_a_pipeline_has_the_inputs_of_the_pipeline(
    tmp_path, estimator, targets
):
    fitted = estimator.fit(FRAME, targets)

    model = pickled(tmp_path, fitted)

    assert [(spec.name, spec.datatype) for spec in model.inputs] == [
        ("city", Datatype.BYTES),
        ("rooms", Datatype.FP64),
    ]
    answer = ask(model, column("city", CITIES), column("rooms", [1, 2, 3]))["predict"]
    frame = FRAME.assign(rooms=[1, 2, 3] * 10)[:3]
    assert np.array_equal(answer, fitted.predict(frame))


def test_a_column_that_the_estimator_drops_may_be_declared(tmp_path, mixed):
    kinds = {"note": "BYTES", "size": "FP64", "rooms": "INT64", "city": "BYTES"}
    declared = tuple(TensorSpec(name, Datatype(kind), (-1,)) for name, kind in kinds.items())
    model = served(tmp_path, mixed, inputs=declared)
    given = {"city": ["Bonn"], "size": [0.5], "rooms": [3], "note": ["none"]}

    answer = ask(model, *(column(name, values) for name, values in given.items()))["predict"]

    assert {spec.name for spec in model.inputs} == set(kinds)
    assert np.array_equal(answer, mixed.predict(pd.DataFrame(given)))


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from(CITIES), NUMBER, st.integers(0, 9)), min_size=1))
def test_answers_for_columns_equal_those_of_the_estimator(tmp_path_factory, mixed, rows):
    model = served(tmp_path_factory.mktemp("model"), mixed)
    cities, sizes, rooms = map(list, zip(*rows, strict=True))
    frame = pd.DataFrame({"city": cities, "size": sizes, "rooms": rooms, "note": "none"})

    answer = ask(model, column("rooms", rooms), column("city", cities), column("size", sizes))

    assert np.array_equal(answer["predict"], mixed.predict(frame))


def test_a_request_without_rows_has_an_answer_without_rows(tmp_path, mixed):
    model = served(tmp_path, mixed)
    empty = [
        Tensor(spec.name, spec.datatype, np.empty(0, object if spec.name == "city" else "f8"))
        for spec in model.inputs
    ]

    assert ask(model, *empty)["predict"].shape == (0,)


def test_an_unknown_category_is_a_client_error(tmp_path, mixed):
    model = served(tmp_path, mixed)

    with pytest.raises(InvalidRequest, match="refuses the input: ValueError: Found unknown cat"):
        ask(model, column("city", ["Ulm"]), column("size", [1.0]), column("rooms", [2.0]))


def test_a_vectorizer_takes_a_column_of_text(tmp_path):
    columns = make_column_transformer(
        (TfidfVectorizer(), "note"), (OrdinalEncoder(), ["city"]), remainder="passthrough"
    )
    pipeline = make_pipeline(columns, LinearRegression()).fit(FRAME, PRICES)

    model = served(tmp_path, pipeline)
    answer = ask(model, *(column(name, list(FRAME[name][:5])) for name in FRAME))

    assert [spec.name for spec in model.inputs if spec.datatype is Datatype.BYTES] == [
        "city",
        "note",
    ]
    assert np.array_equal(answer["predict"], pipeline.predict(FRAME[:5]))


def test_an_encoder_of_a_frame_has_columns_without_a_column_transformer(tmp_path):
    encoder = OneHotEncoder().fit(FRAME[["city"]])

    model = served(tmp_path, encoder)

    assert [(spec.name, spec.datatype) for spec in model.inputs] == [("city", Datatype.BYTES)]
    answer = ask(model, column("city", ["Bonn"]))
    assert answer["transform"].tolist() == [[0.0, 1.0, 0.0]]


def test_categories_of_gradient_boosting_are_columns(tmp_path):
    frame = FRAME.assign(city=FRAME["city"].astype("category")).drop(columns="note")
    boosting = HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype")
    boosting.fit(frame, PRICES)

    model = pickled(tmp_path, boosting)
    answer = ask(model, *(column(name, list(frame[name])) for name in frame))

    assert {spec.name: spec.datatype for spec in model.inputs} == {
        "city": Datatype.BYTES,
        "size": Datatype.FP64,
        "rooms": Datatype.FP64,
    }
    assert np.array_equal(answer["predict"], boosting.predict(frame))


def test_columns_of_numbers_remain_one_matrix(tmp_path):
    numbers = FRAME[["size", "rooms"]]
    regression = make_pipeline(StandardScaler(), LinearRegression()).fit(numbers, PRICES)

    model = served(tmp_path, regression)
    answer = ask(model, Tensor("input-0", Datatype.FP64, numbers.to_numpy()))

    assert model.inputs == (TensorSpec("input-0", Datatype.FP64, (-1, 2), any_number=True),)
    assert np.array_equal(answer["predict"], regression.predict(numbers))


def test_declared_columns_reach_an_estimator_that_says_nothing_about_them(tmp_path):
    ratio = FunctionTransformer(divided).fit(FRAME[["size", "rooms"]])
    inputs = tuple(TensorSpec(name, Datatype.FP64, (-1,)) for name in ("size", "rooms"))
    options = {"allow_pickle": True}

    model = served(tmp_path, ratio, inputs=inputs, options=options)
    answer = ask(model, column("size", [1.0]), column("rooms", [2.0]))

    assert answer["transform"].tolist() == [0.5]


def divided(frame):
    """Select columns by name."""
    return (frame["size"] / frame["rooms"].where(frame["rooms"] != 0, 1)).to_numpy()


@pytest.mark.parametrize(
    "known",
    [
        OneHotEncoder(sparse_output=False),
        make_column_transformer((OneHotEncoder(), [0]), (StandardScaler(), [1])),
    ],
    ids=["encoder", "column transformer"],
)
def test_declared_columns_of_a_model_without_names_reach_it_in_their_order(tmp_path, known):
    rows = FRAME[["city", "rooms"]].to_numpy(np.object_)
    known.fit(rows)
    declared = (
        TensorSpec("town", Datatype.BYTES, (-1,)),
        TensorSpec("number", Datatype.INT64, (-1,)),
    )

    model = served(tmp_path, known, inputs=declared)
    tensors = [column("number", rows[:, 1].tolist()), column("town", rows[:, 0].tolist())]

    assert ask(model, *tensors)["transform"].tolist() == known.transform(rows).tolist()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            (TensorSpec("x", Datatype.FP64, (-1, 3)),),
            "inputs has one tensor, 'x' of FP64: must be one input per column",
        ),
        (
            tuple(TensorSpec(name, Datatype.FP64, (-1,)) for name in ("city", "size", "rooms")),
            r"inputs\[0\]\.datatype is FP64: must be BYTES, because of column 'city'",
        ),
        (
            tuple(TensorSpec(name, Datatype.BYTES, (-1,)) for name in ("city", "size")),
            "inputs has 2 tensors: must have 3.*'rooms' is missing",
        ),
    ],
)
def test_a_declaration_that_contradicts_the_estimator_is_refused(tmp_path, mixed, inputs, message):
    with pytest.raises(InvalidConfig, match=rf"model\.yaml: {message}"):
        served(tmp_path, mixed, inputs=inputs)


def test_several_targets_are_columns_of_predict_and_outputs_of_their_own_elsewhere(tmp_path):
    rows = FRAME[["size", "rooms"]].to_numpy()
    targets = np.column_stack([PRICES > 0, np.arange(30) % 3])
    forest = RandomForestClassifier(3, random_state=0).fit(rows, targets)

    model = pickled(tmp_path, forest)
    answer = ask(
        model,
        Tensor("input-0", Datatype.FP64, rows),
        outputs=("predict_proba_1", "predict", "predict_proba_0"),
    )

    assert [(spec.name, spec.shape) for spec in model.outputs] == [
        ("predict", (-1, 2)),
        ("predict_proba_0", (-1, 2)),
        ("predict_proba_1", (-1, 3)),
    ]
    first, second = forest.predict_proba(rows)
    assert np.array_equal(answer["predict_proba_0"], first)
    assert np.array_equal(answer["predict_proba_1"], second)
    assert np.array_equal(answer["predict"], forest.predict(rows))


def test_the_jobs_of_a_model_are_limited_to_the_threads_of_the_server(tmp_path):
    rows, labels = FRAME[["size", "rooms"]].to_numpy(), np.arange(30) % 2
    forest = RandomForestClassifier(2, n_jobs=-1, random_state=0).fit(rows, labels)
    seen = []

    class Watched(RandomForestClassifier):
        def predict(self, rows):
            seen.append(self.n_jobs)
            return super().predict(rows)

    watched = make_pipeline(StandardScaler(), Watched(2, n_jobs=-1)).fit(rows, labels)
    serve_estimator(ModelSource("m", "1", tmp_path / "x", threads=2), "p", watched)
    serve_estimator(ModelSource("m", "1", tmp_path / "x", threads=3), "p", forest)

    assert seen == [2]
    assert forest.n_jobs == 3


FOREST = RandomForestClassifier(2, n_jobs=-1, random_state=0)


@pytest.mark.parametrize(
    ("around", "fitted"),
    [
        (GridSearchCV(FOREST, {"max_depth": [2]}, cv=2), lambda made: made.best_estimator_),
        (
            CalibratedClassifierCV(make_pipeline(StandardScaler(), FOREST), cv=2),
            lambda made: made.calibrated_classifiers_[1].estimator[1],
        ),
        (VotingClassifier([("forest", FOREST)]), lambda made: made.estimators_[0]),
    ],
    ids=["search", "calibration", "vote"],
)
def test_the_jobs_of_a_fitted_copy_are_limited(tmp_path, around, fitted):
    rows = FRAME[["size", "rooms"]].to_numpy()
    made = around.fit(rows, np.arange(30) % 2)

    serve_estimator(ModelSource("m", "1", tmp_path / "x", threads=2), "p", made)

    assert fitted(made).n_jobs == 2


def process_of(rows):
    return np.full((len(rows), 1), os.getpid())


def test_the_jobs_of_a_model_run_in_the_process_of_the_server(tmp_path):
    jobs = [(name, FunctionTransformer(process_of), [name]) for name in ("size", "rooms")]
    table = ColumnTransformer(jobs, n_jobs=2).fit(FRAME)

    model = pickled(tmp_path, table, threads=2)
    tensors = [column(name, [1.0, 2.0]) for name in ("size", "rooms")]

    assert ask(model, *tensors)["transform"].tolist() == [[os.getpid()] * 2] * 2


def test_an_estimator_of_another_library_is_served_alike(tmp_path):
    rows, labels = FRAME[["size", "rooms"]], np.arange(30) % 2
    model = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(rows, labels)

    answer = ask(
        pickled(tmp_path, model),
        Tensor("input-0", Datatype.FP64, rows.to_numpy(dtype=float)),
        outputs=("predict", "predict_proba"),
    )

    assert np.array_equal(answer["predict"], model.predict(rows))
    assert np.array_equal(answer["predict_proba"], model.predict_proba(rows))


@pytest.mark.parametrize(
    ("estimator", "saved"),
    [
        (lightgbm.LGBMRegressor(n_estimators=2, n_jobs=1, verbosity=-1), r"booster_\.save_model"),
        (
            xgboost.XGBRegressor(n_jobs=1, enable_categorical=True),
            r"that save_model\('model\.ubj'\)",
        ),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_an_estimator_that_loses_its_categories_names_the_file_that_keeps_them(
    tmp_path, estimator, saved
):
    frame = FRAME[["size"]].assign(flat=FRAME["note"].astype("category"))
    estimator.fit(frame, PRICES)

    with pytest.raises(InvalidConfig, match=rf"categorical columns of pandas, .*{saved}"):
        pickled(tmp_path, estimator)


def test_a_classifier_without_columns_of_text_keeps_its_labels(tmp_path):
    labels = np.array(CITIES)[np.arange(30) % 3]
    classifier = LogisticRegression().fit(FRAME[["size", "rooms"]], labels)

    model = served(tmp_path, classifier)
    answer = ask(model, Tensor("input-0", Datatype.FP64, np.zeros((2, 2))))

    assert model.outputs[0] == TensorSpec("predict", Datatype.BYTES, (-1,))
    assert set(answer["predict"]) <= {city.encode() for city in CITIES}


def of_catboost(**options):
    return catboost.CatBoostRegressor(
        iterations=3, thread_count=1, verbose=0, allow_writing_files=False, **options
    )


# CatBoost's pickles count no columns, and neither do those of what delegates to it.
@pytest.mark.parametrize(
    "estimator",
    [
        of_catboost(),
        make_pipeline(of_catboost()),
        GridSearchCV(of_catboost(), {"depth": [2]}, cv=2),
        StackingRegressor([("one", of_catboost()), ("other", LinearRegression())], cv=2),
    ],
    ids=["alone", "pipeline", "search", "stack"],
)
@pytest.mark.parametrize("columns", [["size", "rooms"], None], ids=["named", "unnamed"])
def test_a_pickle_of_catboost_has_the_columns_of_its_training(tmp_path, estimator, columns):
    rows = FRAME[["size", "rooms"]].to_numpy()
    table = pd.DataFrame(rows, columns=columns) if columns else rows
    known = clone(estimator).fit(table, PRICES)

    model = pickled(tmp_path, known)

    assert [spec.shape for spec in model.inputs] == [(-1, 2)]
    answer = ask(model, Tensor("input-0", Datatype.FP64, rows))["predict"]
    assert answer.tolist() == known.predict(table).tolist()


def test_a_pickle_of_catboost_can_have_declared_columns_of_text(tmp_path):
    frame = FRAME[["city", "size"]]
    known = of_catboost(cat_features=["city"]).fit(frame, PRICES)
    declared = (
        TensorSpec("size", Datatype.FP64, (-1,)),
        TensorSpec("city", Datatype.BYTES, (-1,)),
    )

    with pytest.raises(InvalidConfig, match=r"declare the inputs in model\.yaml if some are text"):
        pickled(tmp_path, known)
    model = pickled(tmp_path, known, inputs=declared)

    assert [spec.name for spec in model.inputs] == ["city", "size"]
    tensors = [column(name, frame[name].tolist()) for name in ("size", "city")]
    assert ask(model, *tensors)["predict"].tolist() == known.predict(frame).tolist()
