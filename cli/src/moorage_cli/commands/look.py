"""`moorage ui`: the local page, which acts with the rights of the user's kubeconfig."""

import argparse
import json
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moorage_cli.ask.interrupts import interrupted_by_signals
from moorage_cli.commands import edits, everyday, reports, requests
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge.model_view import view
from moorage_cli.page.feed import Change, Feed
from moorage_cli.page.rows import details
from moorage_cli.page.server import Actions, PageServer
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

__all__ = ["run_ui"]

CONTAINER = "runtime"
LOG_LINES = 500
INFER_SECONDS = 60.0
TOP_SECONDS = 5.0

# What the page may do; the rest of the tool stays on the command line.
COMMANDS: Mapping[str, Callable[[Shell, argparse.Namespace], Report]] = {
    "events": everyday.run_events,
    "top": reports.run_top,
    "infer": requests.run_infer,
    "promote": edits.run_promote,
    "abort": edits.run_abort,
    "restart": edits.run_restart,
    "retry": edits.run_retry,
    "rollback": edits.run_rollback,
    "pause": edits.run_pause,
    "resume": edits.run_resume,
}


def run_ui(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage ui`: returns when the user ends it."""
    cluster = shell.connect(given)
    namespace = given.namespace or None
    cluster.models(namespace)  # report a failure here rather than in a browser

    def changes() -> Iterator[Change]:
        return shell.connect(given).feed(namespace)

    feed = Feed(changes)
    server = PageServer(given.port, feed, _actions(shell, given))
    shell.show(Report(f"{server.url}\nPress Ctrl-C to end.\n", {}, ok=True))
    try:
        with interrupted_by_signals():
            if not given.no_browser:
                webbrowser.open(server.url)
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        return Report("", {}, ok=True)
    finally:
        feed.close()
        server.server_close()
    raise AssertionError("unreachable")


def _actions(shell: Shell, given: argparse.Namespace) -> Actions:
    def show(namespace: str, name: str) -> Mapping[str, Any]:
        cluster = shell.connect(given)
        model = cluster.model(namespace, name)
        kept, problem = _kept(cluster, namespace, view(model).selector)
        return {**details(model, kept, datetime.now(UTC)), "timelineProblem": clean(problem)}

    def log(namespace: str, pod: str) -> Iterator[str]:
        lines = shell.connect(given).objects.log(
            namespace, pod, CONTAINER, follow=True, previous=False, tail=LOG_LINES
        )
        return (clean(line) for line in lines)

    def do(command: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if command not in COMMANDS:
            raise Failure(f"command: {command!r} is unknown: must be one of {', '.join(COMMANDS)}")
        with tempfile.TemporaryDirectory(prefix="moorage-ui-") as folder:
            report = COMMANDS[command](shell, _arguments(given, fields, Path(folder)))
        return clean_document({"text": report.text, "document": report.document, "ok": report.ok})

    return Actions(show, log, do)


def _kept(cluster: ClusterLike, namespace: str, selector: str) -> tuple[list[dict[str, Any]], str]:
    """The objects that keep earlier revisions, or why they cannot be read."""
    try:
        return (cluster.revisions(namespace, selector) if selector else []), ""
    except Failure as failure:
        return [], str(failure)


def _arguments(
    given: argparse.Namespace, fields: Mapping[str, Any], folder: Path
) -> argparse.Namespace:
    """The arguments that a command has on the command line, from the fields of a request.

    Raises:
        Failure: A field that every command needs is missing.
    """
    for name in ("namespace", "name"):
        if not isinstance(fields.get(name), str) or not fields[name]:
            raise Failure(f"{name}: must be a text")
    file = folder / "request.json"
    if "request" in fields:
        file.write_text(json.dumps(fields["request"]), encoding="utf-8")
    return argparse.Namespace(
        kubeconfig=given.kubeconfig,
        context=given.context,
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
