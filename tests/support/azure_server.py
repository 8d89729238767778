"""Azurite, Microsoft's emulator of Azure Blob Storage, as a process, and Azure's own client."""

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.go_programs import ROOT
from support.listening import free_port, wait_listening
from support.node_programs import installed, node

SOURCE = ROOT / "tests" / "storage" / "servers" / "azure"
ACCOUNT = "moorage"


@dataclass(frozen=True)
class AzureServer:
    """The emulator with one account, `moorage`, and one private container, `models`."""

    port: int
    host: str
    client: subprocess.Popen[str]
    scheme: str = "http"
    account: str = ACCOUNT
    key: str = base64.b64encode(b"a key that is only for tests").decode()

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def secret(self) -> dict[str, str]:
        return {"AZURE_STORAGE_KEY": self.key, "AZURE_STORAGE_SERVICE_ENDPOINT": self.url}

    def put(self, path: str, body: bytes, md5_of: bytes | None = None, **more: Any) -> None:
        """Upload CONTAINER/NAME with the MD5 of its content, or of another one."""
        container, _, name = path.partition("/")
        digest = hashlib.md5(body if md5_of is None else md5_of).digest()
        md5 = base64.b64encode(digest).decode()
        content = base64.b64encode(body).decode()
        self.ask("put", container=container, name=name, body=content, md5=md5, **more)

    def ask(self, command: str, **words: Any) -> Any:
        """The answer of one command of `client.mjs`."""
        assert self.client.stdin
        assert self.client.stdout
        self.client.stdin.write(json.dumps({"command": command, **words}) + "\n")
        self.client.stdin.flush()
        answer = json.loads(self.client.stdout.readline())
        assert "error" not in answer, answer
        return answer["answer"]


@contextmanager
def azure_server(
    folder: Path, host: str = "127.0.0.1", certificate: Path | None = None
) -> Iterator[AzureServer]:
    """The emulator on a free port of the address; its log goes to the folder.

    With a certificate (a file that also has the key), it speaks TLS and accepts bearer tokens, of
    which it checks all but the signature.
    """
    program, home = node(), installed(SOURCE)
    port, key = free_port(host), AzureServer.key
    command = [program, "node_modules/azurite/dist/src/blob/main.js", "--inMemoryPersistence"]
    command += ["--blobHost", host, "--blobPort", str(port)]
    command += ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"}
    scheme = "http"
    if certificate is not None:
        scheme, files = "https", str(certificate)
        command += ["--oauth", "basic", "--cert", files, "--key", files]
        environment["NODE_EXTRA_CA_CERTS"] = files
    asked = [program, "client.mjs", f"{scheme}://{host}:{port}/{ACCOUNT}", ACCOUNT, key]
    pipe = subprocess.PIPE
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log) as process,
        subprocess.Popen(
            asked, cwd=home, env=environment, stdin=pipe, stdout=pipe, text=True
        ) as client,
    ):
        try:
            wait_listening(process, port, host)
            server = AzureServer(port, host, client, scheme)
            server.ask("container", container="models")
            yield server
        finally:
            client.terminate()
            process.terminate()
