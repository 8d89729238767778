"""What a command found, as one value: lines for people, a document for programs, and a verdict.

Commands make it without knowing where it goes; `__main__` prints it and turns the verdict into
the exit status.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

__all__ = ["ExitCode", "Report"]


class ExitCode(IntEnum):
    """Exit statuses that scripts may count on."""

    OK = 0
    NOT_OK = 1
    USAGE = 2
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Report:
    """The answer of a command.

    Args:
        text: For people, with lines that end in newlines; colours already in it or not.
        document: The same as JSON values.
        ok: Whether the exit status is 0.
        names: One name a line, for `-o name` and completion.
    """

    text: str
    document: Any
    ok: bool
    names: tuple[str, ...] = ()
