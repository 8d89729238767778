"""TensorFlow Serving's REST API, requirement by requirement, on a running server."""

import base64
import json
import math

import httpx
import pytest

from support.runtime import running
from support.waiting import eventually

pytestmark = pytest.mark.conformance


def post(server, path: str, body: object) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"http://{server.http}/v1/models/{path}", content=content, timeout=30)


def get(server, path: str) -> httpx.Response:
    return httpx.get(f"http://{server.http}/v1/models{path}", timeout=30)


def answered(answer: httpx.Response) -> dict:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    return json.loads(answer.content)


def refused(answer: httpx.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert body["error"]
    return body["error"]


# --- URLs


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("mnist/versions/x:predict", 400, "Malformed request: POST /v1/models/mnist/versions/x"),
        ("mnist/versions/99999999999999999999:predict", 400, "Failed to convert version"),
        ("mnist/versions/1:predict", 404, "Specific(mnist, 1)"),
        ("nosuch:predict", 404, "Latest(nosuch)"),
        ("mnist/labels/nosuch:predict", 400, "nosuch"),
        ("mnist/versions/314/labels/a:predict", 400, "Malformed request"),
        ("mnist:nosuch", 400, "Malformed request"),
        ("mnist", 400, "Malformed request"),
        (":predict", 400, "Malformed request"),
        ("mnist:predict/x", 400, "Malformed request"),
    ],
)
def test_a_wrong_url_gets_the_text_of_tensorflow_serving(server, path, status, text):
    assert text in refused(post(server, path, {"instances": [1.0]}), status)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("", 400, "Missing model name in request."),
        ("/nosuch", 404, "Could not find any versions of model nosuch"),
        ("/mnist/versions/9", 404, "Could not find version 9 of model mnist"),
        ("/nosuch/metadata", 404, "nosuch"),
        ("/mnist/versions/9/metadata", 404, "mnist"),
        ("/mnist:predict", 400, "Malformed request: GET /v1/models/mnist:predict"),
        ("/mnist/nosuch", 400, "Malformed request"),
    ],
)
def test_a_wrong_url_with_get_gets_the_text_of_tensorflow_serving(server, path, status, text):
    assert text in refused(get(server, path), status)


def test_a_version_is_selected_by_number_or_label(odd):
    floats = {"instances": [1.0]}

    assert answered(post(odd, "versions/versions/9:predict", floats)) == {"predictions": ["9"]}
    assert answered(post(odd, "versions/labels/stable:predict", floats)) == {"predictions": ["9"]}
    assert answered(post(odd, "named/versions/10:predict", floats)) == {"predictions": ["v10"]}
    status = answered(get(odd, "/versions/labels/stable"))
    assert [entry["version"] for entry in status["model_version_status"]] == ["9"]
    metadata = answered(get(odd, "/versions/labels/stable/metadata"))
    assert metadata["model_spec"]["version"] == "9"
    in_capitals = post(odd, "versions/VERSIONS/9:PREDICT", floats)
    assert answered(in_capitals) == {"predictions": ["9"]}


# --- status and metadata


def test_status_lists_the_state_of_every_version(odd, server_of):
    available = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}

    assert answered(get(odd, "/versions")) == {
        "model_version_status": [{"version": "10", **available}, {"version": "9", **available}]
    }
    loading = server_of("loading")
    entry = answered(get(loading, "/loading"))["model_version_status"][0]
    assert entry["version"] == "1"
    assert entry["state"] == "LOADING"
    refused(get(loading, "/loading/metadata"), 404)
    refused(post(loading, "loading:predict", {"instances": [1]}), 503)


def test_a_failed_model_is_in_state_end_with_the_reason(tmp_path):
    folder = tmp_path / "broken" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"no graph")
    with running(f"--model-repository={tmp_path}") as runtime:
        entry = eventually(
            "the load failed",
            lambda: runtime.get("/v1/models/broken").json().get("model_version_status", [{}])[0],
            lambda seen: seen.get("state") == "END",
            20,
        )
        assert entry["status"]["error_code"] != "OK"
        assert entry["status"]["error_message"]
        assert runtime.get("/v1/models/broken/metadata").status_code == 404


