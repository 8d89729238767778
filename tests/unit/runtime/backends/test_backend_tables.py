"""XGBoost, LightGBM and CatBoost: answers equal those of the library itself."""

import json
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.tables.catboost import CatboostBackend
from moorage_runtime.backends.tables.lightgbm import LightgbmBackend
from moorage_runtime.backends.tables.xgboost import XgboostBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules

RANDOM = np.random.default_rng(7)
ROWS = RANDOM.normal(size=(120, 3))
HALVES = (ROWS[:, 0] > 0).astype(int)
THIRDS = RANDOM.integers(0, 3, 120)
CITIES = ["Aachen", "Bonn", "Łódź"]
# XGBoost damages other names.
ASCII_CITIES = ["Aachen", "Bonn", "Lodz"]
NAMES = {"xgboost": ASCII_CITIES, "lightgbm": CITIES, "catboost": CITIES}
FRAME = pd.DataFrame(
    {
        "city": pd.Categorical([CITIES[index] for index in THIRDS]),
        "size": ROWS[:, 0],
    }
)
BY_CITY = HALVES * (THIRDS < 2)
OUTPUT = TensorSpec("predict", Datatype.FP32, (-1,))
NUMBER = st.floats(-1e6, 1e6, width=32) | st.just(float("nan"))


def loaded(backend, path: Path, **options):
    return backend().load(ModelSource("m", "1", path, **options))


def ask(model, *tensors, outputs=()):
    request = InferRequest("m", "1", tuple(tensors), tuple(map(RequestedOutput, outputs)))
    RequestRules(model.inputs, model.outputs, dynamic=False).check(request)
    return {tensor.name: tensor.array for tensor in model.infer(request)}


def matrix(rows, datatype=Datatype.FP64) -> Tensor:
    return Tensor("input-0", datatype, np.asarray(rows, NUMPY_DTYPE[datatype]))


def words(name, values) -> Tensor:
    return Tensor(name, Datatype.BYTES, np.array([value.encode() for value in values], np.object_))


def numbers(name, values) -> Tensor:
    return Tensor(name, Datatype.FP64, np.asarray(values, np.float64))


def boosted(objective: str, target, **extra):
    parameters = {"objective": objective, "nthread": 1, **extra}
    return xgboost.train(parameters, xgboost.DMatrix(ROWS, target), 3)


def grown(objective: str, target, data=ROWS, **extra):
    parameters = {"objective": objective, "num_threads": 1, "verbosity": -1}
    small = {"min_data_in_leaf": 3, "min_data_per_group": 1}
    return lightgbm.train({**parameters, **small, **extra}, lightgbm.Dataset(data, target), 3)


def trained(kind, target, data=ROWS, **extra):
    model = kind(iterations=3, thread_count=1, verbose=0, allow_writing_files=False, **extra)
    return model.fit(data, target)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def cases(folder):
    """Kind of model -> the served model, and the library's own answer for rows."""
    binary = boosted("binary:logistic", HALVES)
    classes = boosted("multi:softprob", THIRDS, num_class=3)
    several = boosted("reg:squarederror", ROWS[:, :2])
    vectors = boosted("reg:squarederror", ROWS[:, :2], multi_strategy="multi_output_tree")
    vectors.save_model(folder / "vectors.ubj")
    pruned = boosted("reg:squarederror", ROWS[:, 0], tree_method="exact", gamma=2.0)
    pruned.save_model(folder / "pruned.json")
    dart = boosted("reg:squarederror", ROWS[:, 0], booster="dart", rate_drop=0.5)
    dart.save_model(folder / "dart.ubj")
    linear = boosted("reg:squarederror", ROWS[:, 0], booster="gblinear")
    binary.save_model(folder / "binary.json")
    classes.save_model(folder / "classes.ubj")
    several.save_model(folder / "several.ubj")
    linear.save_model(folder / "linear.json")
    found = {
        name: (loaded(XgboostBackend, folder / file), of_xgboost(booster))
        for name, file, booster in (
            ("xgboost binary", "binary.json", binary),
            ("xgboost classes", "classes.ubj", classes),
            ("xgboost several targets", "several.ubj", several),
            ("xgboost linear", "linear.json", linear),
            ("xgboost dart", "dart.ubj", dart),
            ("xgboost several targets per leaf", "vectors.ubj", vectors),
            ("xgboost with deleted nodes", "pruned.json", pruned),
        )
    }
    for name, booster in (
        ("lightgbm binary", grown("binary", HALVES)),
        ("lightgbm classes", grown("multiclass", THIRDS, num_class=3)),
        ("lightgbm regression", grown("regression", ROWS[:, 0])),
        (
            "lightgbm forest",
            grown("binary", HALVES, boosting="rf", bagging_freq=1, bagging_fraction=0.5),
        ),
        ("lightgbm linear trees", grown("regression", ROWS[:, 0], linear_tree=True)),
    ):
        booster.save_model(folder / f"{name}.txt")
        model = loaded(LightgbmBackend, folder / f"{name}.txt")
        found[name] = (model, booster.predict)
    for name, made in (
        ("catboost binary", trained(catboost.CatBoostClassifier, HALVES)),
        ("catboost labels", trained(catboost.CatBoostClassifier, np.array(CITIES)[THIRDS])),
        (
            "catboost counts",
            trained(catboost.CatBoostRegressor, THIRDS, loss_function="Poisson"),
        ),
    ):
        made.save_model(str(folder / f"{name}.cbm"))
        found[name] = (loaded(CatboostBackend, folder / f"{name}.cbm"), made.predict)
    return found


