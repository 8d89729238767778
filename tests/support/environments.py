"""Virtual environments for third-party clients, separate from the project's own packages."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(name: str) -> Path:
    """Python of build/NAME with what requirements/NAME.txt lists, made when it is not there."""
    folder = ROOT / "build" / name
    wanted = ROOT / "requirements" / f"{name}.txt"
    installed = folder / "requirements.txt"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r", wanted]
        subprocess.run(pip, check=True)
        installed.write_bytes(wanted.read_bytes())
    return folder / "bin" / "python"