def test_metadata_describes_the_signatures(server):
    body = answered(get(server, "/multi/versions/1/metadata"))

    assert body["model_spec"] == {"name": "multi", "signature_name": "", "version": "1"}
    signature = body["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    assert set(signature["inputs"]) == set(signature["outputs"]) == {"tag", "signal", "sensor"}
    assert signature["inputs"]["sensor"]["dtype"] == "DT_INT32"
    shape = signature["inputs"]["sensor"]["tensor_shape"]
    assert [dim["size"] for dim in shape["dim"]] == ["-1", "2", "2"]
    assert shape["unknown_rank"] is False
    assert signature["inputs"]["tag"]["dtype"] == "DT_STRING"


# --- predict


@pytest.mark.parametrize(
    ("model", "body", "text"),
    [
        ("mnist", {}, "Missing 'inputs' or 'instances' key"),
        ("mnist", {"instances": [1.0], "inputs": [1.0]}, ""),
        ("mnist", {"instances": 1.0}, ""),
        ("mnist", {"instances": {"x": 1.0}}, ""),
        ("mnist", {"instances": []}, ""),
        ("mnist", {"instances": None}, ""),
        ("mnist", {"inputs": None}, ""),
        ("mnist", {"instances": [1.0], "signature_name": 1}, "signature_name"),
        ("mnist", {"instances": [1.0], "signature_name": "nosuch"}, "nosuch"),
        ("mnist", {"instances": ["1.0"]}, ""),
        ("mnist", {"instances": [True]}, ""),
        ("mnist", {"instances": [None]}, ""),
        ("mnist", {"instances": [[1.0]]}, ""),
        ("mnist", {"instances": [1.0, [2.0]]}, ""),
        ("mnist", {"instances": [{"b64": "AAAA"}]}, ""),
        ("mnist", {"instances": [{"y": 1.0}]}, ""),
        ("mnist", {"instances": [{"x": 1.0, "y": 1.0}]}, ""),
        ("mnist", {"instances": [{"x": 1.0}, 1.0]}, ""),
        ("f12", {"instances": [[[1, 2]], [[3]]]}, ""),
        ("f12", {"instances": [[[1, 2, 3]]]}, ""),
        ("f12", {"instances": [[1, 2]]}, ""),
        ("identity_2d_int32", {"instances": [[1.0]]}, ""),
        ("identity_2d_int32", {"instances": [[2**31]]}, ""),
        ("identity_2d_int32", {"instances": [[1], [2, 3]]}, ""),
        ("identity_uint8", {"instances": [256]}, ""),
        ("identity_uint8", {"instances": [-1]}, ""),
        ("strs", {"instances": [1]}, ""),
        ("strs", {"instances": [{"b64": 1}]}, ""),
        ("strs", {"instances": [{"b64": "*"}]}, ""),
        ("strs", {"instances": [{"b64": "YQ==", "x": 1}]}, ""),
        ("multi", {"instances": [1]}, ""),
        ("multi", {"instances": [{"tag": ["a"], "signal": [1, 2, 3, 4, 5]}]}, "sensor"),
        ("multi", {"inputs": {"tag": [["a"]], "signal": [[1, 2, 3, 4, 5]]}}, "sensor"),
        ("multi", {"inputs": [[1]]}, ""),
        ("two_out", {"instances": [1.0, 2.0]}, ""),
        ("iris", {"instances": [{"image": "a", "caption": "b"}], "signature_name": "nosuch"}, ""),
        (
            "iris",
            {
                "instances": [{"image": "a", "caption": "b"}],
                "signature_name": "classify_objects",
            },
            "",
        ),
    ],
    ids=repr,
)
def test_an_unsuitable_document_is_refused(server, model, body, text):
    assert text in refused(post(server, f"{model}:predict", body))


def test_an_input_that_tensorflow_cannot_write_in_json_is_not_implemented(server):
    refused(post(server, "identity_fp16:predict", {"instances": [1.0]}), 501)


@pytest.mark.parametrize(
    ("model", "body", "answer"),
    [
        ("mnist", {"instances": [1.0, 2.0]}, {"predictions": [3.5, 4.0]}),
        ("mnist", {"instances": [{"x": 1}, {"x": 2}]}, {"predictions": [3.5, 4.0]}),
        ("mnist", {"inputs": [1, 2]}, {"outputs": [3.5, 4.0]}),
        ("mnist", {"inputs": {"x": [1, 2], "extra": 5}}, {"outputs": [3.5, 4.0]}),
        ("mnist", {"instances": [1e39, 1e-1]}, {"predictions": [math.inf, 3.05]}),
        ("mnist", {"instances": [2], "other": [{}]}, {"predictions": [4.0]}),
        (
            "f12",
            {"instances": [[[1, 2]], [[3, 4]]]},
            {"predictions": [[[1.0, 2.0]], [[3.0, 4.0]]]},
        ),
        ("strs", {"instances": ["a", {"b64": "Yg"}]}, {"predictions": ["a", "b"]}),
        ("strs", {"instances": [{"b64": " Y g = = \n"}]}, {"predictions": ["b"]}),
        ("strs", {"instances": [{"b64": "//8="}]}, {"predictions": [{"b64": "//8="}]}),
        (
            "strs_bytes",
            {"instances": ["a", {"b64": "Yg=="}]},
            {"predictions": [{"b64": "YQ=="}, {"b64": "Yg=="}]},
        ),
        ("strs_bytes", {"inputs": "a"}, None),
        ("two_out", {"instances": [5]}, {"predictions": [{"a": 5.0, "b": 1}]}),
        ("two_out", {"inputs": [5, 6]}, {"outputs": {"a": [5.0, 6.0], "b": [2]}}),
        (
            "multi",
            {
                "inputs": {
                    "tag": [["a"]],
                    "signal": [[1, 2, 3, 4, 5]],
                    "sensor": [[[1, 2], [3, 4]]],
                }
            },
            {
                "outputs": {
                    "tag": [["a"]],
                    "signal": [[1, 2, 3, 4, 5]],
                    "sensor": [[[1, 2], [3, 4]]],
                }
            },
        ),
    ],
    ids=repr,
)
def test_a_predict_document_gets_a_response(server, model, body, answer):
    got = post(server, f"{model}:predict", body)

    if answer is None:
        refused(got)
    else:
        assert answered(got) == answer


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9e6, "9000000.0"),
        (999999, "999999.0"),
        (0.5, "0.5"),
        (1.1, "1.1"),
        (-2e-7, "-2e-7"),
        (1e25, "1e+25"),
        (0, "0.0"),
    ],
)
def test_a_float_is_written_with_a_point_or_an_exponent(server, value, text):
    answer = post(server, "identity_fp32:predict", {"inputs": [value]})

    assert answer.text == f'{{"outputs":[{text}]}}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": [Nan]}',
        b'{"instances": [nan]}',
        b'{"instances": [+Infinity]}',
        b'{"instances": [infinity]}',
        b'{"instances": [1.]}',
        b'{"instances": [.5]}',
        b'{"instances": [01]}',
        b'{"instances": [0x10]}',
    ],
)
def test_number_forms_that_json_lacks_are_refused_except_nan_and_infinity(server, body):
    assert "JSON" in refused(post(server, "mnist:predict", body))


