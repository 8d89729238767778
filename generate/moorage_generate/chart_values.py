"""The reference page of the chart's values, from the comments of charts/*/values.yaml.

A comment describes the key below it. A blank line ends a comment that describes no key.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = "docs/reference/chart-values.md"
KEY = re.compile(r"^( *)([A-Za-z]\w*):(?: (.*))?$")
INDENT = 2
HEAD = """\
# Values of the chart

Every value of the chart `moorage`, with its default. The chart's schema rejects unlisted values
and values of another type. [Install the chart](../how-to/install.md) shows the most frequent ones.

| value | default | meaning |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One key of values.yaml.

    Attributes:
        path: Keys from the root, joined by dots.
        default: As written in the file; empty for a key with keys below it.
        meaning: The comment above it, in one line.
    """

    path: str
    default: str
    meaning: str


def files(root: Path) -> dict[str, str]:
    """The page."""
    text = (root / "charts" / "moorage" / "values.yaml").read_text()
    return {PAGE: page(list(parse_values(text)))}


def page(values: list[Value]) -> str:
    """The page of these values; pure."""
    rows = [
        f"| `{each.path}` | {_code(each.default)} | {_cell(each.meaning)} |" for each in values
    ]
    return HEAD + "".join(f"{row}\n" for row in rows)


def parse_values(text: str) -> Iterator[Value]:
    """The keys in order, each with the comment above it; pure.

    Raises:
        ValueError: A line is neither a key, a comment nor blank.
    """
    path: list[str] = []
    comment: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip("# ").rstrip())
            continue
        if line.strip():
            found = KEY.match(line)
            if found is None:
                raise ValueError(f"values.yaml:{number}: expected `key: value`, got {line!r}")
            path = [*path[: len(found[1]) // INDENT], found[2]]
            yield Value(".".join(path), found[3] or "", " ".join(comment))
        comment = []


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
