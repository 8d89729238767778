"""The run that the migration guide shows is what the command prints."""

import re
from pathlib import Path

from moorage_cli import __main__ as program

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "migrate.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def runs(block):
    """The command lines of a block, each with what follows it."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def test_the_shown_run_is_what_the_command_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ((show, source), (convert, report), (look, result), (lint, verdict)) = runs(
        BLOCK.search(PAGE.read_text())[1]
    )
    assert (show, look) == ("cat isvc.yaml", "cat iris.yaml")
    assert (convert, lint) == (
        "moorage convert isvc.yaml > iris.yaml",
        "moorage lint iris.yaml",
    )
    Path("isvc.yaml").write_text(source)

    assert program.main(["convert", "isvc.yaml"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (result, report)

    Path("iris.yaml").write_text(out)
    assert program.main(["lint", "iris.yaml"]) == 0
    assert capsys.readouterr().out == verdict
