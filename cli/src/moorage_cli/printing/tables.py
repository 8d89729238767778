"""Tables in the style of kubectl, with optional colours; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len

from moorage_cli.printing.sanitizing import clean

__all__ = ["SHOW_CURSOR", "Cell", "GrowingTable", "Palette", "Tone", "age", "render", "shorten"]

# Ends a view whose process is interrupted, because rich hides the cursor meanwhile.
SHOW_CURSOR = "\x1b[?25h"
_GAP = "   "
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


class Tone(StrEnum):
    """The meaning of a cell, as the SGR code of its colour (ECMA-48, 8.3.117)."""

    PLAIN = ""
    GOOD = "32"
    BAD = "31"
    UNSURE = "33"
    HEAD = "1"


@dataclass(frozen=True, slots=True)
class Palette:
    """Whether tones are printed as colours."""

    coloured: bool

    def paint(self, text: str, tone: Tone) -> str:
        """The text in the tone's colour."""
        return f"\x1b[{tone}m{text}\x1b[0m" if self.coloured and tone and text else text


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Args:
        text: What it shows, cleaned when it is printed.
        tone: Its meaning.
        lead: Trusted text before it, such as the lines of a tree.
    """

    text: object
    tone: Tone = Tone.PLAIN
    lead: str = ""


def render(head: Sequence[str], rows: Sequence[Sequence[Cell]], palette: Palette) -> str:
    """Columns with the width of their widest cell; an empty cell is shown as a dash.

    A character takes the columns of a terminal that it needs there, such as two for a CJK one.
    """
    return GrowingTable(head, palette).added(rows)


class GrowingTable:
    """A table whose rows are printed as they come.

    Args:
        head: The names of the columns.
        palette: Colours.
    """

    def __init__(self, head: Sequence[str], palette: Palette) -> None:
        self._head = [Cell(name, Tone.HEAD) for name in head]
        self._palette = palette
        self._widths: list[int] = []

    def added(self, rows: Sequence[Sequence[Cell]]) -> str:
        """The next rows; after the head, if it was not printed or a column is wider now."""
        found = [_widths(line) for line in (self._head, *rows)]
        widest = [max(column) for column in zip(*found, self._widths or found[0], strict=True)]
        lines = rows if widest == self._widths else [self._head, *rows]
        self._widths = widest
        return "".join(self._printed(line) for line in lines)

    def _printed(self, line: Sequence[Cell]) -> str:
        padded = [
            self._palette.paint(_shown(cell), cell.tone) + " " * (width - needed)
            for cell, width, needed in zip(line, self._widths, _widths(line), strict=True)
        ]
        return f"{_GAP.join(padded).rstrip()}\n"


def _shown(cell: Cell) -> str:
    return f"{cell.lead}{clean(cell.text) or '-'}"


def _widths(line: Sequence[Cell]) -> list[int]:
    return [cell_len(_shown(cell)) for cell in line]


def age(seconds: float) -> str:
    """A duration in its largest unit, in the style of kubectl: `42s`, `5m`, `3h`, `12d`."""
    whole = max(0, int(seconds))
    for unit, size in _UNITS:
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def shorten(text: object, limit: int) -> str:
    """One clean line of at most `limit` characters."""
    line = clean(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
