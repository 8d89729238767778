"""Folders that MLflow logged; the MLmodel files follow those of MLflow 2 and 3."""

import json
import pickle
import shutil
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
import yaml
from sklearn.linear_model import LogisticRegression

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.tables.mlflow import MlflowBackend
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import InferRequest, RequestedOutput, Signature
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules

DIGITS = Path(__file__).parents[4] / "examples" / "01-digits" / "model.onnx"
RANDOM = np.random.default_rng(5)
FRAME = pd.DataFrame({"sepal width": RANDOM.normal(size=40), "count": np.arange(40) % 7})
ROWS = FRAME.to_numpy(dtype=float)
LABELS = (ROWS[:, 0] > 0).astype(int)
COLUMNS = [
    {"type": "double", "name": "sepal width", "required": True},
    {"type": "long", "name": "count", "required": True},
]
MATRIX = [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, 2]}}]
LABEL = [{"type": "long", "name": "label", "required": True}]


def logged(
    folder: Path, flavor: str, fields, inputs=None, outputs=None, predict_fn="predict"
) -> Path:
    """Write MLmodel as MLflow does: the two sides of a signature are JSON in YAML."""
    document = {
        "artifact_path": "model",
        "flavors": {
            "python_function": {
                "loader_module": f"mlflow.{flavor}",
                "python_version": "3.11.7",
                "predict_fn": predict_fn,
            },
            flavor: fields,
        },
        "mlflow_version": "2.22.0",
    }
    if inputs is not None:
        sides = {"inputs": json.dumps(inputs), "outputs": None, "params": None}
        if outputs is not None:
            sides["outputs"] = json.dumps(outputs)
        document["signature"] = sides
    (folder / "MLmodel").write_text(yaml.safe_dump(document))
    return folder / "MLmodel"


def loaded(path: Path, *, trusted=True, **options):
    options = {"options": {"allow_pickle": trusted}, **options}
    return MlflowBackend(OnnxBackend()).load(ModelSource("m", "1", path, **options))


def ask(model, *tensors, outputs=()):
    request = InferRequest("m", "1", tuple(tensors), tuple(map(RequestedOutput, outputs)))
    RequestRules(model.inputs, model.outputs, dynamic=False).check(request)
    return {tensor.name: tensor.array for tensor in model.infer(request)}


def columns(rows=slice(None)):
    return (
        Tensor("sepal width", Datatype.FP64, ROWS[rows, 0].copy()),
        Tensor("count", Datatype.INT64, ROWS[rows, 1].astype(np.int64)),
    )


@pytest.fixture
def classifier(tmp_path):
    made = LogisticRegression().fit(FRAME, LABELS)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(made))
    return made


SKLEARN = {"pickled_model": "model.pkl", "serialization_format": "pickle"}


def test_a_signature_of_columns_names_inputs_and_the_output(tmp_path, classifier):
    model = loaded(logged(tmp_path, "sklearn", SKLEARN, COLUMNS, LABEL))

    assert model.platform == "mlflow_sklearn"
    assert [(spec.name, spec.datatype, spec.shape) for spec in model.inputs] == [
        ("sepal width", Datatype.FP64, (-1,)),
        ("count", Datatype.INT64, (-1,)),
    ]
    assert [spec.name for spec in model.outputs][:2] == ["label", "predict_proba"]
    assert model.signatures["serving_default"] == Signature(
        "predict", {"sepal width": "sepal width", "count": "count"}, {"label": "label"}
    )
    assert np.array_equal(ask(model, *columns())["label"], classifier.predict(FRAME))
    answer = ask(model, *columns(), outputs=("predict_proba", "label"))
    assert np.array_equal(answer["predict_proba"], classifier.predict_proba(FRAME))


def test_the_default_output_is_that_of_mlflow(tmp_path, classifier):
    path = logged(tmp_path, "sklearn", SKLEARN, COLUMNS, predict_fn="predict_proba")
    model = loaded(path)

    assert [spec.name for spec in model.outputs][:2] == ["predict_proba", "predict"]
    answer = ask(model, *columns())
    assert list(answer) == ["predict_proba"]
    assert np.array_equal(answer["predict_proba"], classifier.predict_proba(FRAME))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("score", r"model\.pkl: LogisticRegression cannot answer with score: must be one of pred"),
        (["predict"], r"MLmodel: flavors\.python_function\.predict_fn is \['predict'\]: must be"),
    ],
)
def test_another_method_of_mlflow_is_refused(tmp_path, classifier, method, message):
    assert classifier is not None

    with pytest.raises(InvalidConfig, match=message):
        loaded(logged(tmp_path, "sklearn", SKLEARN, COLUMNS, predict_fn=method))


