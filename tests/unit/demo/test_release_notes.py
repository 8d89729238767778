"""The notes of a release come from its section of the changelog."""

import pytest

from choice import DemoError
from release_notes import CHANGELOG, notes

TEXT = "# Changelog\n\n## 0.2.0 (2026-02-01)\n\n### Fixed\n\n- b\n\n## 0.1.0\n\n- a\n"


@pytest.mark.parametrize(("version", "text"), [("0.2.0", "### Fixed\n\n- b"), ("0.1.0", "- a")])
def test_the_notes_are_the_section_of_the_version(version: str, text: str) -> None:
    assert notes(TEXT, version, []) == text


@pytest.mark.parametrize(
    ("version", "left", "said"),
    [
        ("", [], "VERSION is empty"),
        ("0.3.0", [], "no section for VERSION='0.3.0': run `.venv/bin/towncrier build"),
        ("0.2", [], "no section for VERSION='0.2'"),
        ("0.2.0", ["tls.fixed.md", "x.added.md"], "what changelog.d/tls.fixed.md says, one of"),
    ],
)
def test_notes_that_would_lack_a_change_are_refused(
    version: str, left: list[str], said: str
) -> None:
    with pytest.raises(DemoError) as refused:
        notes(TEXT, version, left)

    assert said in str(refused.value)


def test_the_first_release_has_notes() -> None:
    assert "The first release." in notes(CHANGELOG.read_text(), "0.1.0", [])
