"""Which cluster the demo uses, and why: the pure decision behind `make demo`.

    environment, probes of the machine -> Facts -> choose -> Choice

The rule: no cluster is touched that the user did not name. A current context is used only with
CLUSTER=current; otherwise the demo makes a cluster of its own, with kind where a Docker engine
runs, else from this repository's localcluster/.
"""

from dataclasses import dataclass
from typing import Literal

ClusterKind = Literal["current", "kind", "local"]
KINDS: tuple[ClusterKind, ...] = ("current", "kind", "local")


class DemoError(Exception):
    """The demo cannot go on; the text says what failed, where to look and what to do."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found on this machine.

    Attributes:
        asked: Value of the CLUSTER variable, "" when unset.
        context: Name of kubectl's current context, "" when there is none.
        context_answers: Its API server answered within a few seconds.
        docker_runs: A Docker engine answers.
        kind_installed: The `kind` command is there.
    """

    asked: str
    context: str
    context_answers: bool
    docker_runs: bool
    kind_installed: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster to use and the sentence that tells the user why."""

    kind: ClusterKind
    why: str


def choose(facts: Facts) -> Choice:
    """The cluster for these facts.

    Raises:
        DemoError: CLUSTER names something unknown, or something that is not there.
    """
    if facts.asked == "current":
        return _current(facts)
    if facts.asked == "kind":
        return _kind(facts)
    if facts.asked == "local":
        return Choice("local", "CLUSTER=local asks for the cluster of this repository")
    if facts.asked:
        raise DemoError(
            f"CLUSTER={facts.asked!r} is not known; expected one of {', '.join(KINDS)}, or unset"
        )
    spared = (
        f"; context {facts.context!r} answers but is left alone, CLUSTER=current would use it"
        if facts.context_answers
        else ""
    )
    if facts.docker_runs and facts.kind_installed:
        return Choice("kind", f"a Docker engine runs and kind is installed{spared}")
    missing = "no Docker engine runs" if not facts.docker_runs else "kind is not installed"
    return Choice("local", f"{missing}, so this repository's own cluster is used{spared}")


def _current(facts: Facts) -> Choice:
    if not facts.context:
        raise DemoError(
            "CLUSTER=current, but kubectl has no current context; set KUBECONFIG or unset CLUSTER"
        )
    if not facts.context_answers:
        raise DemoError(
            f"CLUSTER=current, but the API server of context {facts.context!r} does not answer; "
            "check `kubectl cluster-info` or unset CLUSTER"
        )
    return Choice("current", f"CLUSTER=current confirms context {facts.context!r}")


def _kind(facts: Facts) -> Choice:
    if not facts.docker_runs:
        raise DemoError("CLUSTER=kind, but no Docker engine answers `docker info`")
    if not facts.kind_installed:
        raise DemoError("CLUSTER=kind, but there is no `kind` command on the PATH")
    return Choice("kind", "CLUSTER=kind asks for it")
