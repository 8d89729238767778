"""Debian's docker-registry with the authentication by passwords or tokens."""

import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from support.api_extension import process
from support.go_programs import ROOT
from support.listening import free_port, wait_listening

UNPACKED = ROOT / "build" / "docker-registry"
USER, PASSWORD = "reader", "let-me-in"
# bcrypt of the password, which is all that the registry reads.
HASHED = "$2y$05$abcdefghijklmnopqrstuu3Jd./u/rH1RxB6auX5v7gLP6uWhKCgG"


def find() -> Path:
    """The program: the machine's own, or the package's, unpacked by the first session."""
    if own := shutil.which("docker-registry"):
        return Path(own)
    found = UNPACKED / "usr" / "bin" / "docker-registry"
    if not found.exists():
        UNPACKED.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=UNPACKED.parent) as folder:
            subprocess.run(["apt-get", "download", "docker-registry"], cwd=folder, check=True)
            (package,) = Path(folder).glob("docker-registry_*.deb")
            whole = Path(folder) / "whole"
            subprocess.run(["dpkg-deb", "--extract", package, whole], check=True)
            with suppress(OSError):  # another session was faster
                whole.rename(UNPACKED)
    return found


@contextmanager
def registry(
    folder: Path, *, private: bool = False, tokens: Mapping[str, str] | None = None
) -> Generator[str]:
    """Its address, HOST:PORT on loopback; what it keeps and its log go to the folder.

    Args:
        folder: An empty folder.
        private: Whether it asks for the password.
        tokens: Whose tokens it asks for instead: `TokenService.config`.
    """
    port = free_port()
    config: dict[str, object] = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if private:
        passwords = folder / "passwords"
        passwords.write_text(f"{USER}:{HASHED}\n")
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(passwords)}}
    if tokens:
        config["auth"] = {"token": dict(tokens)}
    file = folder / "registry.yml"
    file.write_text(json.dumps(config))
    with process([find(), "serve", file], folder / "registry.log") as started:
        wait_listening(started, port)
        yield f"127.0.0.1:{port}"


def logged_in(folder: Path, address: str) -> dict[str, str]:
    """The environment in which Docker's and buildah's clients know the password."""
    known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    file = folder / "config.json"
    file.write_text(json.dumps({"auths": {address: {"auth": known}}}))
    return {"REGISTRY_AUTH_FILE": str(file), "DOCKER_CONFIG": str(folder)}
