"""The commands: each gathers its inputs and passes them to the pure module of its name.

What is decided belongs in `judge`, `edit` and `manifests`. The module of a command is imported
when the command runs, because all of them together take most of a second.
"""

import argparse
from collections.abc import Callable, Mapping
from importlib import import_module

from moorage_cli.commands.shell import Shell
from moorage_cli.printing.report import Report

__all__ = ["MODULES", "Shell", "command_named"]

# The module of each command; the command `ui-server` is the function `run_ui_server` in it.
MODULES: Mapping[str, str] = {
    "run": "local",
    "deploy": "deploy",
    "status": "reports",
    "why": "reports",
    "runtimes": "reports",
    "wait": "rollouts",
    "rollout": "rollouts",
    "promote": "edits",
    "abort": "edits",
    "restart": "edits",
    "retry": "edits",
    "scale": "edits",
    "rollback": "edits",
    "pause": "edits",
    "resume": "edits",
    "logs": "everyday",
    "events": "everyday",
    "delete": "everyday",
    "infer": "requests",
    "bench": "bench",
    "lint": "files",
    "convert": "files",
    "conformance": "requests",
    "top": "top",
    "ui": "look",
    "ui-server": "look",
    "completion": "completion",
}


def command_named(name: str) -> Callable[[Shell, argparse.Namespace], Report]:
    """The function that runs a command."""
    module = import_module(f"{__name__}.{MODULES[name]}")
    return getattr(module, f"run_{name.replace('-', '_')}")
