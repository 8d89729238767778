"""One report for several models, of which each succeeds or fails by itself."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from moorage_cli.commands.shell import Shell
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report

__all__ = ["report_of_each"]


def report_of_each(
    shell: Shell,
    given: argparse.Namespace,
    namespace: str,
    one: Callable[[str], Report],
    *,
    gap: str = "",
) -> Report:
    """The report of each name of the command line, once; ok if all are.

    The report of one name stays as it is. With several, each text is shown as soon as it is known,
    the document is a list, and failures become notes.

    Args:
        shell: Where to show the texts.
        given: The command line, with `names` and `output`.
        namespace: The namespace of the models.
        one: The report of one name.
        gap: Text between two reports.

    Raises:
        Failure: The only name fails.
        WrongUsage: The command line is invalid for any name.
    """
    names: Sequence[str] = tuple(dict.fromkeys(given.names))
    if len(names) == 1:
        return one(names[0])
    documents: list[Any] = []
    notes: list[str] = []
    ok, is_shown = True, False
    for name in names:
        try:
            report = one(name)
        except WrongUsage:
            raise
        except Failure as failure:
            documents.append({"namespace": namespace, "name": name, "error": str(failure)})
            notes.append(str(failure))
            ok = False
            continue
        if given.output == "text":
            shell.show(replace(report, text=f"{gap if is_shown else ''}{report.text}"))
            is_shown = True
        documents.append(report.document)
        notes += report.notes
        ok = ok and report.ok
    return Report("", documents, ok=ok, names=names, notes=tuple(notes))
