"""The TensorFlow Serving frontend over a fake dataplane: routes, versions, statuses, bodies."""

import json

import pytest

from moorage_runtime.frontends.tfs import rest as tfs_rest
from moorage_runtime.values import errors
from moorage_runtime.values.inference import Signature
from unit.runtime.tfs_fixtures import (
    FakeDataplane,
    FakeModel,
    ask,
    half_plus_three,
    identity,
    iris,
    metadata,
    multi,
    sensor_regress,
    spec,
    two_out,
)

PREDICT = Signature("predict", {"x": "x"}, {"y": "y"})
REGRESS = Signature("regress", {"x": "x"}, {"outputs": "y"})


def dataplane() -> FakeDataplane:
    return FakeDataplane(
        half_plus_three("mnist", "313"),
        half_plus_three("mnist", "314"),
        half_plus_three(
            "half",
            "123",
            signatures={"serving_default": PREDICT, "tensorflow/serving/regress": REGRESS},
        ),
        half_plus_three("named", "v10", labels={"stable": "v10", "gone": "v9"}),
        half_plus_three("named", "beta", labels={"stable": "v10"}),
        identity("strs", spec("s", "BYTES", -1)),
        identity("half_precision", spec("x", "FP16", -1)),
        multi(),
        iris(),
        sensor_regress(),
        two_out(),
        FakeModel(metadata("loading", [], []), dict, state="LOADING"),
        FakeModel(metadata("broken", [], []), dict, state="FAILED", message="no such operator"),
        half_plus_three(
            "misdeclared",
            "1",
            signatures={"serving_default": Signature("predict", {"x": "z"}, {})},
        ),
    )


PAIRS = b'[[["cat",0.25],["",0.75]],[["cat",0.25],["",0.75]]]'


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("mnist:predict", b'{"instances":[1.0,2.0,5.0]}', b'{"predictions":[3.5,4.0,5.5]}'),
        ("mnist/versions/314:predict", b'{"instances":[1]}', b'{"predictions":[3.5]}'),
        ("mnist/versions/0313:predict", b'{"instances":[1]}', b'{"predictions":[3.5]}'),
        ("named/versions/10:predict", b'{"instances":[1]}', b'{"predictions":[3.5]}'),
        ("named/versions/1:predict", b'{"instances":[1]}', b'{"predictions":[3.5]}'),
        ("named/labels/stable:predict", b'{"instances":[1]}', b'{"predictions":[3.5]}'),
        (
            "mnist:predict",
            b'{"signature_name":"serving_default","inputs":[3.0,4.0]}',
            b'{"outputs":[4.5,5.0]}',
        ),
        ("mnist:predict", b'{"signature_name":"","inputs":1}', b'{"outputs":3.5}'),
        (
            "mnist:predict",
            b'{"instances":[NaN,Infinity,-Infinity,1e0]}',
            b'{"predictions":[NaN,Infinity,-Infinity,3.5]}',
        ),
        ("strs:predict", b'{"instances":["foo","bar"]}', b'{"predictions":["foo","bar"]}'),
        ("two_out:predict", b'{"inputs":[1,2]}', b'{"outputs":{"a":[1.0,2.0],"b":[2]}}'),
        ("two_out:predict", b'{"instances":[5]}', b'{"predictions":[{"a":5.0,"b":1}]}'),
        (
            "iris:classify",
            (
                b'{"signature_name":"classify_objects","context":{"caption":"c"},'
                b'"examples":[{"image":{"b64":"YQ=="}},{"image":{"b64":"Yg=="}}]}'
            ),
            b'{"results":' + PAIRS + b',"result":' + PAIRS + b"}",
        ),
        (
            "sensor_regress:regress",
            b'{"examples":[{"sensor_readings":[1.0,-3.14,NaN,Infinity]}]}',
            b'{"results":[Infinity],"result":[Infinity]}',
        ),
        (
            "half:regress",
            b'{"signature_name":"tensorflow/serving/regress","examples":[{"x":[1.0]},{"x":[2.0]}]}',
            b'{"results":[3.5,4.0],"result":[3.5,4.0]}',
        ),
    ],
)
async def test_an_inference_is_answered(path, body, answer):
    response = await ask(dataplane(), "POST", f"/v1/models/{path}", body)

    assert (response.status, response.body) == (200, answer)
    assert response.content_type == b"application/json"


