"""A release collects every fragment in changelog.d/."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAGMENTS = sorted((ROOT / "changelog.d").glob("*.md"))


@pytest.fixture(scope="module")
def release() -> str:
    """The changelog of a release with the current fragments, in one line."""
    command = ["-m", "towncrier", "build", "--draft", "--version", "0.0.0", "--date", "2000-01-01"]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return " ".join(done.stdout.split())


def test_a_release_has_a_heading(release: str) -> None:
    assert release.startswith("## 0.0.0 (2000-01-01) ###")


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_a_fragment_is_in_the_release(path: Path, release: str) -> None:
    assert f"- {' '.join(path.read_text().split())}" in release
