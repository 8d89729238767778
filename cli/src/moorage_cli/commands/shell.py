"""What every command is given: the cluster, the colours, and places to print.

`__main__` makes the `Shell`; the modules of this package use it.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from moorage_cli.printing.report import Report
from moorage_cli.printing.tables import Palette

if TYPE_CHECKING:
    # Only annotations name them. The help and the completion need neither `kubernetes` nor `rich`.
    from moorage_cli.ask.objects import Objects
    from moorage_cli.ask.port_forward import PortForward
    from moorage_cli.edit.model import Patch
    from moorage_cli.judge.why import EventView
    from moorage_cli.printing.live import LiveView

__all__ = ["ClusterLike", "Shell"]


class ClusterLike(Protocol):
    """What the commands need from a cluster; implemented by `cluster.Cluster`."""

    namespace: str

    @property
    def place(self) -> str:
        """The context, if there is one, and the address of the API server."""
        ...

    @property
    def objects(self) -> "Objects":
        """The objects beside models."""
        ...

    def models(self, namespace: str | None) -> list[dict[str, Any]]:
        """All models of a namespace, or of all namespaces."""
        ...

    def model(self, namespace: str, name: str) -> dict[str, Any]:
        """One model."""
        ...

    def check_list(self, namespace: str | None) -> None:
        """Do nothing if the models of a namespace, or of all, may be listed."""
        ...

    def runtimes(self) -> list[dict[str, Any]]:
        """All InferenceRuntimes."""
        ...

    def runtime(self, name: str) -> dict[str, Any]:
        """One InferenceRuntime."""
        ...

    def changes(self, namespace: str | None, name: str) -> Iterator[tuple[str, Any]]:
        """All models as they are, then each change with its kind, forever."""
        ...

    def feed(self, namespace: str | None) -> Iterator[tuple[str, Any]]:
        """All models as they are, then each change with its kind, until the watch ends."""
        ...

    def events(self, namespace: str, names: list[str]) -> "list[EventView]":
        """The events about objects with these names."""
        ...

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The pods that a selector selects."""
        ...

    def pod_metrics(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Usage of these pods."""
        ...

    def follow(self, namespace: str, name: str, seconds: float) -> Iterator[dict[str, Any]]:
        """One model as it is, then each change."""
        ...

    def patch(self, namespace: str, name: str, patch: "Patch") -> dict[str, Any]:
        """Change one model."""
        ...

    def revisions(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The objects that keep earlier revisions."""
        ...

    def forward(self, namespace: str, pod: str, port: int) -> "PortForward":
        """A local port that is forwarded to a pod's port."""
        ...


@dataclass(frozen=True, slots=True)
class Shell:
    """The surroundings of a command: how to connect, colour, and show what happens meanwhile.

    Args:
        connect: Connects to the cluster of the arguments.
        palette: Colours.
        show: Prints a report before the command ends, such as the rows of a watch.
        live: Makes a view that is redrawn; None if the output is for programs or not a terminal.
        tell: Shows a sentence about the progress.
        count: Shows how many bytes of how many are sent.
    """

    connect: Callable[[argparse.Namespace], ClusterLike]
    palette: Palette
    show: Callable[[Report], None]
    live: "Callable[[], LiveView] | None"
    tell: Callable[[str], None]
    count: Callable[[int, int], None]