# --- classify and regress


def test_examples_are_classified_in_order_under_both_keys(odd):
    body = {"examples": [{"x": 1.0}, {"x": [2.0]}]}
    expected = [[["", 1.0], ["", 2.0]], [["", 2.0], ["", 4.0]]]

    assert answered(post(odd, "scores:classify", body)) == {
        "results": expected,
        "result": expected,
    }
    labels = answered(post(odd, "scores:classify", {**body, "signature_name": "labels"}))
    assert labels["results"] == [[["a", 0.0], ["b", 0.0]]] * 2


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "examples"),
        ({"examples": {}}, ""),
        ({"examples": None}, ""),
        ({"examples": []}, ""),
        ({"examples": [1]}, ""),
        ({"examples": [[]]}, ""),
        ({"examples": [{"sensor_readings": None}]}, ""),
        ({"examples": [{"sensor_readings": {}}]}, ""),
        ({"examples": [{"sensor_readings": [[1.0]]}]}, ""),
        ({"examples": [{"sensor_readings": [1.0, "a"]}]}, ""),
        ({"examples": [{"sensor_readings": ["a"]}]}, ""),
        ({"examples": [{"sensor_readings": [{"b64": "YQ=="}]}]}, ""),
        ({"examples": [{"sensor_readings": [2**63]}]}, ""),
        ({"examples": [{}]}, ""),
        ({"examples": [{"sensor_readings": [1.0]}], "context": []}, ""),
        (
            {"examples": [{"sensor_readings": [1.0]}], "context": {"sensor_readings": [2.0]}},
            "sensor_readings",
        ),
        ({"examples": [{"sensor_readings": [1.0]}], "signature_name": "nosuch"}, "nosuch"),
        ({"examples": [{"sensor_readings": [1.0]}], "signature_name": 5}, "signature_name"),
        ({"examples": [{"sensor_readings": [1.0]}, {"sensor_readings": [1.0, 2.0]}]}, ""),
        ({"example": [{"sensor_readings": [1.0]}]}, "examples"),
    ],
    ids=repr,
)
def test_unsuitable_examples_are_refused(server, body, text):
    assert text in refused(post(server, "sensor_regress:regress", body))


def test_integers_of_a_float_feature_are_widened_and_context_is_shared(server):
    body = {"examples": [{"sensor_readings": [1, 2]}, {"sensor_readings": [1.5, 2.5]}]}
    answer = answered(post(server, "sensor_regress:regress", body))
    assert answer == {"results": [2.0, 2.5], "result": [2.0, 2.5]}

    shared = {"context": {"sensor_readings": [7.0]}, "examples": [{}, {}]}
    assert answered(post(server, "sensor_regress:regress", shared))["results"] == [7.0, 7.0]


def test_a_signature_serves_only_its_own_method(server):
    half = "saved_model_half_plus_three"
    examples = {"examples": [{"x": 1.0}]}

    refused(post(server, f"{half}:regress", examples))
    named = {**examples, "signature_name": "tensorflow/serving/regress"}
    assert answered(post(server, f"{half}:regress", named))["result"] == [3.5]
    refused(post(server, f"{half}:classify", named))
    refused(post(server, f"{half}:predict", {**named, "instances": [1.0]}))


def test_base64_of_every_byte_round_trips(server):
    everything = base64.b64encode(bytes(range(256))).decode()

    answer = answered(post(server, "strs_bytes:predict", {"instances": [{"b64": everything}]}))

    assert answer == {"predictions": [{"b64": everything}]}
