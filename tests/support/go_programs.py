"""Third-party programs in Go, built from the pinned source of a module next to the tests."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from moorage_localcluster.binaries import ClusterError, find_go

ROOT = Path(__file__).resolve().parents[2]


def program(module: Path, package: str, name: str = "") -> Path:
    """The program, built again when pins or sources change; without Go the test is skipped.

    Args:
        module: Folder of the go.mod, and of the sources where the program is our own.
        package: Go package.
        name: Of the program, that of the module's folder by default.
    """
    name = name or module.name
    folder = ROOT / "build" / module.name
    built, stamp = folder / name, folder / f"{name}.sources"
    files = [module / "go.sum", *sorted(module.glob("*.go"))]
    wanted = b"".join(file.read_bytes() for file in files)
    if not built.exists() or not stamp.exists() or stamp.read_bytes() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        _go(module, "build", "-o", built, package)
        stamp.write_bytes(wanted)
    return built


def source(module: Path, dependency: str) -> Path:
    """The folder of a pinned dependency's files; without Go the test is skipped."""
    return Path(json.loads(_go(module, "mod", "download", "-json", dependency))["Dir"])


def _go(module: Path, *words: str | Path) -> str:
    try:
        go = find_go()
    except ClusterError as error:
        pytest.skip(str(error))
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath"}
    done = subprocess.run(
        [go, *words], cwd=module, env=env, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout
