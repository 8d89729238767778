"""The tutorials, followed to the letter."""

import shutil
import sys
from pathlib import Path

import pytest

from support.documented import steps
from support.environments import ROOT, environment
from support.reader import reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PACKAGES = {"application-developer": "clients", "data-scientist": "tutorials"}
"""The environment of each page, below requirements/."""

PAGES = [ROOT / "docs" / "tutorials" / f"{name}.md" for name in sorted(PACKAGES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_works_as_written(demo, tmp_path, page):
    found = steps(page)
    if any(step.title.endswith(".mjs") for step in found) and not shutil.which("node"):
        pytest.skip("no Node.js is installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = [environment(PACKAGES[page.stem]).parent, Path(sys.executable).parent]

    with reader(tmp_path, demo.env, programs) as somebody:
        for step in found:
            somebody.follow(step)
