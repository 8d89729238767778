"""The entry point: parses the command line, runs a command and prints its report."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import moorage_cli.startup
from moorage_cli.ask.interrupts import immediate_interrupt
from moorage_cli.ask.standard_streams import (
    complain,
    discard_output,
    open_streams,
    write_output,
)
from moorage_cli.command_line.arguments import check_first_word, parser
from moorage_cli.commands import Shell, command_named
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.progress import Progress
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean, clean_document
from moorage_cli.printing.tables import SHOW_CURSOR, Palette

if TYPE_CHECKING:
    from moorage_cli.ask.cluster import Cluster
    from moorage_cli.printing.live import LiveView

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; without a command, print the help."""
    program = "kubectl moorage" if Path(sys.argv[0]).name.startswith("kubectl-") else "moorage"
    try:
        open_streams()
        return _run(program, arguments)
    except Failure as failure:
        complain(f"{program}: {clean(failure)}\n")
        return ExitCode.USAGE if isinstance(failure, WrongUsage) else ExitCode.NOT_OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe: write nothing more, not even at exit.
        discard_output()
        return ExitCode.NOT_OK


def _run(program: str, arguments: Sequence[str] | None) -> int:
    reader = parser(program)
    try:
        check_first_word(reader, sys.argv[1:] if arguments is None else arguments)
        given = reader.parse_args(arguments)
    finally:
        write_output("")  # the help, which argparse has written
    if given.command is None:
        write_output(reader.format_help())
        return ExitCode.OK
    command = command_named(given.command)
    moorage_cli.startup.end_startup()
    form = getattr(given, "output", "text")
    progress = Progress(complain, is_terminal=sys.stderr.isatty())
    shell = Shell(
        connect=_connect,
        palette=_palette(form),
        show=lambda each: _print(each, form),
        live=_live(form),
        tell=progress.tell,
        count=progress.count,
    )
    watches = getattr(given, "watch", False) or given.command in {"wait", "logs"}
    last_words = f"{SHOW_CURSOR}\n".encode() if shell.live else b""
    ended = immediate_interrupt(ExitCode.INTERRUPTED, last_words)
    with ended if watches else nullcontext():
        report = command(shell, given)
    _print(report, form)
    complain("".join(f"{program}: {clean(note)}\n" for note in report.notes))
    return report.exit_code


def _connect(given: argparse.Namespace) -> "Cluster":
    from moorage_cli.ask.cluster import Cluster  # noqa: PLC0415 - `lint` and `run` need none

    return Cluster(given.kubeconfig, given.context)


def _palette(form: str) -> Palette:
    """Colours if the terminal has them and NO_COLOR is not set (no-color.org)."""
    wanted = _is_able_terminal() and not os.environ.get("NO_COLOR")
    return Palette(coloured=wanted and form != "json")


def _live(form: str) -> "Callable[[], LiveView] | None":
    """Views that are redrawn, if the output is a terminal that can do it, and for people."""
    return _live_view if _is_able_terminal() and form == "text" else None


def _live_view() -> "LiveView":
    from moorage_cli.printing.live import LiveView  # noqa: PLC0415 - most commands need none

    return LiveView(sys.stdout)


def _is_able_terminal() -> bool:
    """Whether the output is a terminal that knows colours and can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}


def _print(report: Report, form: str) -> None:
    if form == "json":
        text = json.dumps(clean_document(report.document), indent=2, ensure_ascii=False)
        write_output(f"{text}\n")
    elif form == "name":
        write_output("".join(f"{clean(name)}\n" for name in report.names))
    else:
        write_output(report.text)


if __name__ == "__main__":
    sys.exit(main())
