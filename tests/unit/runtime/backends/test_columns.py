"""The columns that a fitted estimator knows: their names, which are text, and an example."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import BaggingRegressor, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from moorage_runtime.backends.tables.columns import features_of, steps_of
from moorage_runtime.backends.tables.layout import Features
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import Datatype, TensorSpec

NAMES = ("city", "size", "note", "rooms")
FRAME = pd.DataFrame(
    {
        "city": ["Bonn", "Ulm", "Ulm"],
        "size": [1.5, 2.5, 4.0],
        "note": ["old flat", "new flat", "new"],
        "rooms": [1, 2, 3],
    }
)
NUMBERS = FRAME[["size", "rooms"]]
PRICES = [1.0, 2.0, 3.0]


def columns(*names, **texts):
    """The specs of columns; those with a true value are text."""
    return tuple(
        TensorSpec(name, Datatype.BYTES, (-1,))
        if texts.get(name)
        else TensorSpec(name, Datatype.FP64, (-1,), any_number=True)
        for name in names
    )


def transformed(*transformers, **options):
    return ColumnTransformer(list(transformers), **options).fit(FRAME)


def test_an_estimator_that_is_not_fitted_says_nothing():
    assert features_of(LinearRegression()) == Features(None, certain=False)


def test_an_array_has_examples_where_an_encoder_knows_them():
    fitted = OneHotEncoder().fit(np.array([[3, 7], [4, 8]]))

    assert features_of(fitted) == Features(2, examples={"0": 3, "1": 7}, certain=False)


def test_a_union_of_a_column_transformer_has_its_columns():
    union = FeatureUnion([("scaled", StandardScaler()), ("as it is", FunctionTransformer())])

    assert features_of(transformed(("both", union, ["size", "rooms"]))).columns == columns(
        "size", "rooms"
    )


def test_a_later_step_says_nothing_about_the_columns():
    table = pd.DataFrame({"constant": [1, 1, 1], "rooms": [3, 4, 5]})

    fitted = make_pipeline(VarianceThreshold(), OrdinalEncoder()).fit(table)

    assert features_of(fitted).examples == {}


def test_an_array_has_a_number_of_columns():
    fitted = LinearRegression().fit(NUMBERS.to_numpy(), PRICES)

    assert features_of(fitted) == Features(2, certain=False)


@pytest.mark.parametrize(
    ("first", "examples"),
    [
        (StandardScaler(), {}),
        (SimpleImputer(strategy="median"), {"size": 2.5, "rooms": 2.0}),
        (VarianceThreshold(1), {}),
    ],
)
@pytest.mark.parametrize("wrap", [lambda step: step, make_pipeline])
def test_columns_of_numbers_are_one_matrix_of_named_columns(first, examples, wrap):
    fitted = wrap(first).fit(NUMBERS, PRICES)

    assert features_of(fitted) == Features(
        2, ("size", "rooms"), examples=examples, certain=False, framed=True
    )


@pytest.mark.parametrize("placeholder", ["passthrough", None])
def test_a_pipeline_may_begin_with_a_placeholder(placeholder):
    """It does not know its columns then, and a search around it neither."""
    pipeline = Pipeline([("scale", placeholder), ("model", LinearRegression())])
    search = GridSearchCV(pipeline, {"scale": [placeholder]}, cv=2, error_score="raise")

    for estimator in (pipeline, search, make_pipeline(placeholder, pipeline)):
        named = estimator.fit(pd.concat([NUMBERS] * 2), PRICES * 2)
        assert features_of(named) == Features(2, ("size", "rooms"), certain=False, framed=True)
        plain = estimator.fit(NUMBERS.to_numpy().repeat(2, axis=0), np.repeat(PRICES, 2))
        assert features_of(plain) == Features(2, certain=False)


def test_only_the_columns_that_are_used_are_inputs():
    fitted = make_pipeline(
        ColumnTransformer(
            [
                ("scale", StandardScaler(), ["rooms"]),
                ("leave", "drop", ["note"]),
                ("encode", OneHotEncoder(), ["city"]),
            ]
        ),
        LinearRegression(),
    ).fit(FRAME, PRICES)

    assert features_of(fitted) == Features(
        2,
        NAMES,
        columns("city", "rooms", city=True),
        examples={"city": "Bonn"},
        certain=False,
        framed=True,
    )


def test_columns_of_numbers_are_inputs_of_a_column_transformer():
    fitted = transformed(("scale", StandardScaler(), ["rooms", "size"]))

    assert features_of(fitted).columns == columns("size", "rooms")


def test_the_remainder_of_a_column_transformer_is_used():
    fitted = transformed(("encode", OneHotEncoder(), ["city"]), remainder="passthrough")

    assert features_of(fitted).columns == columns(*NAMES, city=True)


@pytest.mark.parametrize(
    "selected",
    [
        ["city", "note"], [0, 2], [-4, -2], np.array([0, 2]), [True, False, True, False],
        slice(0, 3, 2), make_column_selector("city|note"),
    ],
    ids=["names", "places", "from the end", "array", "mask", "slice", "callable"],
)  # fmt: skip
def test_a_column_transformer_selects_columns_in_any_way(selected):
    fitted = transformed(("encode", OneHotEncoder(), selected))

    assert features_of(fitted).columns == columns("city", "note", city=True, note=True)


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        (slice("city", "size"), ("city", "size")),
        (slice(None, "size"), ("city", "size")),
        (slice("note", None), ("note", "rooms")),
        (slice(0, 2), ("city", "size")),
        (slice(None, 1), ("city",)),
        (slice(3, None), ("rooms",)),
        ([], ()),
    ],
)
def test_a_slice_selects_columns_by_name_or_by_place(selected, expected):
    fitted = transformed(("encode", OrdinalEncoder(), selected))

    assert [spec.name for spec in features_of(fitted).columns] == list(expected)


@pytest.mark.parametrize("selected", ["note", 2])
@pytest.mark.parametrize("wrap", [lambda step: step, make_pipeline])
def test_a_vectorizer_takes_one_column_of_text(selected, wrap):
    fitted = transformed(("count", wrap(CountVectorizer()), selected))

    found = features_of(fitted)
    assert found.columns == columns("note", note=True)
    assert found.examples == {"note": "text"}


def test_text_of_any_transformer_decides():
    fitted = transformed(
        ("first", OneHotEncoder(), ["city", "size"]),
        ("second", SimpleImputer(strategy="most_frequent"), ["size", "city", "rooms"]),
    )

    found = features_of(fitted)
    assert found.columns == columns("city", "size", "rooms", city=True)
    assert found.examples == {"city": "Bonn", "size": 1.5, "rooms": 1}


def test_text_is_preferred_to_a_number_for_the_same_column():
    encode = FunctionTransformer(lambda frame: frame.map(len))
    fitted = transformed(
        ("length", make_pipeline(encode, SimpleImputer()), ["city"]),
        ("encode", OneHotEncoder(), ["city"]),
        ("again", make_pipeline(encode, SimpleImputer()), ["city"]),
    )

    assert features_of(fitted).examples == {"city": "Bonn"}


def test_an_example_is_a_plain_number():
    found = features_of(OneHotEncoder().fit(FRAME[["rooms"]]))

    assert found.examples == {"rooms": 1}
    assert type(found.examples["rooms"]) is int


def test_an_example_is_never_a_missing_value():
    frame = pd.DataFrame({"a": [np.nan, 1.0, 2.0], "b": [np.nan] * 3, "c": [np.nan, "q", "r"]})

    found = features_of(OrdinalEncoder().fit(frame))

    assert found.examples == {"a": 1.0, "c": "q"}
    assert found.columns == columns("a", "b", "c", c=True)


def test_a_pipeline_says_what_any_of_its_steps_knows():
    fitted = transformed(("both", make_pipeline(FunctionTransformer(), OneHotEncoder()), ["city"]))

    assert features_of(fitted).examples == {"city": "Bonn"}


def test_a_step_that_drops_columns_says_nothing_about_the_others():
    fitted = make_pipeline(VarianceThreshold(1), OneHotEncoder()).fit(NUMBERS, PRICES)

    assert features_of(make_pipeline(fitted, LinearRegression())).count == 2
    assert features_of(
        ColumnTransformer([("a", fitted, ["size", "rooms"])]).fit(FRAME, PRICES)
    ).columns == columns("size", "rooms")


def test_a_column_transformer_within_another_takes_the_columns_that_it_is_given():
    inner = ColumnTransformer([("encode", OneHotEncoder(), [1])], remainder="passthrough")
    fitted = transformed(
        ("both", make_pipeline(inner, StandardScaler(with_mean=False)), ["size", "city"])
    )

    assert features_of(fitted).columns == columns("city", "size", city=True)


def test_a_union_takes_the_columns_of_all_its_transformers():
    encode = ColumnTransformer([("encode", OneHotEncoder(), ["city"])])
    scale = ColumnTransformer([("scale", StandardScaler(), ["size"])])
    fitted = FeatureUnion([("a", encode), ("b", scale), ("c", "drop")]).fit(FRAME)

    assert features_of(make_pipeline(fitted)).columns == columns("city", "size", city=True)


def test_gradient_boosting_encodes_its_categories_itself():
    frame = FRAME.assign(city=FRAME["city"].astype("category"))[["city", "size"]]
    fitted = HistGradientBoostingRegressor(max_iter=1, categorical_features="from_dtype").fit(
        frame, PRICES
    )

    assert features_of(make_pipeline(fitted)).columns == columns("city", "size", city=True)


class OlderBoosting:
    """Gradient boosting of a version that keeps its categories elsewhere."""

    def __init__(self, is_categorical):
        self.feature_names_in_ = np.array(["city", "size"], dtype=object)
        self.is_categorical_ = is_categorical


def test_categories_that_cannot_be_identified_are_refused():
    with pytest.raises(InvalidConfig) as caught:
        features_of(OlderBoosting(np.array([True, False])))

    assert caught.value.message == (
        "the categories of OlderBoosting are unknown in this version of scikit-learn: save the "
        "model with the version of the image"
    )
    for none in (np.array([False, False]), None):
        assert features_of(OlderBoosting(none)).columns is None


def test_names_that_are_not_text_are_read_as_text():
    fitted = OlderBoosting(None)
    fitted.feature_names_in_ = np.array([1, 2], dtype=object)

    assert features_of(fitted).names == ("1", "2")


SCALER, ENCODER = StandardScaler(), OneHotEncoder()
LENGTHS = FunctionTransformer(len)
BAGGING = BaggingRegressor(LinearRegression(), n_estimators=2).fit(NUMBERS, PRICES)


@pytest.mark.parametrize(
    ("estimator", "steps"),
    [
        (make_pipeline(SCALER, "passthrough", None, FunctionTransformer(), LENGTHS),
         [SCALER, LENGTHS]),
        (FeatureUnion([("a", SCALER), ("b", "drop"), ("c", LENGTHS)]), [SCALER, LENGTHS]),
        (ColumnTransformer([("a", SCALER, [0]), ("b", "drop", [1])]), [SCALER]),
        (BAGGING, BAGGING.estimators_[:1]),
        (SCALER, None),
        (type("Special", (Pipeline,), {})([("a", SCALER)]), None),
    ],
    ids=["pipeline", "union", "column transformer", "ensemble", "one", "subclass"],
)  # fmt: skip
def test_steps_are_those_that_change_something(estimator, steps):
    assert steps_of(estimator) == steps


def test_the_steps_of_a_fitted_column_transformer_are_the_fitted_ones():
    fitted = transformed(("a", SCALER, ["size"]), remainder=ENCODER)

    assert [type(step) for step in steps_of(fitted)] == [StandardScaler, OneHotEncoder]
    assert steps_of(fitted)[0] is not SCALER
