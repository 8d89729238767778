"""The data of the command-line tool and its reference pages.

The CRDs are copies of crds/, the advice comes from docs/reference/conditions.md, the fields of
pods from the `kubernetes` package, docs/reference/cli.md from the parser, and
docs/reference/conversions.md from the fields that `moorage convert` declares.
"""

import json
import re
from pathlib import Path

from kubernetes.client import models

from moorage_cli.command_line.reference import page
from moorage_cli.manifests.convert.reference import page as conversions_page

DATA = "cli/src/moorage_cli/data"
POD_SPEC = "V1PodSpec"


def files(root: Path) -> dict[str, str]:
    """The packaged data and the page."""
    conditions = (root / "docs" / "reference" / "conditions.md").read_text()
    reasons = json.dumps(advice(conditions), indent=1, ensure_ascii=False)
    fields = json.dumps(pod_fields(), indent=1, sort_keys=True)
    return {
        **{f"{DATA}/{each.name}": each.read_text() for each in (root / "crds").glob("*.yaml")},
        f"{DATA}/advice.json": f"{reasons}\n",
        f"{DATA}/pod_fields.json": f"{fields}\n",
        "docs/reference/cli.md": page(),
        "docs/reference/conversions.md": conversions_page(),
    }


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


def pod_fields() -> dict[str, dict[str, str]]:
    """The fields of a PodSpec and of every object in it, each with its kind; "" is a scalar."""
    found: dict[str, dict[str, str]] = {}
    waiting = [POD_SPEC]
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        model = getattr(models, kind)
        found[kind] = {}
        for attribute, declared in model.openapi_types.items():
            item = re.sub(r"^(?:List|list)\[(.*)\]$", r"\1", declared)
            below = item if hasattr(getattr(models, item, None), "openapi_types") else ""
            found[kind][model.attribute_map[attribute]] = below
            waiting += [below] if below else []
    return found