def of_xgboost(booster):
    return lambda rows: booster.predict(xgboost.DMatrix(rows))


@pytest.mark.parametrize(
    ("name", "platform", "shape", "datatype"),
    [
        ("xgboost binary", "xgboost_json", (-1,), "FP32"),
        ("xgboost classes", "xgboost_ubj", (-1, 3), "FP32"),
        ("xgboost several targets", "xgboost_ubj", (-1, 2), "FP32"),
        ("xgboost linear", "xgboost_json", (-1,), "FP32"),
        ("lightgbm binary", "lightgbm_text", (-1,), "FP64"),
        ("lightgbm classes", "lightgbm_text", (-1, 3), "FP64"),
        ("lightgbm regression", "lightgbm_text", (-1,), "FP64"),
        ("catboost binary", "catboost_cbm", (-1,), "INT64"),
        ("catboost labels", "catboost_cbm", (-1,), "BYTES"),
        ("catboost counts", "catboost_cbm", (-1,), "FP64"),
    ],
)
def test_a_file_of_numbers_has_one_matrix_and_the_output_of_its_objective(
    cases, name, platform, shape, datatype
):
    model, _ = cases[name]

    assert model.platform == platform
    assert [(spec.name, spec.shape, spec.any_number) for spec in model.inputs] == [
        ("input-0", (-1, 3), True)
    ]
    assert model.outputs[0] == TensorSpec("predict", Datatype(datatype), shape)
    assert model.merge_obstacle == ""


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    rows=st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=9),
    datatype=st.sampled_from([Datatype.FP32, Datatype.FP64]),
)
def test_answers_equal_those_of_the_library(cases, data, rows, datatype):
    name = data.draw(st.sampled_from(sorted(cases)))
    model, library = cases[name]
    values = np.array(rows, NUMPY_DTYPE[datatype]).reshape(-1, 3)

    answer = ask(model, matrix(values, datatype))["predict"]

    assert len(answer) == len(rows)
    if rows:
        expected = np.asarray(library(values))
        if answer.dtype == np.object_:
            expected = np.array([str(item).encode() for item in expected.reshape(-1)], np.object_)
        assert np.array_equal(answer, expected.reshape(answer.shape))


def test_rows_of_a_batch_do_not_influence_each_other(cases):
    for model, _ in cases.values():
        whole = ask(model, matrix(ROWS[:8]))["predict"]
        parts = [ask(model, matrix(ROWS[i : i + 1]))["predict"] for i in range(8)]

        assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (matrix([[1.0, 2.0]]), r"'input-0' has shape \[1, 2\]: must be \[-1, 3\]"),
        (matrix([[1.0, 2.0, 3.0, 4.0]]), r"'input-0' has shape \[1, 4\]: must be \[-1, 3\]"),
        (matrix([1.0, 2.0, 3.0]), r"'input-0' has shape \[3\]: must be \[-1, 3\]"),
        (
            Tensor("input-0", Datatype.BYTES, np.full((1, 3), b"1", np.object_)),
            "'input-0' has datatype BYTES: must be FP",
        ),
    ],
)
def test_a_wrong_matrix_is_refused(cases, tensor, message):
    for model, _ in cases.values():
        with pytest.raises(InvalidRequest, match=message):
            ask(model, tensor)


