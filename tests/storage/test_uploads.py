"""What `moorage deploy --to` uploads: real stores keep it, and `moorage-fetch` gets it back."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from moorage_cli.ask.bucket import upload_to_bucket
from moorage_cli.ask.google_bucket import upload_to_google
from moorage_cli.ask.registry import push
from moorage_cli.commands.model_sources import measured
from moorage_cli.manifests.deploying import Content, content_of
from moorage_cli.manifests.stores import Artifact, Bucket, store_of
from moorage_cli.printing.failures import Failure
from support.azure_server import AzureServer
from support.fetching import Fetcher
from support.gcs_server import GcsServer
from support.private_registry import PASSWORD, USER, logged_in
from support.private_registry import registry as docker_registry
from support.registry import MANIFEST, Registry
from support.registry_tokens import token_service
from support.s3_server import S3Server

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

LARGE = os.urandom(20 << 20)
FILES = {"model.onnx": b"graph", "a/large file+%.bin": LARGE, "a/empty": b"", "a/twin": b"graph"}


@dataclass
class Upload:
    """Files of this machine, and what the progress was."""

    content: Content
    paths: dict[str, Path]
    progress: list[int] = field(default_factory=list)

    def to(self, store: str) -> tuple[str, bool]:
        """The URI of the model, and whether anything was sent."""
        place = store_of(store, "iris", self.content)
        arguments = (self.content, self.paths, self.progress.append)
        match place:
            case Bucket(scheme="gs"):
                return place.uri, upload_to_google(place, *arguments)
            case Bucket():
                return place.uri, upload_to_bucket(place, *arguments)
            case Artifact():
                return place.uri, push(place, *arguments)


@pytest.fixture
def made(tmp_path: Path) -> Callable[[dict[str, bytes]], Upload]:
    def write(files: dict[str, bytes]) -> Upload:
        paths = {}
        for number, (name, body) in enumerate(files.items()):
            paths[name] = tmp_path / f"file-{number}"
            paths[name].write_bytes(body)
        return Upload(content_of({name: measured(each) for name, each in paths.items()}), paths)

    return write


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without a login, whose home has no files."""
    for name in ("AWS_", "AZURE_", "CLOUDSDK_", "DOCKER_", "GOOGLE_", "REGISTRY_", "XDG_"):
        for variable in [each for each in os.environ if each.startswith(name)]:
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))


@dataclass
class Target:
    """A store, what the user knows about it, and what the pods know."""

    store: str
    variables: dict[str, str]
    secret: dict[str, str]


