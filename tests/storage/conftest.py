"""Stores for `moorage-fetch`: real servers built from source, and a web server that fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.azure_server import AzureServer, azure_server
from support.fetching import Fetcher
from support.file_server import FileServer, file_server
from support.gcs_server import GcsServer, gcs_server
from support.registry import Registry, oci_registry
from support.s3_server import S3Server, s3_server
from support.self_signed import self_signed, trusting


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
    """Key and self-signed certificate for 127.0.0.1, in one file."""
    return self_signed(tmp_path_factory.mktemp("certificate"), "127.0.0.1")


@pytest.fixture
def secure(certificate: Path) -> Iterator[FileServer]:
    with file_server(certificate) as server:
        yield server


@pytest.fixture
def trusted(certificate: Path) -> dict[str, str]:
    """A Secret with the CA of `secure`."""
    return trusting(certificate)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with oci_registry(tmp_path_factory.mktemp("oci")) as server:
        yield server


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    with gcs_server(tmp_path_factory.mktemp("gcs")) as server:
        yield server


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with azure_server(tmp_path_factory.mktemp("azure")) as server:
        yield server
