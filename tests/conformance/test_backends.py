"""Models of every optional backend, in a separate process."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from support import boosters
from support.boosters import FLOWERS, SPECIES
from support.runtime import ROOT, Runtime, running, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

SAVED_MODELS = ROOT / "tests" / "fixtures" / "saved_models"
DIGITS = ROOT / "examples" / "01-digits" / "model.onnx"
BOOSTERS = {"xgboost": "model.json", "lightgbm": "model.txt", "catboost": "model.cbm"}
MLMODEL = "flavors: {xgboost: {data: model.ubj, model_class: xgboost.core.Booster}}\n"


@pytest.fixture(scope="module")
def iris() -> LogisticRegression:
    rows, labels = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=1000).fit(rows, np.array(SPECIES)[labels])


@pytest.fixture(scope="module")
def runtime(tmp_path_factory, iris) -> Iterator[Runtime]:
    """One server with a model of each kind."""
    repository = tmp_path_factory.mktemp("models")
    for name in ("half_plus", "functions"):
        shutil.copytree(SAVED_MODELS / name, repository / name)
    shutil.copytree(SAVED_MODELS / "frozen", repository / "frozen" / "1")
    for name in ("joblib", "skops", "digits", "xgboost", "lightgbm", "catboost", "mlflow"):
        (repository / name).mkdir()
    joblib.dump(iris, repository / "joblib" / "model.joblib")
    skops.io.dump(iris, repository / "skops" / "model.skops")
    shutil.copy(DIGITS, repository / "digits" / "model.onnx")
    (repository / "digits" / "model.yaml").write_text("backend: openvino\n")
    for library, file in BOOSTERS.items():
        boosters.WRITERS[library](repository / library / file)
    (repository / "xgboost" / "metadata.json").write_text("{}")
    # as MLflow logs a booster
    boosters.WRITERS["xgboost"](repository / "mlflow" / "model.ubj")
    (repository / "mlflow" / "requirements.txt").write_text("xgboost\n")
    (repository / "mlflow" / "MLmodel").write_text(MLMODEL)
    with serving(repository, "--allow-pickle=true") as server:
        yield server


def test_a_pickle_is_refused_by_default(tmp_path: Path, iris) -> None:
    for name in ("pickled", "digits"):
        (tmp_path / name).mkdir()
    joblib.dump(iris, tmp_path / "pickled" / "model.joblib")
    shutil.copy(DIGITS, tmp_path / "digits" / "model.onnx")
    with running(f"--model-repository={tmp_path}") as server:
        answer = eventually(
            "the model has failed",
            lambda: server.get("/v2/models/pickled/ready"),
            lambda answer: "--allow-pickle" in answer.text,
            30,
        )

        assert answer.status_code == 503
        assert "model.joblib is a pickle" in answer.json()["error"]


@pytest.mark.parametrize(
    ("model", "platform"),
    [
        ("half_plus", "tensorflow_savedmodel"),
        ("functions", "tensorflow_savedmodel"),
        ("frozen", "tensorflow_graphdef"),
        ("joblib", "sklearn_joblib"),
        ("skops", "sklearn_skops"),
        ("xgboost", "xgboost_json"),
        ("lightgbm", "lightgbm_text"),
        ("catboost", "catboost_cbm"),
        ("mlflow", "mlflow_xgboost"),
        ("digits", "onnx_onnxv1"),
    ],
)
def test_the_platform_follows_the_format(runtime, model, platform):
    assert runtime.get(f"/v2/models/{model}").json()["platform"] == platform


@pytest.mark.parametrize("model", ["xgboost", "lightgbm", "catboost", "mlflow"])
def test_boosted_trees_answer_each_protocol_alike(runtime, model):
    tensor = {"name": "input-0", "datatype": "FP64", "shape": [2, 4], "data": FLOWERS}
    answer = runtime.post(f"/v2/models/{model}/infer", json={"inputs": [tensor]}).json()
    rows = runtime.post(f"/v1/models/{model}:predict", json={"instances": FLOWERS}).json()

    (output,) = answer["outputs"]
    data = np.array(output["data"], object).reshape(output["shape"]).tolist()
    if model == "catboost":
        assert data == ["setosa", "virginica"]
    else:
        assert np.argmax(np.array(data, float), axis=1).tolist() == [0, 2]
    assert rows["predictions"] == data


def test_a_matrix_with_another_number_of_columns_is_refused(runtime):
    tensor = {"name": "input-0", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}

    answer = runtime.post("/v2/models/xgboost/infer", json={"inputs": [tensor]})

    assert answer.status_code == 400
    assert "'input-0' has shape [1, 3]: must be [-1, 4]" in answer.json()["error"]


# Calls of a SavedModel as in TensorFlow Serving's documentation.


@pytest.mark.parametrize(
    ("verb", "body", "expected"),
    [
        ("predict", {"instances": [1.0, 2.0, 5.0]}, {"predictions": [3.5, 4.0, 5.5]}),
        ("predict", {"instances": [[1.0], [2.0]]}, {"predictions": [[3.5], [4.0]]}),
        ("predict", {"inputs": {"x": [[1], [2]]}}, {"outputs": [[3.5], [4.0]]}),
        (
            "predict",
            {"signature_name": "both", "inputs": {"x": [[1.0]], "x2": [[2.0]]}},
            {"outputs": {"both": [[3.5, 4.0]], "y": [[3.5]]}},
        ),
        (
            "regress",
            {"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}, {"x": [2.0]}]},
            {"results": [3.5, 4.0], "result": [3.5, 4.0]},
        ),
        (
            "regress",
            {"signature_name": "regress_x2_to_y3", "context": {"x2": 2.0}, "examples": [{}, {}]},
            {"results": [4.0, 4.0], "result": [4.0, 4.0]},
        ),
        (
            "classify",
            {"signature_name": "classify_x_to_y", "examples": [{"x": 1.0}, {"x": 2.0}]},
            {"results": [[["", 3.5]], [["", 4.0]]], "result": [[["", 3.5]], [["", 4.0]]]},
        ),
        (
            "classify",
            {"signature_name": "classify_both", "examples": [{"x": 1.0, "x2": 2.0}]},
            {
                "results": [[["first", 3.5], ["second", 4.0]]],
                "result": [[["first", 3.5], ["second", 4.0]]],
            },
        ),
    ],
)
def test_a_saved_model_serves_tensorflow_serving_clients(runtime, verb, body, expected):
    answer = runtime.post(f"/v1/models/half_plus:{verb}", json=body)

    assert answer.json() == expected
    assert answer.status_code == 200


def test_the_metadata_of_a_saved_model_is_its_signatures(runtime):
    document = runtime.get("/v1/models/half_plus/metadata").json()

    signatures = document["metadata"]["signature_def"]["signature_def"]
    assert sorted(signatures) == [
        "both",
        "classify_both",
        "classify_x_to_y",
        "regress_x2_to_y3",
        "regress_x_to_y",
        "serving_default",
    ]
    assert signatures["regress_x_to_y"]["method_name"] == "tensorflow/serving/regress"
    assert list(signatures["serving_default"]["inputs"]) == ["x"]


def test_a_saved_model_handles_text(runtime):
    body = {"signature_name": "echo", "instances": ["a", {"b64": "/w=="}]}

    answer = runtime.post("/v1/models/functions:predict", json=body)

    # bytes that are not UTF-8 are returned as base64
    assert answer.json() == {"predictions": ["a", {"b64": "/w=="}]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"signature_name": "regress_x_to_y", "instances": [[1.0]]}, "Expected signature"),
        ({"signature_name": "parse", "instances": ["a"]}, "not found in signature def"),
        ({"instances": [{"x2": [1.0]}]}, "keys must be equal to: x"),
    ],
)
def test_an_invalid_call_of_a_saved_model_is_a_client_error(runtime, body, message):
    answer = runtime.post("/v1/models/half_plus:predict", json=body)

    assert answer.status_code == 400
    assert message in answer.json()["error"]


def infer(runtime: Runtime, model: str, inputs: list[dict], *outputs: str):
    wanted = {"outputs": [{"name": name} for name in outputs]} if outputs else {}
    answer = runtime.post(f"/v2/models/{model}/infer", json={"inputs": inputs, **wanted})
    assert answer.status_code == 200, answer.text
    return {item["name"]: item["data"] for item in answer.json()["outputs"]}


def floats(name: str, rows: list, datatype: str = "FP32") -> dict:
    return {"name": name, "datatype": datatype, "shape": list(np.shape(rows)), "data": rows}


@pytest.mark.parametrize(
    ("model", "inputs", "outputs", "expected"),
    [
        ("half_plus", [floats("x", [[1.0]])], [], {"y": [3.5]}),
        ("half_plus", [floats("x2", [[4.0]])], ["outputs"], {"outputs": [5.0]}),
        ("functions", [floats("rows", [[0, 1.0, 0, 0]])], [], {"best": [2], "scores": [3, 4, 5]}),
        ("frozen", [floats("x", [1.0, 2.0])], [], {"z": [7.0, 8.0]}),
    ],
)
def test_tensorflow_models_answer_open_inference_clients(
    runtime, model, inputs, outputs, expected
):
    assert infer(runtime, model, inputs, *outputs) == expected


@pytest.mark.parametrize("model", ["joblib", "skops"])
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_an_estimator_answers_every_protocol(runtime, iris, model, datatype):
    flowers = floats("input-0", FLOWERS, datatype)
    exact = np.array(FLOWERS, {"FP32": np.float32, "FP64": np.float64}[datatype])
    probabilities = iris.predict_proba(exact.astype(np.float64)).ravel().tolist()
    instances = {"instances": FLOWERS}
    more = {"signature_name": "predict_proba", **instances}
    tensor = {"dtype": "DT_FLOAT64", "shape": [2, 4], "flat_float64": np.ravel(FLOWERS).tolist()}

    assert infer(runtime, model, [flowers]) == {"predict": ["setosa", "virginica"]}
    found = infer(runtime, model, [flowers], "predict_proba")["predict_proba"]
    assert found == pytest.approx(probabilities)

    predicted = runtime.post(f"/v1/models/{model}:predict", json=instances).json()
    assert predicted == {"predictions": ["setosa", "virginica"]}
    predicted = runtime.post(f"/v1/models/{model}:predict", json=more).json()["predictions"]
    assert np.shape(predicted) == (2, 3)

    body = {"gtensors": {"tensors": [tensor]}}
    answer = runtime.post(f"/grps/v1/infer/predict?model={model}", json=body).json()
    assert answer["gtensors"]["tensors"][0]["flat_string"] == ["setosa", "virginica"]


def test_values_that_an_estimator_refuses_are_a_client_error(runtime):
    body = b'{"instances": [[NaN, 1.0, 1.0, 1.0]]}'

    answer = runtime.post("/v1/models/joblib:predict", content=body)

    assert answer.status_code == 400
    assert "Input X contains NaN" in answer.json()["error"]


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory) -> dict[str, str]:
    """The environment of a process without the libraries of the extras."""
    folder = tmp_path_factory.mktemp("hidden")
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in ("openvino", "pandas"))
    (folder / "sitecustomize.py").write_text(f"import sys\n{hidden}")
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("file", "extra"),
    [
        ("saved_model.pb", "openvino"),
        ("model.xml", "openvino"),
        ("model.skops", "tables"),
        ("model.ubj", "tables"),
    ],
)
def test_a_missing_extra_fails_its_models_with_install_instructions(
    tmp_path: Path, without_extras, file, extra
):
    for name in ("model", "digits"):
        (tmp_path / name / "1").mkdir(parents=True)
    (tmp_path / "model" / "1" / file).write_bytes(b"of no matter")
    shutil.copy(DIGITS, tmp_path / "digits" / "1" / "model.onnx")
    with running(f"--model-repository={tmp_path}", env=without_extras) as runtime:
        answer = eventually(
            "the model has failed",
            lambda: runtime.get("/v2/models/model/versions/1/ready"),
            lambda answer: "pip install" in answer.text,
            30,
        )
        eventually(
            "the other model serves",
            lambda: runtime.get("/v2/models/digits/ready").status_code,
            lambda status: status == 200,
            30,
        )

    assert f"{file} requires the extra '{extra}'" in answer.json()["error"]
    assert f"pip install './runtime[{extra}]'" in answer.json()["error"]


@pytest.mark.parametrize(
    ("example", "path", "name", "call", "expected"),
    [
        (
            "02-scikit-learn",
            "model.skops",
            "iris",
            "/v2/models/iris/infer",
            lambda answer: answer["outputs"][0]["data"] == ["setosa", "versicolor", "virginica"],
        ),
        (
            "03-xgboost",
            "model.ubj",
            "wine",
            "/v2/models/wine/infer",
            lambda answer: (
                np.reshape(answer["outputs"][0]["data"], (3, 3)).argmax(axis=1).tolist()
                == [0, 1, 2]
            ),
        ),
        (
            "06-text-encoder",
            "model",
            "reviews",
            "/v2/models/reviews/infer",
            lambda answer: answer["outputs"][0]["data"][::2] == ["positive", "negative"],
        ),
        (
            "07-python-model",
            "model",
            "digit-reader",
            "/v2/models/digit-reader/infer",
            lambda answer: answer["outputs"][0]["data"] == ["three", "unreadable"],
        ),
        (
            "04-tensorflow-savedmodel",
            "model",
            "digits-tensorflow",
            "/v1/models/digits-tensorflow:predict",
            lambda answer: [item["label"] for item in answer["predictions"]] == [3],
        ),
    ],
)
def test_an_example_gives_the_documented_response(example, path, name, call, expected):
    folder = ROOT / "examples" / example
    with serving(folder / path, f"--model-name={name}") as server:
        answer = server.post(call, content=(folder / "request.json").read_bytes()).json()

    assert expected(answer), answer
