"""An OCI registry as a process, built from pinned source, and pushes to it."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from moorage_localcluster.platforms import architecture, own
from support.go_programs import ROOT, program
from support.listening import free_port, wait_listening

SOURCE = ROOT / "tests" / "storage" / "servers" / "oci"
PACKAGE = "github.com/google/go-containerregistry/cmd/registry"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass(frozen=True)
class Registry:
    """A registry on a loopback port, without authentication."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def oci_registry(folder: Path) -> Iterator[Registry]:
    """The registry; its log goes to the folder."""
    made = program(SOURCE, PACKAGE)
    server = Registry(free_port())
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([made, f"--port={server.port}"], stdout=log, stderr=log)
    try:
        wait_listening(process, server.port)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def layer(*members: tuple[str, bytes | None]) -> bytes:
    """A layer with files, and with a symbolic link for an entry without content."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body or b"")
            if body is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(info, io.BytesIO(body or b""))
    return made.getvalue()


class Repository:
    """Pushes to one repository."""

    def __init__(self, registry: Registry, name: str) -> None:
        self.port = registry.port
        self.api = f"{registry.url}/v2/{name}"
        self.uri = f"oci://127.0.0.1:{registry.port}/{name}"

    def blob(self, body: bytes, kind: str = LAYER, **annotations: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        place = httpx.post(f"{self.api}/blobs/uploads/").headers["Location"]
        url = httpx.URL(self.api).join(place).copy_add_param("digest", digest)
        assert httpx.put(url, content=body).status_code == 201
        found = {"mediaType": kind, "digest": digest, "size": len(body)}
        return {**found, "annotations": annotations} if annotations else found

    def manifest(self, tag: str, document: dict[str, Any]) -> str:
        body = json.dumps({"schemaVersion": 2, **document}).encode()
        kind = {"Content-Type": document["mediaType"]}
        put = httpx.put(f"{self.api}/manifests/{tag}", content=body, headers=kind)
        assert put.status_code == 201, put.text
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def image(self, tag: str, *layers: dict[str, Any], config: bytes = b"{}") -> str:
        config_blob = self.blob(config, "application/vnd.oci.image.config.v1+json")
        return self.manifest(tag, {"mediaType": MANIFEST, "config": config_blob, "layers": layers})

    def mountable_image(self, tag: str, *files: tuple[str, bytes]) -> str:
        """A container image for this machine, of one layer with these files."""
        packed = layer(*files)
        digest = hashlib.sha256(gzip.decompress(packed)).hexdigest()
        config = {
            "architecture": architecture(own()),
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        return self.image(tag, self.blob(packed), config=json.dumps(config).encode())
