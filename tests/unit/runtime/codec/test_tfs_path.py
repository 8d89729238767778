"""URLs to targets."""

import pytest

from moorage_runtime.codec.tfs.path import Operation, Target, parse_target
from moorage_runtime.values.errors import InvalidRequest


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("POST", "/v1/models/iris:classify", Target(Operation.CLASSIFY, "iris")),
        ("POST", "/v1/models/mnist/versions/314:predict", Target(Operation.PREDICT, "mnist", 314)),
        (
            "POST",
            "/v1/models/m/labels/canary:regress",
            Target(Operation.REGRESS, "m", None, "canary"),
        ),
        ("POST", "/V1/Models/Mnist/Versions/007:Predict", Target(Operation.PREDICT, "Mnist", 7)),
        (
            "POST",
            "/v1/models/a%2Fb%3Ac%20%EC%95%88:predict",
            Target(Operation.PREDICT, "a/b:c \uc548"),
        ),
        ("POST", "/v1/models/\xec\x95\x88:predict", Target(Operation.PREDICT, "\uc548")),
        ("GET", "/v1/models/m/labels/\xec\x95\x88", Target(Operation.STATUS, "m", None, "\uc548")),
        ("POST", "/v1/models/m/labels/a%2Fb:predict", Target(Operation.PREDICT, "m", None, "a/b")),
        ("GET", "/v1/models/m", Target(Operation.STATUS, "m")),
        ("GET", "/v1/models/m/versions/0", Target(Operation.STATUS, "m", 0)),
        ("GET", "/v1/models/m/versions/1", Target(Operation.STATUS, "m", 1)),
        ("GET", "/v1/models/m/labels/l", Target(Operation.STATUS, "m", None, "l")),
        ("GET", "/v1/models/m/metadata", Target(Operation.METADATA, "m")),
        (
            "GET",
            "/v1/models/m/versions/9223372036854775807/METADATA",
            Target(Operation.METADATA, "m", 2**63 - 1),
        ),
        ("GET", "/v1/models/m/versions/" + "0" * 5000 + "1", Target(Operation.STATUS, "m", 1)),
    ],
)
def test_a_url_is_parsed(method, path, target):
    assert parse_target(method, path) == target


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models/mnist:predict"),
        ("POST", "/v1/models/mnist"),
        ("PUT", "/v1/models/mnist:predict"),
        ("DELETE", "/v1/models/mnist"),
        ("POST", "/v1/models/mnist/versions/HELLO:predict"),
        ("POST", "/v1/models/mnist/versions/-1:predict"),
        ("POST", "/v1/models/mnist/versions/\u0661:predict"),
        ("POST", "/v1/models/mnist/versions/1/labels/a:predict"),
        ("POST", "/v1/models/mnist:explain"),
        ("POST", "/v1/models/mnist:predict/"),
        ("POST", "/v1/models/:predict"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/models/a/b"),
        ("GET", "/v1/models/a/metadata/x"),
        ("GET", "/v1/modelsx"),
    ],
)
def test_any_other_url_is_malformed(method, path):
    with pytest.raises(InvalidRequest) as caught:
        parse_target(method, path)

    assert caught.value.message == f"Malformed request: {method} {path}"


@pytest.mark.parametrize("path", ["/v1/models", "/V1/MODELS"])
def test_a_missing_model_name_is_refused(path):
    with pytest.raises(InvalidRequest, match=r"^Missing model name in request\.$"):
        parse_target("GET", path)


@pytest.mark.parametrize("digits", ["9223372036854775808", "9" * 5000])
def test_a_version_beyond_int64_is_refused(digits):
    with pytest.raises(
        InvalidRequest, match=r"^Failed to convert version: 9+[0-9]* to numeric\.$"
    ):
        parse_target("GET", f"/v1/models/m/versions/{digits}")
