"""The gate's command: what it writes of its runs, and its status; its measures are made up."""

import importlib.util
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from moorage_benchmarks import gate, machine
from moorage_benchmarks.gate import Recording, Run
from moorage_benchmarks.programs import BenchmarkError

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "gate.py"


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command with a gate.json of its own, and "a" and "b" as its parts."""
    spec = importlib.util.spec_from_file_location("gate_command", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    recorded = {
        "a": Recording(machine.facts(), [Run("2026-01-01", {"x": 10.0})]),
        "b": Recording(machine.facts(), [Run("2026-01-01", {"y": 5.0})]),
    }
    monkeypatch.setattr(module, "LIMITS", tmp_path / "gate.json")
    module.LIMITS.write_text(gate.encode(recorded))
    monkeypatch.setattr(module, "PARTS", {"a": lambda: {"x": 11.0}, "b": lambda: {"y": 5.0}})
    return module


def run(command, monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gate.py", *words])
    return command.main()


def runs(command, part: str) -> list[dict[str, float]]:
    return [dict(each.ratios) for each in gate.parse(command.LIMITS.read_text())[part].runs]


def test_runs_are_added_to_those_that_are_there(command, monkeypatch):
    assert run(command, monkeypatch, "--add", "2", "--only", "a") == 0

    assert runs(command, "a") == [{"x": 10.0}, {"x": 11.0}, {"x": 11.0}]
    assert runs(command, "b") == [{"y": 5.0}]
    last = gate.parse(command.LIMITS.read_text())["a"].runs[-1]
    assert last.date == datetime.now(UTC).date().isoformat()


def test_to_calibrate_forgets_the_runs_of_those_parts_alone(command, monkeypatch):
    assert run(command, monkeypatch, "--calibrate", "1", "--only", "a") == 0

    assert (runs(command, "a"), runs(command, "b")) == ([{"x": 11.0}], [{"y": 5.0}])


def test_runs_of_another_machine_are_not_mixed_with_these(command, monkeypatch, capsys):
    facts = dict.fromkeys(machine.facts(), "other")
    monkeypatch.setattr(machine, "facts", lambda: facts)
    before = command.LIMITS.read_text()

    assert run(command, monkeypatch, "--add", "1") == command.CANNOT_MEASURE

    assert command.LIMITS.read_text() == before
    assert "a.machine is" in capsys.readouterr().err
    assert run(command, monkeypatch, "--calibrate", "1") == 0


def test_what_cannot_be_measured_is_not_recorded(command, monkeypatch, capsys):
    def broken():
        raise BenchmarkError("no root")

    monkeypatch.setitem(command.PARTS, "a", broken)
    before = command.LIMITS.read_text()

    assert run(command, monkeypatch, "--add", "1", "--only", "a") == command.CANNOT_MEASURE
    assert command.LIMITS.read_text() == before
    assert "no root" in capsys.readouterr().err


@pytest.mark.parametrize(("measured", "status"), [(10.4, 0), (20.0, 1)])
def test_the_status_says_whether_something_is_worse(
    command, monkeypatch, measured, status, capsys
):
    monkeypatch.setitem(command.PARTS, "a", lambda: {"x": measured})

    assert run(command, monkeypatch) == status

    assert ("WORSE: x" in capsys.readouterr().err) is bool(status)


def test_a_file_that_cannot_be_read_is_no_verdict(command, monkeypatch, capsys):
    command.LIMITS.write_text("{")

    assert run(command, monkeypatch) == command.CANNOT_MEASURE
    assert capsys.readouterr().err.startswith("gate.py:")
