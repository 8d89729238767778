"""A release collects every fragment of changelog.d/ in a section of the changelog."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = {"one.added.md": "One thing\nis new.", "two.fixed.md": "Another one works."}


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The changelog after a release with today's fragments and two made up ones, in one line."""
    folder = tmp_path_factory.mktemp("release")
    shutil.copytree(ROOT / "changelog.d", folder / "changelog.d")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    for name, text in MADE_UP.items():
        (folder / "changelog.d" / name).write_text(text)
    command = ["-m", "towncrier", "build", "--version", "9.0.0", "--date", "2000-01-01", "--keep"]
    subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=True
    )
    return " ".join((folder / "CHANGELOG.md").read_text().split())


def test_a_release_gets_a_section_above_the_earlier_ones(collected: str) -> None:
    _, _, section = collected.partition("<!-- towncrier release notes start -->")
    assert section.startswith(" ## 9.0.0 (2000-01-01) ### ")
    assert " ## 0.1.0 (" in section


def test_each_fragment_is_in_the_section(collected: str) -> None:
    texts = [each.read_text() for each in (ROOT / "changelog.d").glob("*.md")]
    for text in (*texts, *MADE_UP.values()):
        assert f"- {' '.join(text.split())}" in collected
