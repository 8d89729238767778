"""An S3 gateway as a process, built from pinned source: a bucket, and its users."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.go_programs import ROOT, program
from support.inference import in_url
from support.listening import free_port, wait_listening

SOURCE = ROOT / "tests" / "storage" / "servers" / "s3"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"


@dataclass(frozen=True)
class S3Server:
    """An S3 gateway with one bucket, `models`, and who may use it."""

    port: int
    folder: Path
    host: str = "127.0.0.1"
    access: str = "moorage-access"
    key: str = "moorage-secret-key"

    @property
    def url(self) -> str:
        return f"http://{in_url(self.host)}:{self.port}"

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


@contextmanager
def s3_server(folder: Path, host: str = "127.0.0.1") -> Iterator[S3Server]:
    """The gateway on a free port of the address, with its objects in the folder."""
    gateway = program(SOURCE, PACKAGE)
    for name in ("objects", "attributes"):
        (folder / name).mkdir()
    server = S3Server(free_port(host), folder, host)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(gateway, "--port", f"{in_url(host)}:{server.port}", "--quiet", "posix"),
                *("--sidecar", folder / "attributes", folder / "objects"),
            ],
            env={**os.environ, "ROOT_ACCESS_KEY": server.access, "ROOT_SECRET_KEY": server.key},
            stdout=log,
            stderr=log,
        )
    try:
        wait_listening(process, server.port, host)
        server.put("models")
        yield server
    finally:
        process.terminate()
        process.wait(10)
