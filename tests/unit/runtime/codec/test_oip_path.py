"""Paths below /v2 to endpoints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.oip import path as oip_path
from moorage_runtime.codec.oip.path import Endpoint, Target
from moorage_runtime.values.errors import InvalidRequest, NotFound


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v2", Target(Endpoint.SERVER_METADATA)),
        ("/v2/", Target(Endpoint.SERVER_METADATA)),
        ("/v2/health/live", Target(Endpoint.LIVE)),
        ("/v2/health/ready", Target(Endpoint.READY)),
        ("/v2/models/m", Target(Endpoint.MODEL_METADATA, "m")),
        ("/v2/models/m/ready", Target(Endpoint.MODEL_READY, "m")),
        ("/v2/models/m/infer", Target(Endpoint.INFER, "m")),
        ("/v2/models/m/versions/v10", Target(Endpoint.MODEL_METADATA, "m", "v10")),
        ("/v2/models/m/versions/1/ready", Target(Endpoint.MODEL_READY, "m", "1")),
        ("/v2/models/m/versions/1/infer", Target(Endpoint.INFER, "m", "1")),
        ("/v2/models/infer/infer", Target(Endpoint.INFER, "infer")),
        (
            "/v2/models/versions/versions/versions",
            Target(Endpoint.MODEL_METADATA, *["versions"] * 2),
        ),
        ("/v2/models/a%2Fb%3Ac%20d/ready", Target(Endpoint.MODEL_READY, "a/b:c d")),
        ("/v2/models/%E6%A8%A1/infer", Target(Endpoint.INFER, "模")),
        ("/v2/models/\xe6\xa8\xa1/infer", Target(Endpoint.INFER, "模")),
        ("/v2/models/m+n/ready", Target(Endpoint.MODEL_READY, "m+n")),
    ],
)
def test_path_names_endpoint_model_and_version(path, target):
    assert oip_path.parse(path) == target


@pytest.mark.parametrize(
    "path",
    [
        "/v2/model/m",
        "/v2/models",
        "/v2/models/",
        "/v2/models//infer",
        "/v2/models/m/",
        "/v2/models/m/versions",
        "/v2/models/m/versions/",
        "/v2/models/m/versions//infer",
        "/v2/models/m/infer/more",
        "/v2/models/m/generate",
        "/v2/health",
        "/v2/health/live/",
        "/v2/repository/index",
        "/v2//health/live",
    ],
)
def test_other_paths_are_not_found(path):
    with pytest.raises(NotFound) as error:
        oip_path.parse(path)
    assert error.value.message == f"no such path: {path}"


@pytest.mark.parametrize("segment", ["%FF", "\xff"])
def test_a_name_that_is_not_utf8_is_refused(segment):
    for path, what in (
        ("/v2/models/{}/ready", "model name"),
        ("/v2/models/m/versions/{}", "version"),
    ):
        with pytest.raises(InvalidRequest) as error:
            oip_path.parse(path.format(segment))
        assert error.value.message == (
            f"the {what} {segment!r} in the path is not percent-encoded UTF-8"
        )


@given(st.text("/%abc\xff:. ", max_size=30))
def test_any_path_is_an_endpoint_or_an_error(rest):
    try:
        target = oip_path.parse(f"/v2/{rest}")
    except (NotFound, InvalidRequest):
        return
    assert target.endpoint in oip_path.METHOD
