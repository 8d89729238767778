"""The interface of the dataplane to the other workers of the server.

With several workers, the server is ready if every worker is ready, and a change must reach all of
them. ``workers`` implements this; a server with one process does not need it.
"""

from typing import Literal, Protocol

from moorage_runtime.values.inference import ModelStatus

Change = Literal["load", "unload", "online", "offline"]


class Others(Protocol):
    """The other workers, as seen by this one."""

    def are_ready(self) -> bool:
        """Every worker that clients may reach is ready."""
        ...

    def worst(self, status: ModelStatus) -> ModelStatus:
        """The state of a version: this worker's, or that of another worker that cannot answer for
        it.
        """
        ...

    async def change(self, change: Change, name: str) -> None:
        """Apply a change in every worker, including this one; returns when all have applied it.

        Args:
            change: The change.
            name: Name of the model, "" for the traffic switch.

        Raises:
            RuntimeFault: The first error of any worker.
        """
        ...