async def test_the_version_that_was_asked_for_is_the_one_that_runs():
    models = dataplane()

    await ask(models, "POST", "/v1/models/named/versions/10:predict", b'{"instances":[1]}')
    await ask(models, "POST", "/v1/models/named/labels/stable:predict", b'{"instances":[1]}')
    await ask(models, "POST", "/v1/models/named:predict", b'{"instances":[1]}')

    assert [request.model_version for request in models.requests] == ["v10", "v10", "beta"]


ONE = b'{"instances":[1]}'


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        (
            "POST",
            "/v1/models/nope:predict",
            ONE,
            404,
            "Servable not found for request: Latest(nope)",
        ),
        (
            "POST",
            "/v1/models/nope/versions/5:predict",
            ONE,
            404,
            "Servable not found for request: Specific(nope, 5)",
        ),
        (
            "POST",
            "/v1/models/mnist/versions/315:predict",
            ONE,
            404,
            "Servable not found for request: Specific(mnist, 315)",
        ),
        (
            "POST",
            "/v1/models/mnist/labels/x:predict",
            ONE,
            400,
            "Unrecognized servable version label: x",
        ),
        (
            "POST",
            "/v1/models/named/labels/gone:predict",
            ONE,
            404,
            "Servable not found for request: Specific(named, gone)",
        ),
        (
            "POST",
            "/v1/models/nope/labels/x:predict",
            ONE,
            404,
            "Servable not found for request: Specific(nope, x)",
        ),
        ("POST", "/v1/models/loading:predict", ONE, 503, "model loading is not ready"),
        (
            "POST",
            "/v1/models/mnist/versions/HELLO:predict",
            ONE,
            400,
            "Malformed request: POST /v1/models/mnist/versions/HELLO:predict",
        ),
        (
            "GET",
            "/v1/models/mnist:predict",
            b"",
            400,
            "Malformed request: GET /v1/models/mnist:predict",
        ),
        ("GET", "/v1/models", b"", 400, "Missing model name in request."),
        (
            "POST",
            "/v1/models/mnist:predict",
            b"",
            400,
            "JSON Parse error: the request body is empty",
        ),
        ("POST", "/v1/models/mnist:predict", b"[]", 400, "JSON Value: [] Is not object"),
        ("POST", "/v1/models/nope:predict", b"[]", 400, "JSON Value: [] Is not object"),
        (
            "POST",
            "/v1/models/mnist:predict",
            b'{"signature_name":"nope","instances":[1]}',
            400,
            (
                'Serving signature name: "nope" not found in signature def; '
                "the model has: serving_default"
            ),
        ),
        (
            "POST",
            "/v1/models/mnist:classify",
            b'{"examples":[{"x":1}]}',
            400,
            (
                'Expected signature "serving_default" method_name to be '
                "tensorflow/serving/classify. Was: tensorflow/serving/predict"
            ),
        ),
        (
            "POST",
            "/v1/models/half:regress",
            b'{"examples":[{"x":1}]}',
            400,
            (
                'Expected signature "serving_default" method_name to be '
                "tensorflow/serving/regress. Was: tensorflow/serving/predict"
            ),
        ),
        (
            "POST",
            "/v1/models/half_precision:predict",
            ONE,
            501,
            "Conversion of JSON Value: [1] to type: half",
        ),
        (
            "POST",
            "/v1/models/two_out:predict",
            b'{"instances":[1,2]}',
            400,
            "Tensor name: b has inconsistent batch size: 1 expecting: 2",
        ),
        (
            "POST",
            "/v1/models/misdeclared:predict",
            ONE,
            500,
            "signatures.serving_default.inputs.x: the model has no tensor 'z'",
        ),
        ("GET", "/v1/models/nope", b"", 404, "Could not find any versions of model nope"),
        (
            "GET",
            "/v1/models/mnist/versions/5",
            b"",
            404,
            "Could not find version 5 of model mnist",
        ),
        ("GET", "/v1/models/mnist/labels/x", b"", 400, "Unrecognized servable version label: x"),
        (
            "GET",
            "/v1/models/named/labels/gone",
            b"",
            404,
            "Could not find version gone of model named",
        ),
        (
            "GET",
            "/v1/models/nope/metadata",
            b"",
            404,
            "Servable not found for request: Latest(nope)",
        ),
        (
            "GET",
            "/v1/models/loading/metadata",
            b"",
            404,
            "Servable not found for request: Latest(loading)",
        ),
        (
            "GET",
            "/v1/models/loading/versions/1/metadata",
            b"",
            404,
            "Servable not found for request: Specific(loading, 1)",
        ),
    ],
)
async def test_an_error_has_the_status_and_text_of_tensorflow_serving(
    method, path, body, status, message
):
    response = await ask(dataplane(), method, path, body)

    document = json.loads(response.body)
    assert response.status == status
    assert list(document) == ["error"]
    assert message in document["error"]


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        ("half", [("123", "AVAILABLE", "OK", "")]),
        ("mnist", [("314", "AVAILABLE", "OK", ""), ("313", "AVAILABLE", "OK", "")]),
        ("mnist/versions/313", [("313", "AVAILABLE", "OK", "")]),
        ("named", [("10", "AVAILABLE", "OK", ""), ("1", "AVAILABLE", "OK", "")]),
        ("named/versions/1", [("1", "AVAILABLE", "OK", "")]),
        ("named/labels/stable", [("10", "AVAILABLE", "OK", "")]),
        ("loading", [("1", "LOADING", "OK", "")]),
        ("broken", [("1", "END", "INTERNAL", "no such operator")]),
    ],
)
async def test_the_status_of_versions_is_reported(path, versions):
    response = await ask(dataplane(), "GET", f"/v1/models/{path}")

    assert response.status == 200
    assert json.loads(response.body) == {
        "model_version_status": [
            {
                "version": version,
                "state": state,
                "status": {"error_code": code, "error_message": message},
            }
            for version, state, code, message in versions
        ]
    }


