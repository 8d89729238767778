"""The outcome of one measure, as Markdown for people and JSON for programs. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any


@dataclass(frozen=True)
class Table:
    """Rows under a head; numbers stand as they shall be shown."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_markdown(self) -> str:
        """The table with its columns aligned: the first to the left, the others to the right."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.head))]
        rule = [
            "-" * width if index == 0 else "-" * (width - 1) + ":"
            for index, width in enumerate(widths)
        ]
        shown = [lines[0], rule, *lines[1:]]
        return "\n".join(_line(cells, widths) for cells in shown) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    aligned = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return f"| {' | '.join(aligned)} |"


@dataclass(frozen=True)
class Report:
    """What was measured.

    Attributes:
        title: Heading.
        how: One paragraph: what the numbers mean and how they came about.
        table: For people.
        data: Every single value with its unit in the name, for programs.
        plot: A picture beside the table, as SVG; nothing where a table says it all.
    """

    title: str
    how: str
    table: Table
    data: Mapping[str, Any]
    plot: str = ""

    def as_markdown(self, today: date, facts: Mapping[str, str]) -> str:
        """A short page; the facts are those of the machine."""
        listed = "; ".join(f"{key} {value}" for key, value in facts.items())
        return (
            f"# {self.title}\n\n{self.table.as_markdown()}\n{self.how}\n\n"
            f"Measured on {today.isoformat()}. Machine: {listed}.\n"
        )

    def as_json(self, today: date, facts: Mapping[str, str]) -> str:
        """The same with every single value."""
        document = {"date": today.isoformat(), "machine": facts, "results": self.data}
        return json.dumps(document, indent=2) + "\n"