def test_a_classifier_of_catboost_gives_probabilities_on_request(cases, folder):
    model, _ = cases["catboost labels"]
    library = catboost.CatBoostClassifier().load_model(str(folder / "catboost labels.cbm"))

    answer = ask(model, matrix(ROWS[:5]), outputs=("predict_proba", "predict"))

    assert model.outputs[1] == TensorSpec("predict_proba", Datatype.FP64, (-1, 3), optional=True)
    assert np.array_equal(answer["predict_proba"], library.predict_proba(ROWS[:5]))
    assert set(answer["predict"]) <= {city.encode() for city in CITIES}


@pytest.mark.parametrize("name", ["xgboost linear", "xgboost dart"])
def test_infinity_is_refused_if_xgboost_refuses_it(cases, name):
    model, _ = cases[name]

    with pytest.raises(InvalidRequest, match="contains infinity"):
        ask(model, matrix([[np.inf, 0.0, 0.0]]))


def test_early_stopping_by_the_interface_of_scikit_learn_is_respected(tmp_path):
    interface = xgboost.XGBClassifier(n_estimators=30, n_jobs=1, early_stopping_rounds=1)
    interface.fit(ROWS[:60], HALVES[:60], eval_set=[(ROWS[60:], THIRDS[60:] > 1)], verbose=False)
    interface.save_model(tmp_path / "model.json")
    unlimited = interface.get_booster().predict(xgboost.DMatrix(ROWS), iteration_range=(0, 0))

    answer = ask(loaded(XgboostBackend, tmp_path / "model.json"), matrix(ROWS))["predict"]

    assert np.array_equal(answer, interface.predict_proba(ROWS)[:, 1])
    assert not np.array_equal(answer, unlimited)


# Columns of text: one input per column.


@pytest.fixture(scope="module")
def with_cities(folder):
    """Library -> the served model, and the library's own answer for a frame."""
    parameters = {"nthread": 1, "objective": "binary:logistic"}
    frame = FRAME.assign(city=FRAME["city"].cat.rename_categories(ASCII_CITIES))
    booster = xgboost.train(
        parameters, xgboost.DMatrix(frame, BY_CITY, enable_categorical=True), 3
    )
    booster.save_model(folder / "cities.ubj")
    forest = grown("binary", BY_CITY, FRAME)
    forest.save_model(folder / "cities.txt")
    plain = FRAME.assign(city=FRAME["city"].astype(str))
    cat = trained(catboost.CatBoostRegressor, BY_CITY, plain, cat_features=["city"])
    cat.save_model(str(folder / "cities.cbm"))
    return {
        "xgboost": (
            loaded(XgboostBackend, folder / "cities.ubj"),
            lambda frame: booster.predict(xgboost.DMatrix(frame, enable_categorical=True)),
        ),
        "lightgbm": (loaded(LightgbmBackend, folder / "cities.txt"), forest.predict),
        "catboost": (
            loaded(CatboostBackend, folder / "cities.cbm"),
            lambda frame: cat.predict(frame.assign(city=frame["city"].astype(str))),
        ),
    }


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_text_columns_are_inputs_of_their_own(with_cities, library):
    model, _ = with_cities[library]

    assert [(spec.name, spec.datatype is Datatype.BYTES, spec.shape) for spec in model.inputs] == [
        ("city", True, (-1,)),
        ("size", False, (-1,)),
    ]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from(range(3)), NUMBER), max_size=6))
def test_answers_for_columns_equal_those_of_the_library(with_cities, library, rows):
    model, own = with_cities[library]
    names = NAMES[library]
    cities, sizes = [names[place] for place, _ in rows], [size for _, size in rows]

    answer = ask(model, numbers("size", sizes), words("city", cities))["predict"]

    assert len(answer) == len(rows)
    if rows:
        kinds = pd.Categorical(cities, categories=names)
        frame = pd.DataFrame({"city": kinds, "size": np.array(sizes)})
        assert np.array_equal(answer, own(frame))


