"""An emulator of Google Cloud Storage as a process, built from pinned source."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.go_programs import ROOT, program
from support.listening import free_port, wait_listening

SOURCE = ROOT / "tests" / "storage" / "servers" / "gcs"
PACKAGE = "github.com/fsouza/fake-gcs-server"


@dataclass(frozen=True)
class GcsServer:
    """An emulator with one bucket, `models`, without authentication."""

    port: int
    host: str

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def put(self, name: str, body: bytes) -> None:
        """An object of the bucket."""
        url = f"{self.url}/upload/storage/v1/b/models/o"
        query = {"uploadType": "media", "name": name}
        assert httpx.post(url, params=query, content=body, timeout=10).status_code == 200

    def put_gzip(self, name: str, body: bytes) -> None:
        """An object with the content encoding gzip, as `gcloud storage cp --gzip-local` makes."""
        url = f"{self.url}/upload/storage/v1/b/models/o"
        metadata = json.dumps({"name": name, "contentEncoding": "gzip"}).encode()
        parts = [(b"application/json", metadata), (b"application/octet-stream", body)]
        content = b"".join(b"--part\r\nContent-Type: %b\r\n\r\n%b\r\n" % part for part in parts)
        answer = httpx.post(
            url,
            params={"uploadType": "multipart"},
            content=content + b"--part--",
            headers={"Content-Type": "multipart/related; boundary=part"},
            timeout=10,
        )
        assert answer.status_code == 200


@contextmanager
def gcs_server(folder: Path, host: str = "127.0.0.1") -> Iterator[GcsServer]:
    """The emulator on a free port of the address; its log goes to the folder."""
    made = program(SOURCE, PACKAGE)
    server = GcsServer(free_port(host), host)
    command = [made, "-scheme=http", f"-host={host}", f"-port={server.port}"]
    command += ["-backend=memory", f"-public-host={host}:{server.port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_listening(process, server.port, host)
        bucket = httpx.post(f"{server.url}/storage/v1/b", json={"name": "models"}, timeout=10)
        assert bucket.status_code == 200, bucket.text
        yield server
    finally:
        process.terminate()
        process.wait(10)