def test_a_signature_of_one_tensor_is_a_matrix(tmp_path, classifier):
    model = loaded(logged(tmp_path, "sklearn", SKLEARN, MATRIX))

    assert model.inputs == (TensorSpec("input-0", Datatype.FP64, (-1, 2), any_number=True),)
    answer = ask(model, Tensor("input-0", Datatype.FP64, ROWS))
    assert np.array_equal(answer["predict"], classifier.predict(FRAME))


def test_without_a_signature_the_file_decides(tmp_path, classifier):
    assert classifier is not None

    model = loaded(logged(tmp_path, "sklearn", SKLEARN))

    assert [spec.name for spec in model.inputs] == ["input-0"]
    assert model.outputs[0].name == "predict"


def test_a_pickle_in_the_folder_needs_trust(tmp_path, classifier):
    assert classifier is not None

    with pytest.raises(InvalidConfig, match=r"model\.pkl is a pickle.*spec\.model\.trusted"):
        loaded(logged(tmp_path, "sklearn", SKLEARN), trusted=False)


def test_a_booster_of_xgboost(tmp_path):
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(FRAME, LABELS), 3)
    booster.save_model(tmp_path / "model.ubj")
    shutil.move(tmp_path / "model.ubj", tmp_path / "model.xgb")
    fields = {"data": "model.xgb", "model_class": "xgboost.core.Booster", "model_format": "xgb"}

    model = loaded(logged(tmp_path, "xgboost", fields, COLUMNS), trusted=False)

    expected = booster.predict(xgboost.DMatrix(FRAME))
    assert np.array_equal(ask(model, *columns())["predict"], expected)


def test_a_classifier_of_xgboost_predicts_labels(tmp_path):
    made = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(FRAME, LABELS)
    made.save_model(tmp_path / "model.json")
    fields = {"data": "model.json", "model_class": "xgboost.sklearn.XGBClassifier"}

    model = loaded(logged(tmp_path, "xgboost", fields, COLUMNS, LABEL), trusted=False)

    answer = ask(model, *columns(), outputs=("label", "predict_proba"))
    assert np.array_equal(answer["label"], made.predict(FRAME))
    assert np.array_equal(answer["predict_proba"], made.predict_proba(FRAME))


def test_a_booster_of_lightgbm_whose_names_have_spaces(tmp_path):
    settings = {"objective": "binary", "num_threads": 1, "verbosity": -1, "min_data_in_leaf": 3}
    booster = lightgbm.train(settings, lightgbm.Dataset(FRAME, LABELS), 3)
    booster.save_model(tmp_path / "model.lgb")
    fields = {"data": "model.lgb", "lgb_class": "lightgbm.basic.Booster"}

    model = loaded(logged(tmp_path, "lightgbm", fields, COLUMNS[::-1]), trusted=False)

    assert np.array_equal(ask(model, *columns())["predict"], booster.predict(FRAME))


@pytest.mark.parametrize("file", ["model.pkl", "model.skops"])
def test_an_estimator_of_lightgbm_is_not_text(tmp_path, file):
    made = lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbosity=-1, min_child_samples=3)
    made.fit(FRAME, LABELS)
    if file == "model.pkl":
        (tmp_path / file).write_bytes(pickle.dumps(made))
    else:
        skops.io.dump(made, tmp_path / file)
    fields = {"data": file, "lgb_class": "lightgbm.sklearn.LGBMClassifier"}

    model = loaded(logged(tmp_path, "lightgbm", fields, COLUMNS))

    assert np.array_equal(ask(model, *columns())["predict"], made.predict(FRAME))


def test_a_model_of_catboost(tmp_path):
    made = catboost.CatBoostClassifier(
        iterations=3, thread_count=1, verbose=0, allow_writing_files=False
    ).fit(FRAME, LABELS)
    made.save_model(str(tmp_path / "model.cb"))
    fields = {"data": "model.cb", "model_type": "CatBoostClassifier", "save_format": "cbm"}

    model = loaded(logged(tmp_path, "catboost", fields, COLUMNS), trusted=False)

    assert np.array_equal(ask(model, *columns())["predict"], made.predict(FRAME))


