"""TLS, bearer tokens and the model repository extension, from the view of clients."""

import ssl
import subprocess
from pathlib import Path

import grpc
import httpx
import pytest

from support.runtime import ROOT, running
from support.waiting import eventually

pytestmark = pytest.mark.conformance

MODEL = ROOT / "examples" / "01-digits" / "model.onnx"
TOKEN = {"Authorization": "Bearer first"}


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += [
        "-nodes",
        "-days",
        "1",
        "-subj",
        f"/CN={name}",
        "-keyout",
        key,
        "-out",
        certificate,
    ]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def replace(target: Path, source: Path) -> None:
    """Replace a file like the kubelet: a symbolic link changes its target."""
    fresh = target.with_suffix(".new")
    fresh.write_bytes(source.read_bytes())
    fresh.rename(target)


def ready_over_https(port: int, authority: Path) -> int:
    """Status of the readiness check; 0 if the certificate is not trusted."""
    context = ssl.create_default_context(cafile=authority)
    try:
        return httpx.get(f"https://localhost:{port}/v2/health/ready", verify=context).status_code
    except httpx.ConnectError:
        return 0


def live_over_grpc(port: int, authority: Path, *metadata: tuple[str, str]) -> bytes:
    credentials = grpc.ssl_channel_credentials(authority.read_bytes())
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        return call(b"", timeout=10, metadata=metadata)


def test_both_ports_use_tls_and_reload_a_renewed_certificate(tmp_path, grpc_transport):
    certificate, key = make_certificate(tmp_path, "first")
    renewed, renewed_key = make_certificate(tmp_path, "second")
    authority = tmp_path / "authority.crt"
    authority.write_bytes(certificate.read_bytes())
    tls = f"--tls-certificate={certificate}", f"--tls-key={key}"
    with running(*tls, f"--grpc-transport={grpc_transport}") as runtime:
        eventually(
            "ready", lambda: ready_over_https(runtime.http_port, authority), lambda s: s == 200, 10
        )
        assert live_over_grpc(runtime.grpc_port, authority) == b"\x08\x01"

        replace(key, renewed_key)
        replace(certificate, renewed)

        eventually(
            "the renewed certificate is taken",
            lambda: ready_over_https(runtime.http_port, renewed),
            lambda status: status == 200,
            20,
        )
        assert live_over_grpc(runtime.grpc_port, renewed) == b"\x08\x01"
        assert ready_over_https(runtime.http_port, authority) == 0


def test_an_invalid_replacement_keeps_the_certificate(tmp_path):
    certificate, key = make_certificate(tmp_path, "first")
    with running(f"--tls-certificate={certificate}", f"--tls-key={key}") as runtime:
        key.write_text("no key")
        eventually("it is noticed", lambda: "stays" in runtime.log, bool, 20)

        assert ready_over_https(runtime.http_port, certificate) == 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "contains no token"), (None, "cannot be read")],
)
def test_an_invalid_token_file_ends_the_command(tmp_path, text, expected):
    file = tmp_path / "tokens"
    if text is not None:
        file.write_text(text)

    with pytest.raises(AssertionError, match=expected), running(f"--token-file={file}"):
        pass


@pytest.fixture
def guarded(tmp_path, grpc_transport):
    """A server that requires a token, and the token file."""
    file = tmp_path / "tokens"
    file.write_text("first\n")
    options = [f"--model-repository={MODEL}", "--model-name=digits", f"--token-file={file}"]
    with running(*options, f"--grpc-transport={grpc_transport}") as runtime:
        eventually(
            "ready", lambda: runtime.get("/v2/health/ready").status_code, lambda s: s == 200, 20
        )
        yield runtime, file


