"""Virtual environments for third-party clients and servers, beside the project's own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(name: str, requirements: Path | None = None) -> Path:
    """Python of build/NAME with the listed packages, made when it is not there.

    Args:
        name: The folder below build/.
        requirements: The list; requirements/NAME.txt by default.
    """
    folder = ROOT / "build" / name
    wanted = requirements or ROOT / "requirements" / f"{name}.txt"
    installed = folder / "requirements.txt"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r", wanted]
        subprocess.run(pip, check=True)
        installed.write_bytes(wanted.read_bytes())
    return folder / "bin" / "python"
