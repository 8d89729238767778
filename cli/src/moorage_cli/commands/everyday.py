"""`moorage logs`, `events` and `delete`: what is done with a model every day, without its spec."""

import argparse
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from moorage_cli.ask.standard_streams import complain
from moorage_cli.commands.pods import REVISION_LABEL
from moorage_cli.commands.reports import events_of
from moorage_cli.commands.several import report_of_each
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.edit.model import Resource
from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.judge.why import EventView
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Cell, Tone, age, render

__all__ = ["run_delete", "run_events", "run_logs"]

# More pods than that are rarely of interest, and each costs a request.
PODS_WITH_EVENTS = 20


def run_logs(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage logs`: with --follow, ends with the containers."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace
    model = cluster.model(namespace, given.name)
    pods = _pods_of_revision(cluster, model, given.revision)
    if not pods:
        of = f" of revision {given.revision}" if given.revision else ""
        raise Failure(f"{given.name}: there are no pods{of}: run moorage why {given.name}")
    _check_container(given.container, pods)
    lines: queue.SimpleQueue[str | Failure | None] = queue.SimpleQueue()

    def read(pod: Mapping[str, Any]) -> None:
        name = pod["metadata"]["name"]
        try:
            _check_scheduled(pod, given.name)
            for line in cluster.objects.log(
                namespace,
                name,
                given.container,
                follow=given.follow,
                previous=given.previous,
                tail=given.tail,
            ):
                lines.put(f"{name} | {clean(line)}\n")
        except Failure as failure:
            lines.put(failure)
        lines.put(None)

    return _merged(shell, [lambda pod=pod: read(pod) for pod in pods], lines)


def _merged(
    shell: Shell,
    readers: list[Callable[[], None]],
    lines: "queue.SimpleQueue[str | Failure | None]",
) -> Report:
    """Print what all readers find, as it comes; failures become notes."""
    for reader in readers:
        threading.Thread(target=reader, daemon=True).start()
    running, notes = len(readers), []
    while running:
        found = lines.get()
        if found is None:
            running -= 1
        elif isinstance(found, Failure):
            notes.append(str(found))
        else:
            shell.show(Report(found, {}, ok=True))
    return Report("", {}, ok=len(notes) < len(readers), notes=tuple(notes))


def _pods_of_revision(
    cluster: ClusterLike, model: Mapping[str, Any], revision: str
) -> list[Mapping[str, Any]]:
    """The pods of a revision; of the current one if it has pods, otherwise all."""
    seen = view(model)
    pods = cluster.pods(seen.namespace, seen.selector) if seen.selector else []
    wanted = revision or Resource(model).revision("current")
    of_revision = [
        pod for pod in pods if pod["metadata"].get("labels", {}).get(REVISION_LABEL) == wanted
    ]
    chosen = of_revision if revision else of_revision or pods
    return sorted(chosen, key=lambda pod: pod["metadata"]["name"])


def _check_container(name: str, pods: Sequence[Mapping[str, Any]]) -> None:
    """Refuse the name of a container that no pod has.

    Raises:
        Failure: The message lists the containers.
    """
    lists = ("initContainers", "containers")
    known = [each["name"] for pod in pods for key in lists for each in pod["spec"].get(key) or []]
    if name not in known:
        allowed = ", ".join(dict.fromkeys(known))
        raise Failure(
            f"--container: the pods have no container {name!r}: must be one of {allowed}"
        )


def _check_scheduled(pod: Mapping[str, Any], model: str) -> None:
    """Refuse a pod without a node, for which the API server answers with an empty log.

    Raises:
        Failure: The pod waits for a node.
    """
    if not pod["spec"].get("nodeName"):
        raise Failure(
            f"pod {pod['metadata']['name']}: it has no log, because it is not scheduled to a "
            f"node: run moorage why {model}"
        )


def run_events(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage events`."""
    cluster = shell.connect(given)
    model = view(cluster.model(given.namespace or cluster.namespace, given.name))
    found = events_of(cluster, model, _pod_names(cluster, model)[:PODS_WITH_EVENTS])
    now = datetime.now(UTC)
    ordered = sorted(found, key=lambda each: each.last or now)
    rows = [_row(each, now) for each in ordered]
    text = render(("LAST", "COUNT", "OBJECT", "REASON", "MESSAGE"), rows, shell.palette)
    document = {"events": [_document(each) for each in ordered]}
    none = f"{clean(model.name)}: there are no recent events\n"
    return Report(text if rows else none, document, ok=True)


def _pod_names(cluster: ClusterLike, model: ModelView) -> list[str]:
    """The pods of a model; without the right to list them, those that its status names."""
    from moorage_cli.ask.api_failures import Forbidden  # noqa: PLC0415 - completion needs none

    if not model.selector:
        return []
    try:
        pods = cluster.pods(model.namespace, model.selector)
    except Forbidden:
        return [replica.pod for replica in model.replicas]
    return [pod["metadata"]["name"] for pod in pods]


def _row(event: EventView, now: datetime) -> list[Cell]:
    tone = Tone.UNSURE if event.type == "Warning" else Tone.PLAIN
    return [
        Cell(age((now - event.last).total_seconds()) if event.last else ""),
        Cell(event.count),
        Cell(f"{event.kind}/{event.name}"),
        Cell(event.reason, tone),
        Cell(event.message),
    ]


def _document(event: EventView) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "name": event.name,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": event.count,
        "last": event.last.isoformat() if event.last else None,
    }


def run_delete(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage delete`."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace

    def one(name: str) -> Report:
        found = cluster.model(namespace, name)
        model, uri = view(found), Resource(found).spec.get("model", {}).get("uri", "")
        document = {"deleted": False, "namespace": namespace, "name": name}
        if not given.yes and not _agreed(name, namespace, model.replica_summary):
            return Report(f"{clean(name)}: is not deleted\n", document, ok=False)
        cluster.objects.delete_model(namespace, name)
        stays = f"; its files stay at {clean(uri)}" if uri.startswith("pvc://") else ""
        text = f"{clean(name)}: is deleted{stays}\n"
        return Report(text, {**document, "deleted": True}, ok=True)

    return report_of_each(shell, given, namespace, one)


def _agreed(name: str, namespace: str, replicas: str) -> bool:
    """Whether the user confirms.

    Raises:
        WrongUsage: Nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise WrongUsage("delete asks for confirmation, and there is no terminal: add --yes")
    serving = f", which has {clean(replicas)} replicas serving" if replicas else ""
    complain(f"Delete model {clean(name)} in namespace {clean(namespace)}{serving}? [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