def test_requests_need_the_token_and_probes_do_not(guarded):
    runtime, _ = guarded
    url = f"http://{runtime.http}/v2/models/digits"

    assert httpx.get(url, headers=TOKEN).status_code == 200
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Basic first"}):
        refused = httpx.get(url, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"] == "a valid bearer token is required"
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready"):
        assert runtime.get(path).status_code == 200
    assert runtime.post("/v2/models/digits/ready").status_code == 401


def test_each_file_of_a_folder_has_the_tokens_of_a_client(tmp_path):
    folder = tmp_path / "tokens"
    data = folder / "..2026"
    data.mkdir(parents=True)
    (data / "shop").write_text("of-shop\nnext-of-shop\n")
    (data / "bank").write_text("of-bank")
    (folder / "..data").symlink_to("..2026")
    for key in ("shop", "bank"):
        (folder / key).symlink_to(f"..data/{key}")
    options = (f"--model-repository={MODEL}", "--model-name=digits", f"--token-file={folder}")

    with running(*options) as runtime:

        def status(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.get(f"http://{runtime.http}/v2", headers=headers).status_code

        assert [status(each) for each in ("of-shop", "next-of-shop", "of-bank", "x")] == [
            200, 200, 200, 401,
        ]  # fmt: skip
        changed = folder / "..2027"
        changed.mkdir()
        (changed / "shop").write_text("next-of-shop")
        (folder / "bank").unlink()
        (folder / "..next").symlink_to("..2027")
        (folder / "..next").rename(folder / "..data")
        eventually("the tokens are replaced", lambda: status("of-bank"), lambda s: s == 401, 20)
        assert [status(each) for each in ("of-shop", "next-of-shop")] == [401, 200]


def test_grpc_calls_need_the_token_and_health_does_not(guarded):
    runtime, _ = guarded
    with grpc.insecure_channel(runtime.grpc) as channel:

        def call(path: str, *metadata: tuple[str, str]) -> bytes:
            return channel.unary_unary(path)(b"", timeout=10, metadata=metadata)

        metadata_path = "/inference.GRPCInferenceService/ServerMetadata"
        assert b"moorage" in call(metadata_path, ("authorization", "Bearer first"))
        for given in ([], [("authorization", "Bearer other")]):
            with pytest.raises(grpc.RpcError) as caught:
                call(metadata_path, *given)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert call("/grpc.health.v1.Health/Check") == b"\x08\x01"
        assert call("/inference.GRPCInferenceService/ServerLive") == b"\x08\x01"


def test_a_rotated_token_replaces_the_old_one(guarded):
    runtime, file = guarded
    url = f"http://{runtime.http}/v2/models/digits"
    file.write_text("second\n")

    eventually(
        "the new token counts",
        lambda: httpx.get(url, headers={"Authorization": "Bearer second"}).status_code,
        lambda status: status == 200,
        20,
    )
    assert httpx.get(url, headers=TOKEN).status_code == 401


@pytest.fixture
def controlled(tmp_path):
    """A server on which clients can load and unload models."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_bytes(MODEL.read_bytes())
    with running(f"--model-repository={tmp_path}", "--repository-control=true") as runtime:
        eventually(
            "ready", lambda: runtime.get("/v2/health/ready").status_code, lambda s: s == 200, 20
        )
        yield runtime, tmp_path


def test_models_are_listed_unloaded_and_loaded(controlled):
    runtime, _ = controlled
    ready = {"version": "1", "state": "READY"}

    assert runtime.post("/v2/repository/index").json() == [
        {"name": "a", **ready},
        {"name": "b", **ready},
    ]
    assert runtime.post("/v2/repository/models/a/unload").status_code == 200
    assert runtime.get("/v2/models/a/ready").status_code == 503
    assert runtime.post("/v2/repository/index", json={"ready": True}).json() == [
        {"name": "b", **ready}
    ]
    index = runtime.post("/v2/repository/index", json={}).json()
    assert index[0] == {"name": "a", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}
    assert runtime.post("/v2/repository/models/a/load").status_code == 200
    assert runtime.get("/v2/models/a/ready").status_code == 200
    assert "model_repository" in runtime.get("/v2").json()["extensions"]


def test_a_model_is_unloaded_as_clients_of_triton_ask(controlled):
    runtime, _ = controlled
    body = {"parameters": {"unload_dependents": False}}

    assert runtime.post("/v2/repository/models/b/unload", json=body).status_code == 200
    assert runtime.get("/v2/models/b/ready").status_code == 503
    assert runtime.post("/v2/repository/models/b/load").status_code == 200


def test_a_new_model_is_loaded_on_request(controlled):
    runtime, folder = controlled
    (folder / "c").mkdir()
    (folder / "c" / "model.onnx").write_bytes(MODEL.read_bytes())

    assert runtime.post("/v2/repository/models/c/load").status_code == 200
    assert runtime.get("/v2/models/c/ready").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("POST", "models/z/load", b"", 404, "no model 'z'"),
        ("POST", "models/z/unload", b"", 404, "unknown model 'z'"),
        ("POST", "nosuch", b"", 404, "no such path"),
        ("GET", "index", b"", 405, "use POST"),
        ("POST", "index", b"[", 400, "not valid JSON"),
        ("POST", "index", b"[]", 400, "not a JSON object"),
        ("POST", "index", b'{"ready": 1}', 400, "ready is 1"),
        ("POST", "models/a/load", b'{"parameters": {"config": "x"}}', 400, "parameters"),
    ],
)
def test_invalid_control_requests_are_refused(controlled, method, path, body, status, expected):
    runtime, _ = controlled

    answer = httpx.request(method, f"http://{runtime.http}/v2/repository/{path}", content=body)

    assert answer.status_code == status
    assert expected in answer.json()["error"]


def test_control_is_disabled_by_default(guarded):
    runtime, _ = guarded

    answer = httpx.post(f"http://{runtime.http}/v2/repository/models/digits/unload", headers=TOKEN)

    assert answer.status_code == 404
    assert runtime.get("/v2/models/digits/ready").status_code == 200
