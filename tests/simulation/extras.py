"""What the features of histories have in common: they act after the steps.

Each has random numbers of its own, so that a new one changes no history without it.
"""

from typing import Protocol


class Extra(Protocol):
    """A feature of some histories, with random numbers of its own."""

    def after_step(self) -> None:
        """Do something after a step, perhaps."""
        ...
