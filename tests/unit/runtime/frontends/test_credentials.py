"""Which requests need a token, and which tokens a server accepts."""

from pathlib import Path

import pytest

from moorage_runtime.codec.oip.path import Endpoint, parse
from moorage_runtime.frontends.credentials import Token, is_open_method, is_open_path
from moorage_runtime.values.errors import InvalidConfig


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/v2/health/live", True),
        ("/v2/health/ready", True),
        ("/grps/v1/health/live", True),
        ("/grps/v1/health/ready", True),
        ("/v2/models/iris/ready", True),
        ("/v2/models/iris/versions/3/ready", True),
        ("/v2/models/org%2Firis/ready", True),
        ("/v2/models/ready/ready", True),
        ("/v2/models/versions/ready", True),
        # metadata of a model and of versions with the same name as the endpoint
        ("/v2/models/ready", False),
        ("/v2/models/ready/versions/ready", False),
        ("/v2/models/iris/versions/ready", False),
        ("/v2/models/iris", False),
        ("/v2/models/iris/infer", False),
        ("/v2/models//ready", False),
        ("/v2/models/iris/ready/", False),
        ("/v2/models/iris/other/ready", False),
        ("/v2/models/iris/versions//ready", False),
        ("/v1/models/iris/ready", False),
        ("/other/v2/models/iris/ready", False),
        ("/v2/health/ready/", False),
        ("/v2", False),
        ("/metrics", False),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_only_live_and_ready_endpoints_need_no_token(method, path, is_open):
    assert is_open_path(method, path) is is_open


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "get", ""])
def test_another_method_needs_a_token(method):
    assert not is_open_path(method, "/v2/health/ready")
    assert not is_open_path(method, "/v2/models/iris/ready")


@pytest.mark.parametrize("name", ["iris", "ready", "versions", "infer", "models"])
@pytest.mark.parametrize("version", ["", "3", "ready", "infer", "versions"])
@pytest.mark.parametrize("end", ["", "/ready", "/infer"])
def test_a_path_of_a_model_is_open_if_the_protocol_reads_it_as_readiness(name, version, end):
    path = f"/v2/models/{name}{f'/versions/{version}' if version else ''}{end}"

    assert is_open_path("GET", path) is (parse(path).endpoint is Endpoint.MODEL_READY)


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/inference.GRPCInferenceService/ServerLive", True),
        ("/inference.GRPCInferenceService/ServerReady", True),
        ("/inference.GRPCInferenceService/ModelReady", True),
        ("/grps.protos.v1.GrpsService/CheckLiveness", True),
        ("/grps.protos.v1.GrpsService/CheckReadiness", True),
        ("/grpc.health.v1.Health/Check", True),
        ("/grpc.health.v1.Health/Watch", True),
        ("/grpc.health.v1.Health/List", False),
        ("/inference.GRPCInferenceService/ModelMetadata", False),
        ("/inference.GRPCInferenceService/ServerMetadata", False),
        ("/inference.GRPCInferenceService/ModelInfer", False),
    ],
)
def test_only_calls_for_health_need_no_token(tmp_path: Path, path, is_open):
    (tmp_path / "tokens").write_text("right\n")
    token = Token(tmp_path / "tokens")

    assert is_open_method(path) is is_open
    assert token.authorize(path, {}) is is_open


@pytest.mark.parametrize(
    ("given", "is_allowed"),
    [
        ("Bearer right", True),
        ("bearer right", True),
        ("BEARER  right ", True),
        ("Bearer next", True),
        ("Bearer wrong", False),
        ("Bearer right next", False),
        ("Bearer ", False),
        ("Basic right", False),
        ("right", False),
        ("", False),
    ],
)
def test_a_call_is_allowed_with_one_of_the_tokens(tmp_path: Path, given, is_allowed):
    (tmp_path / "tokens").write_text("\n right \n\nnext\n")
    token = Token(tmp_path / "tokens")

    infer = "/inference.GRPCInferenceService/ModelInfer"
    assert token.authorize(infer, {"authorization": given}) is is_allowed


def test_a_mounted_secret_has_a_token_in_each_of_its_files(tmp_path: Path):
    (tmp_path / "shop").write_text("one")
    (tmp_path / "web").write_text("two\n")
    (tmp_path / "..data").write_text("hidden")
    (tmp_path / "folder").mkdir()

    admission = Token(tmp_path).admission

    known = [each for each in ("one", "two", "hidden") if admission.knows(each)]
    assert known == ["one", "two"]


def test_changed_tokens_replace_the_earlier_ones(tmp_path: Path, caplog):
    caplog.set_level("INFO")
    file = tmp_path / "tokens"
    file.write_text("first")
    token = Token(file)

    file.write_text("second")
    token.refresh()
    token.refresh()

    assert (token.admission.knows("first"), token.admission.knows("second")) == (False, True)
    assert caplog.messages == ["reloaded the changed bearer tokens"]


def test_an_empty_file_leaves_the_earlier_tokens(tmp_path: Path, caplog):
    file = tmp_path / "tokens"
    file.write_text("first")
    token = Token(file)

    file.write_text(" \n")
    token.refresh()

    assert token.admission.knows("first")
    (message,) = caplog.messages
    assert message.startswith("--token-file (MOORAGE_TOKEN_FILE): ")
    assert f"{file} contains no token: must have one token per line; the previous" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\n", "contains no token: must have one token per line"),
        (b"\xff", "cannot be read: it is not UTF-8"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_without_a_token_is_refused(tmp_path: Path, content, expected):
    if content is not None:
        (tmp_path / "tokens").write_bytes(content)

    with pytest.raises(InvalidConfig) as caught:
        Token(tmp_path / "tokens")

    path = tmp_path / "tokens"
    assert caught.value.message == f"--token-file (MOORAGE_TOKEN_FILE): {path} {expected}"


def test_an_unreadable_file_in_a_folder_of_tokens_is_named(tmp_path: Path):
    (tmp_path / "a").write_text("first")
    (tmp_path / "b").write_bytes(b"\xff")

    with pytest.raises(InvalidConfig) as caught:
        Token(tmp_path)

    assert f": {tmp_path / 'b'} cannot be read: it is not UTF-8" in caught.value.message


def test_a_folder_of_tokens_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch):
    def fail(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", fail)

    with pytest.raises(InvalidConfig) as caught:
        Token(tmp_path)

    assert f": {tmp_path} cannot be read: Permission denied" in caught.value.message


def test_http_requests_need_a_token_except_for_health(tmp_path: Path):
    (tmp_path / "tokens").write_text("right")
    admission = Token(tmp_path / "tokens").admission

    assert admission("GET", "/v2/health/ready", {}) is None
    assert admission("POST", "/v2/models/m/infer", {"authorization": "Bearer right"}) is None
    assert admission("POST", "/v2/models/m/infer", {}).status == 401


@pytest.mark.parametrize(
    "metadata", [{}, {"authorization": ""}, {"Authorization": "Bearer right"}]
)
def test_a_call_without_authorization_is_refused(tmp_path: Path, metadata):
    (tmp_path / "tokens").write_text("right")
    token = Token(tmp_path / "tokens")

    assert not token.authorize("/inference.GRPCInferenceService/ModelInfer", metadata)
