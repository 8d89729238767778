"""`moorage wait`, and following a rollout to its end, as `deploy` does too."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moorage_cli.commands.reports import explained
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.judge.waiting import Outcome, outcome_of
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import ExitCode, Report

__all__ = ["End", "followed", "run_wait", "unfinished"]


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
        progress: Receives the model as it is, and after each change.

    Raises:
        Failure: It does not exist, was deleted, or nothing was read.
    """
    end = None
    for body in cluster.follow(namespace, name, seconds):
        progress(body)
        model = view(body)
        end = End(outcome_of(model), body, model)
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
