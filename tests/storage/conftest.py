"""Stores for `moorage-fetch`: real servers built from source, and a web server that fails."""

import hashlib
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.fetching import Fetcher
from support.file_server import FileServer, file_server
from support.go_programs import program
from support.waiting import eventually

SERVERS = Path(__file__).parent / "servers"
BUILD_SECONDS = 600


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


@pytest.fixture
def fetch(volume: Path) -> Iterator[Fetcher]:
    fetcher = Fetcher(volume)
    yield fetcher
    fetcher.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of 127.0.0.1, which is its own authority, in one file."""
    folder = tmp_path_factory.mktemp("certificate")
    both, key = folder / "both.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", both]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(both.read_text() + key.read_text())
    return both


@pytest.fixture
def secure(certificate: Path) -> Iterator[FileServer]:
    with file_server(certificate) as server:
        yield server


@pytest.fixture
def trusted(certificate: Path) -> dict[str, str]:
    """A Secret that has the authority of `secure`."""
    return {"ca.crt": certificate.read_text().partition("-----BEGIN PRIVATE KEY")[0]}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_listening(process: subprocess.Popen[bytes], port: int) -> None:
    def listens() -> bool:
        assert process.poll() is None, "the server ended"
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    eventually(f"port {port} listens", listens, bool, 30)


@dataclass(frozen=True)
class S3Server:
    """An S3 gateway with one bucket, `models`, and who may use it."""

    port: int
    folder: Path
    access: str = "moorage-access"
    key: str = "moorage-secret-key"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def secret(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": self.key,
            "AWS_ENDPOINT_URL": self.url,
        }

    def put(self, path: str, body: bytes = b"", *headers: str) -> str:
        """PUT by curl, whose signatures are none of ours; the answer's headers."""
        command = ["curl", "--fail-with-body", "--silent", "--show-error", "--dump-header", "-"]
        command += ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{self.access}:{self.key}"]
        command += ["--request", "PUT", "--data-binary", "@-", f"{self.url}/{path}"]
        digest = hashlib.sha256(body).hexdigest()
        command += ["--header", "Content-Type:", "--header", f"x-amz-content-sha256: {digest}"]
        command += [word for header in headers for word in ("--header", header)]
        done = subprocess.run(command, input=body, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    gateway = program(SERVERS / "s3", "github.com/versity/versitygw/cmd/versitygw")
    folder = tmp_path_factory.mktemp("s3")
    for name in ("objects", "attributes"):
        (folder / name).mkdir()
    server = S3Server(free_port(), folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(gateway, "--port", f"127.0.0.1:{server.port}", "--quiet", "posix"),
                *("--sidecar", folder / "attributes", folder / "objects"),
            ],
            env={**os.environ, "ROOT_ACCESS_KEY": server.access, "ROOT_SECRET_KEY": server.key},
            stdout=log,
            stderr=log,
        )
    try:
        wait_listening(process, server.port)
        server.put("models")
        yield server
    finally:
        process.terminate()
        process.wait(10)


@dataclass(frozen=True)
class PlainServer:
    """A server on a port of loopback that asks nobody who they are."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainServer]:
    """An OCI registry."""
    made = program(SERVERS / "oci", "github.com/google/go-containerregistry/cmd/registry")
    server = PlainServer(free_port())
    yield from _served([made, f"--port={server.port}"], server, tmp_path_factory.mktemp("oci"))


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainServer]:
    """Google Cloud Storage as far as an emulator has it."""
    made = program(SERVERS / "gcs", "github.com/fsouza/fake-gcs-server")
    server = PlainServer(free_port())
    command = [made, "-scheme=http", "-host=127.0.0.1", f"-port={server.port}"]
    command += ["-backend=memory", f"-public-host=127.0.0.1:{server.port}"]
    yield from _served(command, server, tmp_path_factory.mktemp("gcs"))


def _served(command: list[str | Path], server: PlainServer, folder: Path) -> Iterator[PlainServer]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_listening(process, server.port)
        yield server
    finally:
        process.terminate()
        process.wait(10)
