#!/usr/bin/env python3

"""Writes what the command-line tool packages of other parts, and its reference page.

    .venv/bin/python cli/make_data.py [--check]

The CRD is a copy of crds/, the advice is the tables of docs/reference/conditions.md, and
docs/reference/cli.md is made from the parser.
"""

import json
import re
import sys
from pathlib import Path

from moorage_cli.reference import page

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "cli" / "src" / "moorage_cli" / "data"
CRD = ROOT / "crds" / "inferencemodels.yaml"
CONDITIONS = ROOT / "docs" / "reference" / "conditions.md"


def advice(markdown: str) -> list[dict[str, str]]:
    """The rows whose first cell is a reason, as plain text; pure."""
    rows = [line.strip("|").split("|") for line in markdown.splitlines() if line.startswith("| `")]
    cells = [[_plain(cell) for cell in row] for row in rows]
    return [
        {"reason": row[0], "means": row[2], "do": row[3] if len(row) > 3 else ""} for row in cells
    ]


def _plain(cell: str) -> str:
    without_links = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
    return without_links.replace("`", "").strip()


def wanted() -> dict[Path, str]:
    """What each file should contain."""
    reasons = json.dumps(advice(CONDITIONS.read_text()), indent=1, ensure_ascii=False)
    return {
        DATA / "inferencemodels.yaml": CRD.read_text(),
        DATA / "advice.json": f"{reasons}\n",
        ROOT / "docs" / "reference" / "cli.md": page(),
    }


def outdated() -> list[Path]:
    """The files that differ from what they should contain."""
    return [
        path
        for path, text in wanted().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write, or compare with --check."""
    differing = outdated()
    if "--check" not in sys.argv[1:]:
        for path in differing:
            path.write_text(wanted()[path], encoding="utf-8")
        return 0
    for path in differing:
        sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: make crds\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
