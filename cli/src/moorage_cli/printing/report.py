"""The result of a command: text for people, a document for programs, and a verdict.

`__main__` prints it and turns the verdict into the exit status.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

__all__ = ["ExitCode", "Report"]


class ExitCode(IntEnum):
    """Exit statuses that scripts may rely on."""

    OK = 0
    NOT_OK = 1
    USAGE = 2
    ROLLOUT_FAILED = 3
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a command.

    Args:
        text: Lines for people, each with a newline, and with colours if wanted.
        document: The same content as JSON values.
        ok: Whether the exit status is 0.
        names: Names for `-o name` and completion.
        notes: Sentences for standard error, such as what a conversion could not keep.
        failed: An exit status other than 1 if the result is not ok.
    """

    text: str
    document: Any
    ok: bool
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failed: ExitCode = ExitCode.NOT_OK

    @property
    def exit_code(self) -> ExitCode:
        """The exit status."""
        return ExitCode.OK if self.ok else self.failed
