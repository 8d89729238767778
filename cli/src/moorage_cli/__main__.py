"""The composition root: reads the command line, runs a command, prints its report."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NoReturn

from .arguments import parser
from .cluster import Cluster
from .commands import RUN, Shell
from .failures import Failure, WrongUsage
from .report import ExitCode, Report
from .sanitizing import clean, clean_document
from .tables import Palette

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    program = "kubectl moorage" if Path(sys.argv[0]).name.startswith("kubectl-") else "moorage"
    given = parser(program).parse_args(arguments)
    form = getattr(given, "output", "text")
    shell = Shell(connect=_connect, palette=_palette(form), show=lambda each: _print(each, form))
    try:
        with _leaving_at_once() if getattr(given, "watch", False) else nullcontext():
            report = RUN[given.command](shell, given)
        _print(report, form)
    except Failure as failure:
        sys.stderr.write(f"{program}: {clean(failure)}\n")
        return ExitCode.USAGE if isinstance(failure, WrongUsage) else ExitCode.NOT_OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has enough; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.NOT_OK
    return ExitCode.OK if report.ok else ExitCode.NOT_OK


@contextmanager
def _leaving_at_once() -> Generator[None]:
    """An interrupt ends the process, wherever it stands.

    As an exception it may arrive while a library puts something away, where Python drops it, and
    a watch would go on for ever. A watch has nothing to put away itself.
    """

    def leave(*_: object) -> NoReturn:
        os._exit(ExitCode.INTERRUPTED)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _connect(given: argparse.Namespace) -> Cluster:
    return Cluster(given.kubeconfig, given.context)


def _palette(form: str) -> Palette:
    """Colours for a person at a terminal who wants them (no-color.org)."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return Palette(coloured=wanted and form != "json")


def _print(report: Report, form: str) -> None:
    if form == "json":
        text = json.dumps(clean_document(report.document), indent=2, ensure_ascii=False)
        sys.stdout.write(f"{text}\n")
    elif form == "name":
        sys.stdout.write("".join(f"{clean(name)}\n" for name in report.names))
    else:
        sys.stdout.write(report.text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