def test_categories_of_catboost_can_be_declared_as_numbers(tmp_path):
    frame = pd.DataFrame({"code": THIRDS, "sunny": THIRDS == 1, "size": ROWS[:, 0]})
    made = trained(catboost.CatBoostRegressor, BY_CITY, frame, cat_features=["code", "sunny"])
    made.save_model(str(tmp_path / "model.cbm"))
    declared = tuple(
        TensorSpec(name, datatype, (-1,))
        for name, datatype in (
            ("code", Datatype.INT64),
            ("sunny", Datatype.BOOL),
            ("size", Datatype.FP32),
        )
    )
    model = loaded(CatboostBackend, tmp_path / "model.cbm", inputs=declared)
    text = loaded(CatboostBackend, tmp_path / "model.cbm")

    answer = ask(
        model,
        Tensor("code", Datatype.INT64, THIRDS),
        Tensor("sunny", Datatype.BOOL, THIRDS == 1),
        numbers("size", ROWS[:, 0]),
    )["predict"]
    written = ask(
        text,
        words("code", map(str, THIRDS)),
        words("sunny", ["1" if code == 1 else "0" for code in THIRDS]),
        numbers("size", ROWS[:, 0]),
    )["predict"]

    assert np.array_equal(answer, made.predict(frame))
    assert np.array_equal(answer, written)


@pytest.mark.parametrize("cities", [["Bergen", "São"], ["Zürich", "東京"]])
def test_names_of_categories_that_xgboost_damages_are_refused(tmp_path, cities):
    kinds = pd.Categorical.from_codes(FRAME["city"].cat.codes % 2, cities)
    rows = xgboost.DMatrix(FRAME.assign(city=kinds), HALVES, enable_categorical=True)
    xgboost.train({"nthread": 1}, rows, 1).save_model(tmp_path / "model.ubj")

    with pytest.raises(InvalidConfig, match=r"model\.ubj has categories that are not ASCII text"):
        loaded(XgboostBackend, tmp_path / "model.ubj")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_an_unknown_category_is_a_missing_value(with_cities, library):
    model, own = with_cities[library]
    missing = pd.Categorical.from_codes([-1], pd.Index(CITIES))

    answer = ask(model, words("city", ["Ulm"]), numbers("size", [0.5]))["predict"]

    assert np.array_equal(answer, own(pd.DataFrame({"city": missing, "size": [0.5]})))


@pytest.fixture(scope="module")
def with_numbered_categories(folder):
    """Categories -> LightGBM's served model, and its own answer for a frame."""
    found = {}
    for name, choices in (("booleans", [False, True]), ("integers", [2, 5]), ("floats", [0.5, 1])):
        city = pd.Categorical([choices[half] for half in HALVES])
        # the size says nothing about the city
        frame = pd.DataFrame({"city": city, "size": ROWS[:, 1]})
        forest = grown("regression", HALVES + ROWS[:, 1], frame, cat_smooth=0)
        forest.save_model(folder / f"{name}.txt")
        found[name] = (loaded(LightgbmBackend, folder / f"{name}.txt"), forest.predict)
    return found


def own_answer(own, choices, code):
    city = pd.Categorical.from_codes([code], pd.Index(choices))
    return own(pd.DataFrame({"city": city, "size": [0.5]}))


@pytest.mark.parametrize(
    ("name", "datatype", "choices"),
    [
        ("booleans", Datatype.BOOL, [False, True]),
        ("booleans", Datatype.INT64, [False, True]),
        ("integers", Datatype.INT64, [2, 5]),
        ("integers", Datatype.FP16, [2, 5]),
        ("floats", Datatype.FP64, [0.5, 1.0]),
        ("floats", Datatype.FP32, [0.5, 1.0]),
    ],
)
def test_categories_may_be_numbers_of_any_datatype(
    with_numbered_categories, name, datatype, choices
):
    model, own = with_numbered_categories[name]

    for code, choice in enumerate(choices):
        city = Tensor("city", datatype, np.array([choice], NUMPY_DTYPE[datatype]))
        answer = ask(model, city, numbers("size", [0.5]))["predict"]

        assert np.array_equal(answer, own_answer(own, choices, code))


