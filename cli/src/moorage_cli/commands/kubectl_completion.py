"""The program `kubectl_complete-moorage`, which kubectl runs when the user presses Tab.

It prints a word per line, with a tab and its description, and finally what else the shell
should do: https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
"""

import sys
from collections.abc import Iterable, Sequence

from moorage_cli.command_line.kubectl_completion import Offered, offered
from moorage_cli.printing.failures import Failure

__all__ = ["main"]

# The directives of cobra, which kubectl passes on to the shell.
FILES, NO_FILES = ":0", ":4"


def main(words: Sequence[str] | None = None) -> int:
    """Print what fits in the place of the last word."""
    given = list(sys.argv[1:] if words is None else words) or [""]
    found = offered(given)
    lines = [
        f"{word}\t{text}" if text else word
        for word, text in [*found.words.items(), *((name, "") for name in _names(found))]
        if word.startswith(given[-1])
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{FILES if found.files else NO_FILES}\n")
    return 0


def _names(found: Offered) -> Iterable[str]:
    """Names of the cluster; none if it cannot be asked, because Tab has no place for messages."""
    if not found.names:
        return []
    from moorage_cli.ask.cluster import Cluster  # noqa: PLC0415 - other words need no cluster

    try:
        cluster = Cluster(found.where.get("kubeconfig", ""), found.where.get("context", ""))
        if found.names == "runtimes":
            listed = cluster.runtimes()
        else:
            listed = cluster.models(found.where.get("namespace") or cluster.namespace)
    except Failure:
        return []
    return [each["metadata"]["name"] for each in listed]
