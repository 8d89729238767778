"""The ways in which a command ends early: a sentence for people, and an exit status."""

__all__ = ["Failure", "WrongUsage"]


class Failure(Exception):
    """What could not be done, and what to do about it; printed without a stack trace."""


class WrongUsage(Failure):
    """Arguments that are each right and wrong together, or that only their reader can judge."""
