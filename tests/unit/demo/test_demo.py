"""The demo's own steps: a locked release, a half-made client, an interruption."""

import os
import sys
from pathlib import Path

import pytest

import demo
from choice import DemoError
from progress import Progress

HELM = """#!/bin/sh
echo helm "$@" >> "$CALLS"
if [ ! -e "$UNLOCKED" ]; then
  echo "Error: UPGRADE FAILED: $WHY"
  exit 1
fi
"""
KUBECTL = """#!/bin/sh
echo kubectl "$@" >> "$CALLS"
touch "$UNLOCKED"
"""
LOCKED = "another operation (install/upgrade/rollback) is in progress"


@pytest.fixture
def programs(tmp_path):
    """An environment with a helm that fails until a kubectl was called, and their calls."""
    for name, text in (("helm", HELM), ("kubectl", KUBECTL)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "UNLOCKED": str(tmp_path / "unlocked"),
        "WHY": LOCKED,
    }


@pytest.fixture
def on_path(programs, monkeypatch):
    # the program to start is looked up on the path of this process
    monkeypatch.setenv("PATH", programs["PATH"])
    return programs


def calls(programs) -> list[str]:
    return Path(programs["CALLS"]).read_text().splitlines()


def test_a_release_that_a_killed_helm_left_locked_is_unlocked_and_installed(on_path, tmp_path):
    demo.run_helm(Progress(tmp_path / "logs"), ["helm", "upgrade"], on_path)

    first, unlock, second = calls(on_path)
    assert first == second == "helm upgrade"
    assert unlock.startswith("kubectl delete secret --namespace moorage-system --selector ")
    assert "status in (pending-install,pending-upgrade)" in unlock
    assert "name=moorage" in unlock


def test_any_other_failure_of_helm_is_told_and_nothing_is_deleted(on_path, tmp_path):
    on_path["WHY"] = "timed out waiting for the condition"

    with pytest.raises(DemoError, match="timed out waiting for the condition"):
        demo.run_helm(Progress(tmp_path / "logs"), ["helm", "upgrade"], on_path)

    assert calls(on_path) == ["helm upgrade"]


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "STATE", tmp_path / "demo")
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "demo.txt").write_text("# nothing to install\n")
    return tmp_path / "demo"


def test_a_client_whose_installation_was_cut_off_is_made_anew(state, tmp_path):
    (state / "client" / "bin").mkdir(parents=True)
    (state / "client" / "bin" / "python").symlink_to(sys.executable)
    (state / "client" / "left-over").write_text("")

    demo.make_client(Progress(tmp_path / "logs"))

    assert not (state / "client" / "left-over").exists()
    assert (state / "client" / "installed.txt").read_text() == "# nothing to install\n"


def test_a_finished_client_is_kept_until_its_requirements_change(state, tmp_path):
    (state / "client").mkdir(parents=True)
    (state / "client" / "installed.txt").write_text("# nothing to install\n")
    (state / "client" / "mine").write_text("")

    demo.make_client(Progress(tmp_path / "logs"))
    assert (state / "client" / "mine").exists()

    (tmp_path / "requirements" / "demo.txt").write_text("# still nothing\n")
    demo.make_client(Progress(tmp_path / "logs"))
    assert not (state / "client" / "mine").exists()


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted: run `make demo` to resume"),
        (DemoError("no base image"), 1, "no base image"),
    ],
)
def test_a_demo_that_ends_early_stops_its_steps_and_says_why(
    state, monkeypatch, capsys, raised, code, said
):
    seen = []

    def fail(progress, *, ask):
        seen.append(progress)
        raise raised

    monkeypatch.setattr(demo, "up", fail)
    monkeypatch.setattr(sys, "argv", ["demo.py", "up"])

    assert demo.main() == code

    assert said in capsys.readouterr().err
    with pytest.raises(DemoError, match="the demo is stopping"):
        seen[0].run("log", ["true"])


def test_the_version_is_the_charts():
    assert demo.chart_version().count(".") == 2
