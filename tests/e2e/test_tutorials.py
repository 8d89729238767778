"""The tutorials, followed to the letter."""

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.documented import steps
from support.environments import ROOT, environment
from support.kubectl import KIND, Kubectl
from support.private_registry import registry
from support.reader import reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PACKAGES = {"application-developer": "clients", "data-scientist": "tutorials"}
"""The environment of each page, below requirements/."""

TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = [TUTORIALS / f"{name}.md" for name in sorted(PACKAGES)]
TEAMS = ("team-a", "team-b")


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


def test_all_tutorials_are_followed():
    assert {page.stem for page in TUTORIALS.glob("*.md")} == {*PACKAGES, "platform-engineer"}


@pytest.fixture
def administered(own_cluster: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of a cluster without operator, on which nothing of the tutorial remains."""
    yield own_cluster
    cluster = Kubectl(own_cluster, "default")
    cluster.run("delete", "namespaces", *TEAMS, "--ignore-not-found")
    crds = ("inferencemodels.moorage.dev", "inferenceruntimes.moorage.dev")
    cluster.run("delete", "crds", *crds, "--ignore-not-found")


@pytest.mark.timeout(2400)
def test_a_platform_engineer_serves_several_teams_as_written(administered, tmp_path):
    """The page runs in the root of the repository: this folder has all of its entries."""
    for entry in ROOT.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    kept = tmp_path.parent / f"{tmp_path.name}-registry"
    kept.mkdir()

    with (
        registry(kept, private=False) as address,
        reader(tmp_path, administered, [Path(sys.executable).parent]) as somebody,
    ):
        for step in steps(TUTORIALS / "platform-engineer.md"):
            printed = step.text.replace("registry.example.com/team", f"{address}/team")
            somebody.follow(replace(step, text=printed))

    assert KIND not in Kubectl(administered, "default").run("get", "crds", "-o", "name")
