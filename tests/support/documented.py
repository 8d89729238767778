"""Shell commands from the documentation, so that a test runs exactly these."""

import re
from pathlib import Path


def commands(page: Path, heading: str) -> list[str]:
    """The lines of the `sh` blocks in a section, without continuation."""
    section = page.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    found = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert found, f"{page.name} has no commands under {heading!r}"
    return found
