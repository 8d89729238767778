"""Shell commands from the documentation, so that a test runs exactly these."""

import re
from dataclasses import dataclass
from pathlib import Path


def commands(page: Path, heading: str) -> list[str]:
    """The lines of the `sh` blocks in a section, without continuation."""
    section = page.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    found = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert found, f"{page.name} has no commands under {heading!r}"
    return found


@dataclass(frozen=True)
class Step:
    """A block of a tutorial.

    Attributes:
        language: `sh` for commands, `text` for the output of the commands before it.
        title: The file in which the reader saves the block; "" if it is none.
        text: The block.
        line: Its line in the page.
    """

    language: str
    title: str
    text: str
    line: int


def steps(page: Path) -> list[Step]:
    """The blocks of a tutorial, in order."""
    text = page.read_text()
    fence = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
    found = [
        Step(each[1], each[2] or "", each[3], text.count("\n", 0, each.start()) + 1)
        for each in fence.finditer(text)
    ]
    assert found, f"{page.name} has no steps"
    return found
