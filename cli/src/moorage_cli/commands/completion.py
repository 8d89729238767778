"""`moorage completion`."""

import argparse

from moorage_cli.command_line.completion import script
from moorage_cli.commands.shell import Shell
from moorage_cli.printing.report import Report

__all__ = ["run_completion"]


def run_completion(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage completion`."""
    del shell
    text = script(given.shell)
    return Report(text, text, ok=True)