async def test_metadata_of_a_model_without_signatures_has_the_derived_one():
    response = await ask(dataplane(), "GET", "/v1/models/mnist/versions/313/metadata")

    def tensor(name):
        return {
            "dtype": "DT_FLOAT",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
            "name": name,
        }

    assert json.loads(response.body) == {
        "model_spec": {"name": "mnist", "signature_name": "", "version": "313"},
        "metadata": {
            "signature_def": {
                "signature_def": {
                    "serving_default": {
                        "inputs": {"x": tensor("x")},
                        "outputs": {"y": tensor("y")},
                        "method_name": "tensorflow/serving/predict",
                        "defaults": {},
                    }
                }
            }
        },
    }


async def test_metadata_lists_every_declared_signature():
    response = await ask(dataplane(), "GET", "/v1/models/half/metadata")

    signatures = json.loads(response.body)["metadata"]["signature_def"]["signature_def"]
    assert {name: each["method_name"] for name, each in signatures.items()} == {
        "serving_default": "tensorflow/serving/predict",
        "tensorflow/serving/regress": "tensorflow/serving/regress",
    }
    assert signatures["tensorflow/serving/regress"]["outputs"]["outputs"]["name"] == "y"


async def test_metadata_names_the_number_of_a_version_by_name():
    response = await ask(dataplane(), "GET", "/v1/models/named/labels/stable/metadata")

    assert json.loads(response.body)["model_spec"]["version"] == "10"


def all_faults(base=errors.RuntimeFault):
    yield base
    for derived in base.__subclasses__():
        yield from all_faults(derived)


def test_every_error_class_of_the_runtime_has_a_status():
    named = {fault for fault in all_faults() if fault.__module__ == errors.__name__}

    assert named == set(tfs_rest.HTTP_STATUS)


def test_a_derived_error_has_the_status_of_its_base():
    class Late(errors.DeadlineExceeded):
        pass

    assert tfs_rest.error_response(Late("too late")).status == 504


def test_an_error_text_that_is_not_unicode_is_escaped():
    response = tfs_rest.error_response(errors.ModelFailed("bad \ud800"))

    assert response.body == b'{"error":"bad \\\\ud800"}'


def test_signatures_are_bound_again_after_a_reload():
    memo = tfs_rest.SignatureMemo()
    first = half_plus_three("m", "1").metadata
    second = identity("m", spec("other", "INT8", -1)).metadata

    assert memo.of(first) is memo.of(first)
    assert list(memo.of(second)["serving_default"].inputs) == ["other"]
