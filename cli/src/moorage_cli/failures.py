"""The one way in which a command ends early: a sentence for people, and the exit status 1."""

__all__ = ["Failure"]


class Failure(Exception):
    """What could not be done, and what to do about it; printed without a stack trace."""
