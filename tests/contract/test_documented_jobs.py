"""Commands of the pages that run in the background: they can be pasted, and they are ended."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
IN_BACKGROUND = re.compile(r"^ *(\S.*[^&]) &$", re.MULTILINE)
JOB = re.compile(r"kill ((?:%\d ?)+)")


def started(text: str) -> list[str]:
    return [each for block in BLOCK.findall(text) for each in IN_BACKGROUND.findall(block)]


WITH_JOBS = [page for page in PAGES if started(page.read_text())]


@pytest.mark.parametrize("page", WITH_JOBS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_after_one_in_the_background_stands_in_the_next_block(page: Path) -> None:
    # A block is pasted as a whole, and the port or the server takes a second to answer.
    for block in BLOCK.findall(page.read_text()):
        *earlier, _ = block.splitlines()
        waits = [line for line in earlier if line.endswith(" &") and "port-forward" in line]
        waits += [line for line in earlier if line.endswith(" &") and "moorage run" in line]
        assert not waits


@pytest.mark.parametrize("page", WITH_JOBS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_how_to_end_what_it_runs_in_the_background(page: Path) -> None:
    text = page.read_text()

    ended = [job for jobs in JOB.findall(text) for job in jobs.split()]

    assert len(ended) >= len(started(text))
