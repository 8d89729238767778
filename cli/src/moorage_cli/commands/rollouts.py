"""`moorage wait` and `rollout`, and following a rollout to its end, as `deploy` does too."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from moorage_cli.commands.reports import explained
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.edit.rollback import kept_specs
from moorage_cli.judge.model_view import ModelView, moment, view
from moorage_cli.judge.rollout import KeptRevision, line, tree
from moorage_cli.judge.waiting import Outcome, outcome_of
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean

__all__ = ["End", "followed", "run_rollout", "run_wait", "unfinished"]


@dataclass(frozen=True, slots=True)
class End:
    """How following a rollout ended, and the model as it was then; PENDING: the time was over."""

    outcome: Outcome
    body: Mapping[str, Any]
    model: ModelView


def run_wait(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage wait`."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace
    end = followed(cluster, namespace, given.name, given.timeout, lambda _: None)
    if end.outcome is Outcome.SERVES:
        return explained(shell, cluster, end.model)
    return unfinished(shell, cluster, end, given.timeout)


def run_rollout(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage rollout`."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace
    history = _History(cluster)

    def drawn(body: Mapping[str, Any]) -> Report:
        model = view(body)
        return tree(model, history.of(model), datetime.now(UTC), shell.palette)

    if not given.watch:
        return drawn(cluster.model(namespace, given.name))
    if shell.live is not None:
        with shell.live() as screen:

            def draw(body: Mapping[str, Any]) -> None:
                screen.show(lambda: drawn(body).text)

            end = followed(cluster, namespace, given.name, given.timeout, draw)
    else:
        print_change = _changes(shell, drawn, given.output)
        end = followed(cluster, namespace, given.name, given.timeout, print_change)
    report = replace(drawn(end.body), text="")
    is_drawn = shell.live is not None and end.outcome is Outcome.FAILED
    if end.outcome is Outcome.SERVES or is_drawn:
        return report
    return replace(report, text=f"\n{unfinished(shell, cluster, end, given.timeout).text}")


def _changes(
    shell: Shell, drawn: Callable[[Mapping[str, Any]], Report], form: str
) -> Callable[[Mapping[str, Any]], None]:
    """Prints each change: a line for people, a document for programs, but not the last one."""
    shown: object = None

    def print_change(body: Mapping[str, Any]) -> None:
        nonlocal shown
        report, model = drawn(body), view(body)
        text = f"{clean(model.name)}: {clean(line(model))}\n"
        found = report.document if form == "json" else text
        is_last = form == "json" and outcome_of(model, datetime.now(UTC)) is not Outcome.PENDING
        if found != shown and not is_last:
            shell.show(replace(report, text=text))
        shown = found

    return print_change


class _History:
    """The kept revisions of a model, read again when its revisions change.

    Args:
        cluster: Where they are.
    """

    def __init__(self, cluster: ClusterLike) -> None:
        self._cluster = cluster
        self._key: object = None
        self._kept: list[KeptRevision] = []

    def of(self, model: ModelView) -> list[KeptRevision]:
        """The kept revisions; none without the right to read them."""
        key = (model.selector, model.rollout.current, model.rollout.last_good)
        if model.selector and key != self._key:
            self._key = key
            try:
                found = self._cluster.revisions(model.namespace, model.selector)
            except Failure:
                found = []
            self._kept = [
                KeptRevision(each.revision, moment(each.created)) for each in kept_specs(found)
            ]
        return self._kept


def followed(
    cluster: ClusterLike,
    namespace: str,
    name: str,
    seconds: float,
    progress: Callable[[Mapping[str, Any]], None],
) -> End:
    """Follow a model until its spec serves or has failed, or the time is over.

    Args:
        cluster: Where the model is.
        namespace: Its namespace.
        name: Its name.
        seconds: How long to follow it.
        progress: Receives the model as it is, after each change, and at the end.

    Raises:
        Failure: It does not exist, was deleted, or nothing was read.
    """
    end, shown = None, None
    for body in cluster.follow(namespace, name, seconds):
        model = view(body)
        end = End(outcome_of(model, datetime.now(UTC)), body, model)
        if body != shown or end.outcome is not Outcome.PENDING:
            progress(body)
            shown = body
        if end.outcome is not Outcome.PENDING:
            return end
    if end is None:
        raise Failure(f"{name}: the watch ended unexpectedly: run the command again")
    return end


def unfinished(shell: Shell, cluster: ClusterLike, end: End, seconds: float) -> Report:
    """Why a rollout failed, or is still on its way after that time."""
    report = explained(shell, cluster, end.model)
    if end.outcome is Outcome.FAILED:
        return replace(report, ok=False, failed=ExitCode.ROLLOUT_FAILED)
    late = f"{end.model.name}: not up to date and ready within {seconds:g} seconds\n"
    return replace(report, text=late + report.text, ok=False)
