"""The workflows: actionlint, least rights, and only targets that the Makefile has."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from support.go_programs import program

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_actionlint_finds_nothing():
    actionlint = program(
        Path(__file__).parent / "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"
    )
    command = [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", *WORKFLOWS]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_states_its_rights_and_a_time_limit(path):
    workflow = yaml.safe_load(path.read_text())

    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"]["contents"] in ("read", "write")
        assert job["timeout-minutes"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_has_a_version_and_every_checkout_keeps_no_credentials(path):
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            if uses := step.get("uses"):
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", uses)
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_target_exists(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    scripts = [step.get("run", "") for job in jobs for step in job["steps"]]
    targets = {
        name
        for script in scripts
        for name in re.findall(r"^make (?:--silent )?([a-z0-9.-]+)", script, re.MULTILINE)
    }
    for job in jobs:
        targets |= set(job.get("strategy", {}).get("matrix", {}).get("target", []))

    assert targets
    assert targets <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_expression_stands_in_a_shell_command(path):
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("", ""),
        ("cli/pyproject.toml", "cli/pyproject.toml has another version than the tag v9.8.7"),
        ("charts/two/Chart.yaml", "charts/two/Chart.yaml has another version than the tag v9.8.7"),
    ],
)
def test_a_release_needs_the_tag_in_every_package_and_chart(tmp_path, changed, said):
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    (script,) = (
        each["run"] for each in release["jobs"]["versions"]["steps"] if each.get("id") == "tag"
    )
    for file, text in (
        ("cli/pyproject.toml", 'version = "9.8.7"\n'),
        ("charts/one/Chart.yaml", 'version: 9.8.7\nappVersion: "9.8.7"\n'),
        ("charts/two/Chart.yaml", 'version: 9.8.7\nappVersion: "9.8.7"\n'),
    ):
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_text(text.replace('"9.8.7"', '"9.8.6"') if file == changed else text)
    environment = {"PATH": "/usr/bin:/bin", "GITHUB_REF_NAME": "v9.8.7", "REGISTRY": "r.example/t"}

    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path, env=environment | {"GITHUB_OUTPUT": str(tmp_path / "output")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert said in done.stdout
    assert done.returncode == bool(said)


def test_updates_are_looked_for_in_every_image_and_package():
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    folders = {each["package-ecosystem"]: each.get("directories") for each in updates}

    for ecosystem, name in (("docker", "Dockerfile"), ("pip", "pyproject.toml")):
        found = sorted(f"/{path.parent.name}" for path in ROOT.glob(f"*/{name}"))
        assert set(found) <= set(folders[ecosystem])