@pytest.mark.parametrize("value", [2.5, 4.9, np.nan, 7.0])
def test_a_number_between_two_categories_is_a_missing_value(with_numbered_categories, value):
    model, own = with_numbered_categories["integers"]

    answer = ask(model, numbers("city", [value]), numbers("size", [0.5]))["predict"]

    assert np.array_equal(answer, own_answer(own, [2, 5], -1))


def test_the_datatype_of_a_column_is_that_of_its_categories(with_numbered_categories):
    found = {name: model.inputs[0] for name, (model, _) in with_numbered_categories.items()}

    assert {name: str(spec.datatype) for name, spec in found.items()} == {
        "booleans": "BOOL",
        "integers": "INT64",
        "floats": "FP64",
    }


def test_a_column_may_be_a_matrix_of_one_column(with_cities):
    model, _ = with_cities["catboost"]
    city = words("city", ["Bonn", "Bonn"])
    tall = Tensor("city", Datatype.BYTES, city.array.reshape(2, 1))
    size = numbers("size", [1.0, 2.0])

    assert np.array_equal(ask(model, tall, size)["predict"], ask(model, city, size)["predict"])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([words("city", ["Bonn"])], "input 'size' is missing"),
        (
            [words("city", ["Bonn"]), numbers("size", [1.0, 2.0])],
            r"'size' has shape \[2\]: must have 1 rows, as input 'city'",
        ),
        (
            [words("city", ["Bonn"]), numbers("size", [[1.0, 2.0]])],
            r"'size' has shape \[1, 2\]: must be \[-1\] or \[-1, 1\]",
        ),
        (
            [numbers("city", [1.0]), numbers("size", [1.0])],
            "'city' has datatype FP64: must be BYTES",
        ),
        (
            [words("city", ["Bonn"]), words("size", ["1"])],
            "'size' has datatype BYTES: must be FP",
        ),
    ],
)
def test_wrong_columns_are_refused(with_cities, tensors, message):
    for model, _ in with_cities.values():
        with pytest.raises(InvalidRequest, match=message):
            ask(model, *tensors)


# Declarations in model.yaml.

CITY = TensorSpec("city", Datatype.BYTES, (-1,))
SIZE = TensorSpec("size", Datatype.FP32, (-1,))


def test_declared_columns_may_have_another_order(with_cities, folder):
    model = loaded(CatboostBackend, folder / "cities.cbm", inputs=(SIZE, CITY))

    answer = ask(model, words("city", ["Bonn"]), numbers("size", [1.0]))["predict"]

    first, _ = with_cities["catboost"]
    expected = ask(first, words("city", ["Bonn"]), numbers("size", [1.0]))["predict"]
    assert np.array_equal(answer, expected)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((CITY,), "inputs has 1 tensors: must have 2.*'size' is missing"),
        (
            (CITY, TensorSpec("weight", Datatype.FP32, (-1,))),
            r"inputs\[1\]\.name is 'weight': must be a column of cities\.cbm: city, size",
        ),
        ((CITY, TensorSpec("size", Datatype.BYTES, (-1,))), r"inputs\[1\]\.datatype is BYTES"),
        (
            (TensorSpec("city", Datatype.FP64, (-1,)), SIZE),
            r"inputs\[0\]\.datatype is FP64: must be BYTES, BOOL or a type of whole numbers, bec",
        ),
        (
            (CITY, TensorSpec("size", Datatype.FP32, (-1, 2))),
            r"inputs\[1\]\.shape is \[-1, 2\]: must be \[-1\]",
        ),
        ((CITY, TensorSpec("size", Datatype.BF16, (-1,))), r"inputs\[1\]\.datatype is BF16"),
        (
            (TensorSpec("x", Datatype.FP32, (-1, 2)),),
            "inputs has one tensor, 'x' of FP32: must be one input per column",
        ),
    ],
)
def test_a_declaration_that_contradicts_the_file_is_refused(with_cities, folder, inputs, message):
    assert with_cities

    with pytest.raises(InvalidConfig, match=rf"model\.yaml: {message}"):
        loaded(CatboostBackend, folder / "cities.cbm", inputs=inputs)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"inputs": (TensorSpec("x", Datatype.FP32, (-1, 4)),)},
            r"inputs\[0\]\.shape is \[-1, 4\]: must be \[-1, 3\]",
        ),
        ({"outputs": (TensorSpec("y", Datatype.FP32, (-1,)),)}, r"has no 'y'.*predict"),
        (
            {"outputs": (TensorSpec("predict", Datatype.FP64, (-1,)),)},
            r"'predict' is declared as FP64 \[-1\]: must be FP32",
        ),
    ],
)
def test_a_declared_matrix_or_output_is_compared_with_the_file(cases, folder, declared, message):
    assert cases

    with pytest.raises(InvalidConfig, match=message):
        loaded(XgboostBackend, folder / "binary.json", **declared)


