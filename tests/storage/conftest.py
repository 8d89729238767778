"""Stores for `moorage-fetch`: real servers built from source, and a web server that fails."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.fetching import Fetcher
from support.file_server import FileServer, file_server
from support.go_programs import program
from support.listening import free_port, wait_listening
from support.s3_server import S3Server, s3_server
from support.self_signed import self_signed, trusting

SERVERS = Path(__file__).parent / "servers"


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
    return self_signed(tmp_path_factory.mktemp("certificate"), "127.0.0.1")


@pytest.fixture
def secure(certificate: Path) -> Iterator[FileServer]:
    with file_server(certificate) as server:
        yield server


@pytest.fixture
def trusted(certificate: Path) -> dict[str, str]:
    """A Secret that has the authority of `secure`."""
    return trusting(certificate)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


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
