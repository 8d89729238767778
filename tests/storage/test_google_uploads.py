"""What `moorage deploy --to gs://` does when a line breaks, and whose login it uses."""

import json
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from moorage_cli.ask import google_bucket
from moorage_cli.ask.google_bucket import PART_BYTES, upload_to_google
from moorage_cli.commands.model_sources import measured
from moorage_cli.manifests.deploying import content_of
from moorage_cli.manifests.stores import Bucket, store_of
from moorage_cli.printing.failures import Failure
from support.gcs_server import GcsServer

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(120)]

LARGE = os.urandom(3 * PART_BYTES - 1)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without a login, on a machine outside Google's cloud, with only own tools."""
    for variable in [each for each in os.environ if each.startswith(("CLOUDSDK_", "GOOGLE_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(google_bucket, "DELAYS", (0.0, 0.0, 0.0))


@pytest.fixture
def upload(tmp_path: Path) -> Callable[[str, bytes], str]:
    """Uploads a file to a store, and returns the URI of the model."""

    def do(store: str, body: bytes) -> str:
        path = tmp_path / "file"
        path.write_bytes(body)
        content = content_of({"model.onnx": measured(path)})
        place = store_of(store, "iris", content)
        assert isinstance(place, Bucket)
        upload_to_google(place, content, {"model.onnx": path}, lambda _: None)
        return place.uri

    return do


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler, bytes], None]) -> Generator[str]:
    """A server of which a test makes each answer; its address."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def answered(
    request: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str
) -> None:
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@pytest.mark.parametrize("broken", ["before", "in the middle", "after", "overloaded", "partly"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_part_on_a_line_that_breaks_arrives_once(
    gcs: GcsServer, upload: Callable[[str, bytes], str], broken: str, number: int
) -> None:
    puts = arrived = 0
    end = httpx.Response(500)

    def pass_on(request: BaseHTTPRequestHandler, body: bytes) -> None:
        nonlocal puts, arrived, end
        span = request.headers.get("Content-Range", "")
        if "*" in span:  # a query, which the emulator takes for the end of the upload
            known = {"Range": f"bytes=0-{arrived - 1}"} if arrived else {}
            answered(request, *((200, end.content) if end.is_success else (308,)), **known)
            return
        breaks = request.command == "PUT" and puts == number
        puts += request.command == "PUT"
        if breaks and broken == "overloaded":
            answered(request, 503)
            return
        if breaks and broken == "before":
            request.connection.close()
            return
        if breaks and broken in {"in the middle", "partly"}:
            first, _, size = span.removeprefix("bytes ").replace("-", "/").split("/")
            body = body[: PART_BYTES // 2]
            span = f"bytes {first}-{int(first) + len(body) - 1}/{size}"
        headers = {"Content-Range": span} if span else {}
        found = httpx.request(
            request.command, gcs.url + request.path, content=body, headers=headers
        )
        arrived += len(body)
        if request.command == "PUT":
            end = found
        if breaks and broken != "partly":
            request.connection.close()
            return
        kept = {name: found.headers[name] for name in ("Range",) if name in found.headers}
        if "Location" in found.headers:
            kept["Location"] = found.headers["Location"].replace(gcs.url, front)
        answered(request, found.status_code, found.content, **kept)

    folder = f"{broken.replace(' ', '-')}-{number}"
    with serving(pass_on) as front:
        uri = upload(f"gs://models/{folder}?endpoint={front}", LARGE)

    key = uri.partition("?")[0].removeprefix("gs://models/") + "/model.onnx"
    stored = httpx.get(f"{gcs.url}/storage/v1/b/models/o/{key.replace('/', '%2F')}?alt=media")
    assert stored.content == LARGE
    assert puts > 3 - (broken == "after")


def test_an_object_with_other_data_than_was_sent_is_removed(
    gcs: GcsServer, upload: Callable[[str, bytes], str]
) -> None:
    def pass_on(request: BaseHTTPRequestHandler, body: bytes) -> None:
        changed = body.replace(b"graph", b"grapf")
        found = httpx.request(request.command, gcs.url + request.path, content=changed)
        answered(request, found.status_code, found.content)

    with serving(pass_on) as front, pytest.raises(Failure, match=r"onnx was damaged on its way"):
        upload(f"gs://models/damaged?endpoint={front}", b"graph")

    listed = httpx.get(f"{gcs.url}/storage/v1/b/models/o?prefix=damaged").json()
    assert not listed.get("items")


def test_a_refusal_and_a_store_that_is_away_are_one_line(
    gcs: GcsServer, upload: Callable[[str, bytes], str]
) -> None:
    with pytest.raises(Failure, match=r"^--to: gs://missing/iris/.*: 404: .+$"):
        upload(f"gs://missing?endpoint={gcs.url}", b"graph")
    with pytest.raises(Failure, match=r"^--to: gs://models/iris/.*refused.*$"):
        upload("gs://models?endpoint=http://127.0.0.1:1", b"graph")


@contextmanager
def google(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[str, list[str]]]:
    """A store and token service; the store takes the token `right` at its own address only."""
    seen: list[str] = []

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> None:
        given = request.headers.get("Authorization", "")
        seen.append(f"{request.command} {given}".strip())
        if request.path == "/token":
            assert b"grant_type=" in body
            token = json.dumps({"access_token": "right", "expires_in": 3600}).encode()
            answered(request, 200, token, **{"Content-Type": "application/json"})
        elif request.path == "/session":
            answered(request, 200)
        elif given != "Bearer right":
            error = {"error": {"code": 401, "message": "Invalid Credentials"}}
            answered(request, 401, json.dumps(error).encode())
        elif "uploadType=resumable" in request.path:
            answered(request, 200, Location=f"{front}/session")
        else:
            answered(request, 404 if request.command == "GET" else 200)

    with serving(answer) as front:
        monkeypatch.setattr(google_bucket, "ENDPOINT", front)
        # a token would not be sent over a line without TLS, except to this test
        monkeypatch.setattr(google_bucket, "PLAIN", "none://")
        yield front, seen


def test_a_service_account_of_a_file_uploads(
    upload: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with google(monkeypatch) as (front, seen):
        account = {
            "type": "service_account", "client_email": "a@b", "private_key": key.decode(),
            "token_uri": f"{front}/token",
        }  # fmt: skip
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))

        upload("gs://models", b"graph")

    assert seen == ["POST", "GET Bearer right", "POST Bearer right"]


@pytest.mark.parametrize(("body", "last"), [(b"graph", []), (LARGE[: PART_BYTES + 1], ["PUT"])])
def test_the_login_of_gcloud_is_used_and_goes_to_no_other_address(
    upload: Callable[[str, bytes], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    body: bytes,
    last: list[str],
) -> None:
    tool = tmp_path / "gcloud"
    tool.write_text('#!/bin/sh\ntest "$*" = "auth print-access-token" || exit 1\necho right\n')
    tool.chmod(0o755)
    with google(monkeypatch) as (_, seen):
        if last:  # this store takes the first part for the whole file
            with pytest.raises(Failure, match=": 200"):
                upload("gs://models", body)
        else:
            upload("gs://models", body)

    assert seen == ["GET Bearer right", "POST Bearer right", *last]


def test_without_a_login_the_ways_to_log_in_are_named(upload: Callable[[str, bytes], str]) -> None:
    with pytest.raises(Failure) as caught:
        upload("gs://models", b"graph")

    (line,) = str(caught.value).splitlines()
    assert "GOOGLE_APPLICATION_CREDENTIALS" in line
    assert "gcloud auth login" in line


def test_credentials_that_are_damaged_are_named(
    upload: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "account.json").write_text("{")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))

    with pytest.raises(Failure, match=r"account\.json"):
        upload("gs://models", b"graph")
