"""Which cluster the demo uses, and why: the pure decision behind `make demo`.

    environment, probes of the machine -> Facts -> choose -> Choice

The demo never uses a cluster that the user did not name. It uses the current context only with
CLUSTER=current. Otherwise it creates a cluster of its own: with kind if Docker and kind are
available, else with localcluster/ of this repository.
"""

from dataclasses import dataclass
from typing import Literal

ClusterKind = Literal["current", "kind", "local"]
KINDS: tuple[ClusterKind, ...] = ("current", "kind", "local")


class DemoError(Exception):
    """The demo cannot continue; the text says what failed, where to look and what to do."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The relevant state of this machine.

    Attributes:
        asked: Value of the CLUSTER variable, "" when unset.
        context: Name of kubectl's current context, "" when there is none.
        context_answers: Its API server answered within a few seconds.
        docker_runs: A Docker engine answers.
        kind_installed: The `kind` command exists.
    """

    asked: str
    context: str
    context_answers: bool
    docker_runs: bool
    kind_installed: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster to use and the reason, as shown to the user."""

    kind: ClusterKind
    why: str


def choose(facts: Facts) -> Choice:
    """The cluster for these facts.

    Raises:
        DemoError: CLUSTER has an unknown value, or names a cluster that is not available.
    """
    if facts.asked == "current":
        return _current(facts)
    if facts.asked == "kind":
        return _kind(facts)
    if facts.asked == "local":
        return Choice("local", "CLUSTER=local is set")
    if facts.asked:
        raise DemoError(
            f"CLUSTER={facts.asked!r} is invalid: must be one of {', '.join(KINDS)}, or unset"
        )
    spared = (
        f"; to use the cluster of context {facts.context!r}, set CLUSTER=current"
        if facts.context_answers
        else ""
    )
    if facts.docker_runs and facts.kind_installed:
        return Choice("kind", f"Docker is running and kind is installed{spared}")
    missing = "Docker is not running" if not facts.docker_runs else "kind is not installed"
    return Choice("local", f"{missing}{spared}")


def _current(facts: Facts) -> Choice:
    if not facts.context:
        raise DemoError(
            "CLUSTER=current is set, but kubectl has no current context: set KUBECONFIG or unset "
            "CLUSTER"
        )
    if not facts.context_answers:
        raise DemoError(
            f"CLUSTER=current is set, but the API server of context {facts.context!r} does not "
            "answer: check `kubectl cluster-info` or unset CLUSTER"
        )
    return Choice("current", f"CLUSTER=current selects context {facts.context!r}")


def _kind(facts: Facts) -> Choice:
    if not facts.docker_runs:
        raise DemoError(
            "CLUSTER=kind is set, but Docker is not running: start it or unset CLUSTER"
        )
    if not facts.kind_installed:
        raise DemoError(
            "CLUSTER=kind is set, but kind is not in PATH: install it or unset CLUSTER"
        )
    return Choice("kind", "CLUSTER=kind is set")
