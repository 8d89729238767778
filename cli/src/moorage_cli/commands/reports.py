"""`moorage status`, `why` and `runtimes`: what a cluster says about models."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from moorage_cli.commands.several import report_of_each
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge.model_view import ModelView, runtime_view, view
from moorage_cli.judge.runtimes import models_of_runtime, runtimes
from moorage_cli.judge.status import StatusChanges, status_of_many, status_of_one
from moorage_cli.judge.why import EventView, why
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report

__all__ = ["events_of", "explained", "namespace_of", "run_runtimes", "run_status", "run_why"]

PODS_WITH_EVENTS = 5
# Between the clocks of the nodes, which write the events, and that of the API server.
CLOCK_DIFFERENCE = timedelta(seconds=10)


def run_status(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage status`."""
    cluster = shell.connect(given)
    namespace = namespace_of(cluster, given)
    if given.watch:
        return _watched(shell, cluster, namespace, given)
    if given.name:
        model = view(cluster.model(namespace or "", given.name))
        return status_of_one(model, datetime.now(UTC), shell.palette)
    return _many(shell, [view(item) for item in cluster.models(namespace)], given)


def namespace_of(cluster: ClusterLike, given: argparse.Namespace) -> str | None:
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
    """The report of `why`; without the right to read events, it notes that there are none."""
    from moorage_cli.ask.api_failures import Forbidden  # noqa: PLC0415 - completion needs none

    pods = [replica.pod for replica in model.replicas if replica.reason][:PODS_WITH_EVENTS]
    notes: tuple[str, ...] = ()
    try:
        events = events_of(cluster, model, pods)
    except Forbidden as refusal:
        events, notes = [], (str(refusal),)
    return replace(why(model, events, datetime.now(UTC), shell.palette), notes=notes)


def events_of(cluster: ClusterLike, model: ModelView, pods: Sequence[str]) -> list[EventView]:
    """The events of a model and its pods, without those of a deleted model of the same name."""
    found = cluster.events(model.namespace, list(dict.fromkeys([model.name, *pods])))
    if model.created is None:
        return found
    since = model.created - CLOCK_DIFFERENCE
    return [each for each in found if each.last is None or each.last >= since]
