"""`make audit` covers every locked file, and never takes silence for a clean result."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNREACHABLE = "echo 'jinja2 Dependency not found on PyPI and could not be audited: jinja2 (2.4.1)'"
FOUND = "echo 'jinja2 2.4.1 PYSEC-2019-217 2.10.1'; exit 1"


@pytest.fixture
def audit(tmp_path, monkeypatch):
    """The script with a pip-audit of shell lines: for the trial, and for one requirements file."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / "requirements" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(trial, vulnerable="nothing"):
        program = tmp_path / "pip-audit"
        lines = [
            "#!/bin/sh",
            f'case "$*" in *known.txt) {trial};;',
            f"*{vulnerable}) echo 'VULNERABLE'; exit 1;; esac",
        ]
        program.write_text("\n".join(lines))
        program.chmod(0o755)
        monkeypatch.setattr(module, "FOLDER", tmp_path)
        monkeypatch.setattr(module, "PIP_AUDIT", program)
        return module.main()

    run.locked = module.locked
    return run


def test_an_advisory_service_that_knows_nothing_fails_with_a_sentence(audit, capsys):
    assert audit(UNREACHABLE) == 2
    assert "PyPI's advisory service cannot be reached from here" in capsys.readouterr().err


def test_every_file_is_audited_once_the_service_answers(audit, capsys):
    assert audit(FOUND) == 0

    named = [line.removesuffix(" ...") for line in capsys.readouterr().out.splitlines()]
    assert named == audit.locked()
    wanted = ("*/requirements*.txt", "requirements/*.txt", "benchmarks/peers/*/requirements.txt")
    on_disk = {str(path.relative_to(ROOT)) for glob in wanted for path in ROOT.glob(glob)}
    assert {name for name in on_disk if not name.startswith("build/")} <= set(named)


def test_a_vulnerable_requirement_fails_and_its_file_is_named(audit, capsys):
    assert audit(FOUND, "operator/requirements.txt") == 1
    assert "known vulnerabilities in operator/requirements.txt" in capsys.readouterr().err


def test_a_vulnerable_peer_is_shown_and_does_not_fail(audit, capsys):
    assert audit(FOUND, "peers/mlserver/requirements.txt") == 0
    assert "VULNERABLE" in capsys.readouterr().out
