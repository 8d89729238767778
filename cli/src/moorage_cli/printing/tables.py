"""Tables in the style of kubectl, with optional colours; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len

from moorage_cli.printing.sanitizing import clean

__all__ = ["Cell", "Palette", "Tone", "age", "render", "shorten"]

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
    lines = [[Cell(name, Tone.HEAD) for name in head], *rows]
    texts = [[f"{cell.lead}{clean(cell.text) or '-'}" for cell in line] for line in lines]
    widths = [max(cell_len(text) for text in column) for column in zip(*texts, strict=True)]
    printed: list[str] = []
    for line, words in zip(lines, texts, strict=True):
        padded = [
            palette.paint(word, cell.tone) + " " * (width - cell_len(word))
            for cell, word, width in zip(line, words, widths, strict=True)
        ]
        printed.append(_GAP.join(padded).rstrip())
    return "".join(f"{line}\n" for line in printed)


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
