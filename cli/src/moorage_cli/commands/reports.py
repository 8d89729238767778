"""`moorage status`, `why`, `runtimes` and `top`: what a cluster says about models."""

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from moorage_cli.ask import wire
from moorage_cli.ask.access import Access
from moorage_cli.commands.access import access_of
from moorage_cli.commands.pods import HTTP_PORT, RUNTIME_CONTAINER, forwarded
from moorage_cli.commands.several import report_of_each
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge import traffic
from moorage_cli.judge.model_view import ModelView, runtime_view, view
from moorage_cli.judge.runtimes import models_of_runtime, runtimes
from moorage_cli.judge.status import StatusChanges, status_of_many, status_of_one
from moorage_cli.judge.why import why
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report

__all__ = ["explained", "run_runtimes", "run_status", "run_top", "run_why"]

PODS_WITH_EVENTS = 5


def run_status(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage status`."""
    cluster = shell.connect(given)
    namespace = _namespace(cluster, given)
    if given.watch:
        return _watched(shell, cluster, namespace, given)
    if given.name:
        model = view(cluster.model(namespace or "", given.name))
        return status_of_one(model, datetime.now(UTC), shell.palette)
    return _many(shell, [view(item) for item in cluster.models(namespace)], given)


def _namespace(cluster: ClusterLike, given: argparse.Namespace) -> str | None:
    """Whose models a command is about; None for all namespaces.

    Raises:
        WrongUsage: One model of all namespaces.
    """
    if given.name and given.all_namespaces:
        raise WrongUsage("NAME cannot be combined with --all-namespaces: use --namespace NS")
    return None if given.all_namespaces else given.namespace or cluster.namespace


def _many(shell: Shell, models: list[ModelView], given: argparse.Namespace) -> Report:
    now = datetime.now(UTC)
    return status_of_many(models, now, shell.palette, namespaces=given.all_namespaces)


def _watched(
    shell: Shell, cluster: ClusterLike, namespace: str | None, given: argparse.Namespace
) -> Report:
    """Show each change until interrupted, without rows that repeat the previous one."""
    changes = StatusChanges(shell.palette, namespaces=given.all_namespaces)
    for kind, found in cluster.changes(namespace, given.name):
        now = datetime.now(UTC)
        if kind == "ALL":
            report = changes.listed([view(item) for item in found], now)
        elif kind == "DELETED":
            report = changes.deleted(view(found))
        else:
            report = changes.put(view(found), now)
        if report.document:
            shell.show(report)
    raise Failure("the watch ended unexpectedly: run the command again")


def run_why(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage why`."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace

    def one(name: str) -> Report:
        return explained(shell, cluster, view(cluster.model(namespace, name)))

    return report_of_each(shell, given, namespace, one, gap="\n")


def run_runtimes(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage runtimes`."""
    cluster = shell.connect(given)
    if not given.runtime:
        return runtimes([runtime_view(item) for item in cluster.runtimes()], shell.palette)
    found = runtime_view(cluster.runtime(given.runtime))
    models = [view(item) for item in cluster.models(given.namespace or None)]
    return models_of_runtime(found, models, shell.palette)


def explained(shell: Shell, cluster: ClusterLike, model: ModelView) -> Report:
    """The report of `why`."""
    pods = [replica.pod for replica in model.replicas if replica.reason][:PODS_WITH_EVENTS]
    events = cluster.events(model.namespace, list(dict.fromkeys([model.name, *pods])))
    return why(model, events, datetime.now(UTC), shell.palette)


def run_top(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage top`."""
    cluster = shell.connect(given)
    namespace = _namespace(cluster, given)
    if given.name:
        found = [cluster.model(namespace or "", given.name)]
    else:
        found = cluster.models(namespace)
    usages: list[traffic.Usage] = []
    notes: dict[str, None] = {}
    for model in (view(item) for item in found):
        if model.selector:
            usages += _usages(cluster, model, given, notes)
    return traffic.top(usages, list(notes), shell.palette, namespaces=given.all_namespaces)


def _usages(
    cluster: ClusterLike, model: ModelView, given: argparse.Namespace, notes: dict[str, None]
) -> list[traffic.Usage]:
    """One model's replicas; failures become notes."""
    measured: dict[str, tuple[float | None, float | None]] = {}
    try:
        for item in cluster.pod_metrics(model.namespace, model.selector):
            measured[item["metadata"]["name"]] = _measured(item)
    except Failure as failure:
        notes[str(failure)] = None
    access = None
    try:
        access = access_of(cluster, model, given)
    except Failure as failure:
        notes[str(failure)] = None
    found: list[traffic.Usage] = []
    for pod in cluster.pods(model.namespace, model.selector):
        name = pod["metadata"]["name"]
        cpu, memory = measured.get(name, (None, None))
        requests, reason = None, traffic.why_idle(pod, RUNTIME_CONTAINER)
        if access is not None and not reason:
            try:
                with forwarded(cluster, model, pod, HTTP_PORT) as address:
                    exposition = _metrics(address, given.timeout, access)
                requests = traffic.read_requests(exposition, model.served_name)
            except Failure as failure:
                notes[str(failure)] = None
        found.append(
            traffic.Usage(model.namespace, model.name, name, cpu, memory, requests, reason)
        )
    return found


def _metrics(address: str, seconds: float, access: Access) -> str:
    """The metrics of a server; those of other servers may be elsewhere.

    Raises:
        Failure: It does not answer, or refuses the token.
    """
    reply = wire.fetch(f"{access.scheme}://{address}", "/metrics", seconds, access)
    if reply.code == 0:
        raise Failure(reply.body)
    if reply.code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise Failure(f"HTTP {reply.code} from /metrics: set --token-file")
    return reply.body


def _measured(item: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Cores and bytes of all containers of a pod."""
    sums: list[float | None] = []
    for what in ("cpu", "memory"):
        values = [
            traffic.read_quantity(each["usage"].get(what, "")) for each in item["containers"]
        ]
        known = [value for value in values if value is not None]
        sums.append(sum(known) if known else None)
    return sums[0], sums[1]