def test_columns_of_numbers_can_be_declared_as_inputs_of_their_own(cases, folder):
    names = ("a", "b", "c")
    inputs = tuple(TensorSpec(name, Datatype.FP64, (-1,)) for name in names)

    model = loaded(LightgbmBackend, folder / "lightgbm binary.txt", inputs=inputs)
    answer = ask(model, *(numbers(name, ROWS[:4, i]) for i, name in enumerate(names)))

    assert np.array_equal(answer["predict"], cases["lightgbm binary"][1](ROWS[:4]))


# Files that are no models.


@pytest.mark.parametrize(
    ("backend", "file", "content", "reason"),
    [
        (XgboostBackend, "model.json", b"", "neither JSON nor UBJSON"),
        (XgboostBackend, "model.json", b"{}", "learner is missing"),
        (XgboostBackend, "model.json", b'{"learner": 1}', "learner is missing"),
        (XgboostBackend, "model.ubj", b"binf\x00\x00\x00?", "again with save_model('model.json')"),
        (XgboostBackend, "model.ubj", b"{L\x00\x00", "incomplete"),
        (LightgbmBackend, "model.txt", b"", "first line"),
        (LightgbmBackend, "model.txt", b"tree\n", "incomplete"),
        (LightgbmBackend, "model.txt", b"\xff\xfe", "utf-8"),
        (CatboostBackend, "model.cbm", b"", "first bytes"),
        (CatboostBackend, "model.cbm", b"CBM1" + b"\xff" * 50, "incomplete"),
        (
            CatboostBackend,
            "model.cbm",
            b"CBM1\x08\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
            "",
        ),
    ],
)
def test_an_invalid_file_is_reported_without_its_path(tmp_path, backend, file, content, reason):
    (tmp_path / file).write_bytes(content)

    with pytest.raises(InvalidConfig) as caught:
        loaded(backend, tmp_path / file)

    assert caught.value.message.startswith(f"{file} is not a valid ")
    assert reason in caught.value.message
    assert str(tmp_path) not in caught.value.message


@pytest.mark.parametrize(
    ("backend", "file"),
    [
        (XgboostBackend, "binary.json"),
        (XgboostBackend, "classes.ubj"),
        (LightgbmBackend, "cities.txt"),
        (CatboostBackend, "cities.cbm"),
    ],
)
def test_a_file_that_is_cut_off_is_reported(cases, with_cities, folder, tmp_path, backend, file):
    assert cases
    assert with_cities
    content = (folder / file).read_bytes()
    cut = tmp_path / file
    lengths = set(range(0, len(content), max(1, len(content) // 60)))
    if file.endswith(".txt"):
        # what follows the trees is optional, but its parameters must be complete
        end, begun = content.find(b"\nend of trees"), content.find(b"\nparameters:")
        lengths -= set(range(end, begun + len("\nparameters:")))
        lengths -= set(range(content.find(b"\nend of parameters"), len(content)))
    for length in sorted(lengths):
        cut.write_bytes(content[:length])

        with pytest.raises(InvalidConfig, match=f"^{file} is not a valid"):
            loaded(backend, cut)


def test_another_json_file_is_no_model(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"name": "settings"}))

    with pytest.raises(InvalidConfig, match=r"model\.json is not a valid XGBoost model"):
        loaded(XgboostBackend, tmp_path / "model.json")


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"model\.bst is not an XGBoost file.*\.json or \.ubj"):
        loaded(XgboostBackend, tmp_path / "model.bst")
