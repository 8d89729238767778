"""Progress on standard error: sentences, and bytes that are sent; pure apart from its `write`.

A terminal gets one line that is redrawn. Anything else, such as the log of a pipeline, gets a line
for every tenth.
"""

from collections.abc import Callable

from moorage_cli.printing.sanitizing import clean

__all__ = ["Progress", "size"]

UNITS = ("B", "KiB", "MiB", "GiB")


class Progress:
    """Shows how far a command is.

    Args:
        write: Receives text for standard error.
        is_terminal: Whether a line can be redrawn.
    """

    def __init__(self, write: Callable[[str], object], *, is_terminal: bool) -> None:
        self._write = write
        self._step = 1 if is_terminal else 10
        self._is_terminal = is_terminal
        self._shown = -1
        self._open = False

    def tell(self, sentence: str) -> None:
        """Show a sentence on a line of its own."""
        self._end_line()
        self._write(f"{clean(sentence)}\n")

    def count(self, sent: int, total: int) -> None:
        """Show how many bytes are sent, if that has changed noticeably."""
        percent = 100 * sent // max(1, total)
        if sent and percent < 100 and percent // self._step == self._shown:
            return
        self._shown = percent // self._step
        line = f"{size(sent)} of {size(total)} ({percent} %)"
        if not self._is_terminal:
            self._write(f"{line}\n")
            return
        self._write(f"\r{line}\x1b[K")
        self._open = True
        if percent == 100:
            self._end_line()

    def _end_line(self) -> None:
        if self._open:
            self._write("\n")
        self._open = False


def size(count: int) -> str:
    """A number of bytes for people."""
    value = float(count)
    for unit in UNITS[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {UNITS[-1]}"
