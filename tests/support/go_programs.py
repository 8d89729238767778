"""Third-party programs in Go, built from the pinned source of a module beside the tests."""

import os
import subprocess
from pathlib import Path

import pytest

from moorage_localcluster.binaries import ClusterError, find_go

ROOT = Path(__file__).resolve().parents[2]


def program(module: Path, package: str) -> Path:
    """The program, built again when the module's pins changed; without Go the test is skipped."""
    folder = ROOT / "build" / module.name
    built, stamp = folder / module.name, folder / "go.sum"
    wanted = (module / "go.sum").read_bytes()
    if not built.exists() or not stamp.exists() or stamp.read_bytes() != wanted:
        try:
            go = find_go()
        except ClusterError as error:
            pytest.skip(str(error))
        env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath"}
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([go, "build", "-o", built, package], cwd=module, env=env, check=True)
        stamp.write_bytes(wanted)
    return built