def test_an_onnx_graph_describes_its_own_tensors(tmp_path):
    shutil.copy(DIGITS, tmp_path / "model.onnx")
    fields = {"data": "model.onnx", "onnx_version": "1.18.0"}

    model = loaded(logged(tmp_path, "onnx", fields, MATRIX), trusted=False)

    assert model.platform == "mlflow_onnx"
    assert [spec.name for spec in model.inputs] == ["image"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            [{"type": "datetime", "name": "day"}],
            r"signature\.inputs\[0\]\.type is 'datetime' for column 'day': must be tensor or one",
        ),
        (
            [COLUMNS[0], {"type": "array", "items": {"type": "long"}, "name": "count"}],
            r"signature\.inputs\[1\]\.type is 'array'",
        ),
        (
            [{"type": "tensor", "tensor-spec": {"dtype": "complex64", "shape": [-1]}}],
            r"signature\.inputs\[0\]\.tensor-spec\.dtype is 'complex64'",
        ),
        (
            [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, "two"]}}],
            r"signature\.inputs\[0\]\.tensor-spec\.shape",
        ),
        (
            [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, 3]}}],
            r"signature: inputs\[0\]\.shape is \[-1, 3\]: must be \[-1, 2\]",
        ),
        ({"a": 1}, r"signature\.inputs is invalid: must be a list"),
        ([3], r"signature\.inputs\[0\] is 3: must be a mapping"),
        (
            [COLUMNS[0], {"type": "long", "name": "other"}],
            r"signature: inputs\[1\]\.name is 'other': must be a column of model\.pkl",
        ),
        ([COLUMNS[0]], "signature: inputs has 1 tensors: must have 2.*'count' is missing"),
    ],
)
def test_an_invalid_signature_is_reported_with_its_field(tmp_path, classifier, inputs, message):
    assert classifier is not None

    with pytest.raises(InvalidConfig, match=f"MLmodel: {message}"):
        loaded(logged(tmp_path, "sklearn", SKLEARN, inputs))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "MLmodel is not valid YAML"),
        ("3", "MLmodel is invalid: must be a mapping"),
        ("{}", "MLmodel: flavors is missing"),
        ("flavors: [a]", "MLmodel: flavors is missing"),
        (
            "flavors: {python_function: {loader_module: my.code}, keras: {}}",
            r"flavors has python_function, keras \(loaded by my\.code\): must have one of sklearn",
        ),
        (
            "flavors: {xgboost: {data: ../../model.json}}",
            r"flavors\.xgboost\.data is '\.\./\.\./model\.json': must be in the model's folder",
        ),
        (
            "flavors: {xgboost: {data: /etc/model.json}}",
            r"flavors\.xgboost\.data is '/etc/model\.json': must be in the model's folder",
        ),
        ("flavors: {xgboost: {data: none.ubj}}", r"flavors\.xgboost\.data: there is no file"),
        ("flavors: {catboost: {data: MLmodel, save_format: json}}", "save_format is 'json'"),
        (
            "flavors: {xgboost: {data: MLmodel, model_class: xgboost.sklearn.XGBOther}}",
            "XGBoost has no class 'XGBOther'",
        ),
    ],
)
def test_an_invalid_folder_is_reported(tmp_path, content, message):
    (tmp_path / "MLmodel").write_text(content)

    with pytest.raises(InvalidConfig, match=message):
        loaded(tmp_path / "MLmodel")


def test_files_can_be_links_to_another_folder(tmp_path, classifier):
    assert classifier is not None
    file = logged(tmp_path, "sklearn", SKLEARN, COLUMNS)
    links = tmp_path / "linked"
    links.mkdir()
    for name in ("MLmodel", "model.pkl"):
        (links / name).symlink_to(file.parent / name)

    assert loaded(links / "MLmodel").platform == "mlflow_sklearn"


def test_a_column_with_another_datatype_is_refused(tmp_path, classifier):
    assert classifier is not None
    model = loaded(logged(tmp_path, "sklearn", SKLEARN, COLUMNS))
    text = Tensor("count", Datatype.BYTES, np.array([b"1"], np.object_))

    with pytest.raises(InvalidRequest, match="'count' has datatype BYTES: must be INT64"):
        ask(model, columns(slice(0, 1))[0], text)


@pytest.mark.parametrize("count", [2.5, np.nan])
def test_a_number_that_the_column_cannot_hold_is_refused(tmp_path, classifier, count):
    assert classifier is not None
    model = loaded(logged(tmp_path, "sklearn", SKLEARN, COLUMNS))
    fraction = Tensor("count", Datatype.FP64, np.array([count]))

    with pytest.raises(InvalidRequest, match=f"'count' contains {count}: must be an integer"):
        ask(model, columns(slice(0, 1))[0], fraction)
