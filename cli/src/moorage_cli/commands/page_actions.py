"""What the page does in the cluster, for `moorage ui` and `moorage ui-server`."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moorage_cli.commands import edits, everyday, requests, top
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge.model_view import view
from moorage_cli.page.access import Actions
from moorage_cli.page.rows import details
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

__all__ = ["page_actions"]

CONTAINER = "runtime"
LOG_LINES = 500
INFER_SECONDS = 60.0
TOP_SECONDS = 5.0

# What the page may do; the rest of the tool stays on the command line.
COMMANDS: Mapping[str, Callable[[Shell, argparse.Namespace], Report]] = {
    "events": everyday.run_events,
    "top": top.run_top,
    "infer": requests.run_infer,
    "promote": edits.run_promote,
    "abort": edits.run_abort,
    "restart": edits.run_restart,
    "retry": edits.run_retry,
    "rollback": edits.run_rollback,
    "pause": edits.run_pause,
    "resume": edits.run_resume,
}


def page_actions(shell: Shell, connect: Callable[[], ClusterLike]) -> Actions:
    """What a page can do in the cluster.

    Args:
        shell: The surroundings of the commands.
        connect: Connects to the cluster with the rights of the page's user.
    """

    def as_user(_: argparse.Namespace) -> ClusterLike:
        return connect()

    user = replace(shell, connect=as_user)

    def show(namespace: str, name: str) -> Mapping[str, Any]:
        cluster = connect()
        model = cluster.model(namespace, name)
        kept, problem = _kept(cluster, namespace, view(model).selector)
        return {**details(model, kept, datetime.now(UTC)), "timelineProblem": clean(problem)}

    def log(namespace: str, pod: str) -> Iterator[str]:
        lines = connect().objects.log(
            namespace, pod, CONTAINER, follow=True, previous=False, tail=LOG_LINES
        )
        return (clean(line) for line in lines)

    def do(command: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if command not in COMMANDS:
            raise Failure(f"command: {command!r} is unknown: must be one of {', '.join(COMMANDS)}")
        with tempfile.TemporaryDirectory(prefix="moorage-ui-") as folder:
            report = COMMANDS[command](user, _arguments(fields, Path(folder)))
        # an answer can have NaN, which a browser reads as text only
        document = None if command == "infer" else report.document
        return clean_document({"text": report.text, "document": document, "ok": report.ok})

    return Actions(show, log, do)


def _kept(cluster: ClusterLike, namespace: str, selector: str) -> tuple[list[dict[str, Any]], str]:
    """The objects that keep earlier revisions, or why they cannot be read."""
    try:
        return (cluster.revisions(namespace, selector) if selector else []), ""
    except Failure as failure:
        return [], str(failure)


def _arguments(fields: Mapping[str, Any], folder: Path) -> argparse.Namespace:
    """The arguments that a command has on the command line, from the fields of a request.

    An inference request is a text, because a browser rounds integers of more than 53 bits.

    Raises:
        Failure: A field that every command needs is missing, or a field is not a text.
    """
    needed = ("namespace", "name", *({"request"} & fields.keys()))
    for name in needed:
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise Failure(f"{name}: must be a text")
    file = folder / "request.json"
    if "request" in fields:
        file.write_text(fields["request"], encoding="utf-8")
    return argparse.Namespace(
        namespace=fields["namespace"],
        name=fields["name"],
        revision=str(fields.get("revision", "")),
        to=str(fields.get("to", "")),
        dry_run=False,
        all_namespaces=False,
        file=str(file),
        protocol="",
        transport="HTTP",
        model_version="",
        via="port-forward",
        ca_file="",
        token_file="",
        timeout=INFER_SECONDS if "request" in fields else TOP_SECONDS,
    )