@pytest.fixture(params=["s3", "gs", "azblob", "oci"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        found = Target("s3://models/up", s3.secret, s3.secret)
    elif request.param == "gs":
        gcs: GcsServer = request.getfixturevalue("gcs")
        found = Target(f"gs://models/up?endpoint={gcs.url}", {}, {})
    elif request.param == "azblob":
        azure: AzureServer = request.getfixturevalue("azure")
        found = Target(f"azblob://{azure.account}/models/up", azure.secret, azure.secret)
    else:
        server: Registry = request.getfixturevalue("registry")
        found = Target(f"oci://127.0.0.1:{server.port}/up", {}, {})
    for name, value in found.variables.items():
        monkeypatch.setenv(name, value)
    return found


def test_all_files_arrive_and_are_not_sent_again(
    target: Target, made: Callable[[dict[str, bytes]], Upload], fetch: Fetcher
) -> None:
    upload = made(FILES)

    uri, is_new = upload.to(target.store)

    assert is_new
    done = fetch(uri, target.secret)
    assert done.files == FILES, done.log
    assert upload.progress == sorted(upload.progress)
    assert upload.progress[-1] == sum(map(len, FILES.values()))
    assert len(upload.progress) > 10  # a large file shows its progress
    assert upload.to(target.store) == (uri, False)


def test_a_changed_model_has_another_place_and_the_first_one_stays(
    target: Target, made: Callable[[dict[str, bytes]], Upload], fetch: Fetcher, tmp_path: Path
) -> None:
    first, _ = made({"model.onnx": b"one"}).to(target.store)
    second, is_new = made({"model.onnx": b"two"}).to(target.store)

    assert is_new
    assert first != second
    assert fetch(first, target.secret).files == {"model.onnx": b"one"}


@pytest.mark.parametrize("body", [b"small", LARGE])
def test_a_file_that_changes_meanwhile_is_named_and_its_model_has_no_place(
    target: Target, made: Callable[[dict[str, bytes]], Upload], fetch: Fetcher, body: bytes
) -> None:
    upload = made({"other": b"", "model.onnx": b"changed" + body})
    path = upload.paths["model.onnx"]
    path.write_bytes(b"CHANGED" + body)

    with pytest.raises(Failure, match=f"{path} has changed"):
        upload.to(target.store)

    uri = store_of(target.store, "iris", upload.content).uri
    assert "model.onnx" not in fetch(uri, target.secret).files


def test_an_upload_that_broke_off_goes_on_with_the_files_that_are_missing(
    s3: S3Server, made: Callable[[dict[str, bytes]], Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.secret.items():
        monkeypatch.setenv(name, value)
    upload = made({"model.onnx": b"to be sent again", "a/large": LARGE})
    uri, _ = upload.to("s3://models/again")
    kept = s3.folder / "objects" / uri.removeprefix("s3://")
    (kept / "model.onnx").unlink()
    before = (kept / "a" / "large").stat().st_mtime_ns

    assert upload.to("s3://models/again") == (uri, True)

    assert (kept / "model.onnx").read_bytes() == b"to be sent again"
    assert (kept / "a" / "large").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("store", "changed", "words"),
    [
        ("s3://models", {"AWS_SECRET_ACCESS_KEY": "wrong"}, ["403", "signature"]),
        ("s3://missing", {}, ["404", "bucket does not exist"]),
        ("s3://models", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, ["Connection refused"]),
        ("s3://models?endpoint=http://127.0.0.1:1", {}, ["Connection refused"]),
    ],
)
def test_the_reason_of_a_refused_upload_to_a_bucket_is_one_line(
    s3: S3Server,
    made: Callable[[dict[str, bytes]], Upload],
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    changed: dict[str, str],
    words: list[str],
) -> None:
    for name, value in (s3.secret | changed).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(Failure) as caught:
        made({"model.onnx": b"graph"}).to(store)

    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"--to: {store.partition('?')[0]}/iris/")
    assert all(word in line for word in words), line
    assert "Debug" not in line


def test_without_variables_the_login_of_the_aws_tool_is_used(
    s3: S3Server,
    made: Callable[[dict[str, bytes]], Upload],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    tool, login = tmp_path / "aws", {"AccessKeyId": s3.access, "SecretAccessKey": s3.key}
    tool.write_text(
        f"""#!/bin/sh
test "$*" = "configure export-credentials --format process" || exit 1
echo '{json.dumps({"Version": 1, **login})}'
"""
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    _, is_new = made({"model.onnx": b"graph"}).to(f"s3://models/tool?endpoint={s3.url}")

    assert is_new


@contextmanager
def private(folder: Path) -> Generator[str]:
    folder.mkdir()
    with docker_registry(folder, private=True) as address:
        yield address


def test_a_private_registry_gets_the_password_of_docker_login(
    made: Callable[[dict[str, bytes]], Upload],
    fetch: Fetcher,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    upload = made(FILES)
    with private(tmp_path / "registry") as address:
        with pytest.raises(Failure, match=f"401.*docker login {address}"):
            upload.to(f"oci://{address}/team")

        for name, value in logged_in(tmp_path, address).items():
            monkeypatch.setenv(name, value)
        uri, is_new = upload.to(f"oci://{address}/team")

        assert is_new
        assert fetch(uri, {"username": USER, "password": PASSWORD}).files == FILES


@pytest.mark.parametrize("login", ["password", "identity token", "nobody"])
def test_a_token_service_gets_the_login_and_the_registry_its_token(
    made: Callable[[dict[str, bytes]], Upload],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    login: str,
) -> None:
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    entries = {"password": {"auth": pair}, "identity token": {"identitytoken": "long-lived"}}
    upload = made({"model.onnx": b"graph"})
    with (
        token_service(tmp_path) as tokens,
        docker_registry(tmp_path, tokens=tokens.config) as address,
    ):
        tokens.basic, tokens.refresh_token = f"Basic {pair}", "long-lived"
        config = {"auths": {address: entries.get(login, {})}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        if login == "nobody":
            with pytest.raises(Failure, match="token service answers 401: wrong user"):
                upload.to(f"oci://{address}/team")
            return

        uri, is_new = upload.to(f"oci://{address}/team")

        assert is_new
        assert set(tokens.scopes) == {"repository:team/iris:pull,push"}
        assert upload.to(f"oci://{address}/team") == (uri, False)


def test_the_tag_of_an_artifact_is_the_digest_of_its_files(
    registry: Registry, made: Callable[[dict[str, bytes]], Upload]
) -> None:
    upload = made({"model.onnx": b"tagged"})

    uri, _ = upload.to(f"oci://127.0.0.1:{registry.port}/tags")

    url = f"{registry.url}/v2/tags/iris/manifests/{upload.content.digest}"
    found = httpx.get(url, headers={"Accept": MANIFEST})
    assert found.headers["Docker-Content-Digest"] == uri.partition("@")[2]
    assert found.json()["artifactType"] == "application/vnd.moorage.model"


INTERRUPTED = """
import sys
from pathlib import Path
from moorage_cli.ask.bucket import upload_to_bucket
from moorage_cli.commands.model_sources import measured
from moorage_cli.manifests.deploying import content_of
from moorage_cli.manifests.stores import store_of

file = Path(sys.argv[2])
content = content_of({"model.onnx": measured(file)})
try:
    upload_to_bucket(store_of(sys.argv[1], "iris", content), content, {"model.onnx": file}, print)
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_an_interrupt_ends_an_upload_to_a_store_that_does_not_answer(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"graph")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = f"s3://models?endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, store, file],
            env={**os.environ, **keys},
        )
        try:
            accepted, _ = silent.accept()
            with accepted:
                process.send_signal(signal.SIGINT)
                assert process.wait(10) == 7
        finally:
            process.kill()
            process.wait()


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], tuple[int, str]]) -> Generator[str]:
    """A registry of which a test decides the status and Location of each answer; its address."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, location = answer(self)
            self.send_response(status)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_POST = do_PATCH = do_PUT = _any  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def test_no_other_address_gets_the_login(
    made: Callable[[dict[str, bytes]], Upload], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The registry chooses the address at which an upload continues."""
    seen: list[tuple[str, str | None]] = []

    def refuses(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        seen.append((request.command, request.headers.get("Authorization")))
        return 403, ""

    with answering(refuses) as other:

        def leads_on(request: BaseHTTPRequestHandler) -> tuple[int, str]:
            if "Authorization" not in request.headers:
                return 401, ""
            return (202, f"http://{other}/on") if request.command == "POST" else (404, "")

        with answering(leads_on) as front:
            for name, value in logged_in(tmp_path, front).items():
                monkeypatch.setenv(name, value)
            with pytest.raises(Failure, match="403"):
                made({"model.onnx": b"graph"}).to(f"oci://{front}/team")

    assert seen == [("PATCH", None)]
