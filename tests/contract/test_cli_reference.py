"""The reference page, the help and the advice of the command-line tool agree."""

import re
from pathlib import Path

import pytest

from moorage_cli.command_line.arguments import COMMANDS, parser
from moorage_cli.command_line.completion import script
from moorage_cli.commands import MODULES, command_named
from moorage_cli.judge.advice import advice_for

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text()
CONDITIONS = (ROOT / "docs" / "reference" / "conditions.md").read_text()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_what_help_tells_stands_in_the_page(command, capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([command.name, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    chapter = PAGE.split(f"## moorage {command.name}\n")[1].split("\n## ")[0]

    assert ended.value.code == 0
    assert command.about in told
    assert command.about in chapter
    for argument in command.arguments:
        assert all(f"`{name}`" in chapter for name in argument.names if argument.is_option)
        assert argument.options["help"] in told
        assert argument.options["help"] in chapter
    for example in command.examples:
        assert example in told
        assert f"{example}\n" in chapter


def test_every_command_is_run_completed_and_documented():
    names = [command.name for command in COMMANDS]

    assert list(MODULES) == names
    assert all(callable(command_named(name)) for name in names)
    assert re.findall(r"^## moorage ([\w-]+)$", PAGE, re.MULTILINE) == names
    assert f'words="{" ".join(names)}"' in script("bash")


def test_examples_are_command_lines_that_are_accepted():
    for command in COMMANDS:
        for line in command.examples:
            words = (
                line.split("moorage ", 1)[1].split(" | ")[0].split(" > ")[0].rstrip(")").split()
            )
            assert parser().parse_args(words).command == command.name


def test_every_reason_of_the_page_has_its_advice_without_markup():
    reasons = re.findall(r"^\| `(\w+)` \|", CONDITIONS, re.MULTILINE)

    assert reasons
    for reason in reasons:
        advice = advice_for(reason)
        assert advice
        assert advice.means
        assert "`" not in advice.means + advice.do
        assert "](" not in advice.do
