"""Third-party programs for Node.js, installed from a pinned lock file next to the tests."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.go_programs import ROOT

__all__ = ["installed", "node"]


def node() -> str:
    """The path of Node.js; without it and npm the test is skipped."""
    found = [shutil.which(name) for name in ("node", "npm")]
    if not found[0] or not found[1]:
        pytest.skip("no Node.js with npm is installed")
    return found[0]


def installed(module: Path) -> Path:
    """The folder with `node_modules` and the module's own files; installed again after a change.

    Args:
        module: Folder of package.json, package-lock.json and the scripts that use the packages.
    """
    node()
    folder = ROOT / "build" / f"node-{module.name}"
    lock = (module / "package-lock.json").read_bytes()
    stamp = folder / "installed"
    folder.mkdir(parents=True, exist_ok=True)
    for file in module.iterdir():
        shutil.copy(file, folder)
    if not stamp.exists() or stamp.read_bytes() != lock:
        # no package may run a program of its own during the installation
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        stamp.write_bytes(lock)
    return folder
