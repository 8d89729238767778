"""What the dataplane of one worker process needs of the other workers of its server.

A server of one process has no others. With several, ready is what every worker is, and what
changes a worker has to reach all of them; ``workers`` carries it.
"""

from typing import Literal, Protocol

from moorage_runtime.inference import ModelStatus

Change = Literal["load", "unload", "online", "offline"]


class Others(Protocol):
    """The other workers, as far as this one knows."""

    def are_ready(self) -> bool:
        """Each that clients may reach is ready."""
        ...

    def worst(self, status: ModelStatus) -> ModelStatus:
        """The state of a version by this worker, or by another that cannot answer for it."""
        ...

    async def change(self, change: Change, name: str) -> None:
        """Make a change in every worker, this one included; returns when all have made it.

        Args:
            change: What to do.
            name: Of the model, "" for the traffic switch.

        Raises:
            RuntimeFault: The first error of any of them.
        """
        ...
