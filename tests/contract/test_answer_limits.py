"""The limits in docs/reference/answer-limits.md are those of the operator."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "answer-limits.md"
SOURCE = ROOT / "operator" / "src"
UNITS = {"": 1.0, "KiB": 1 << 10, "MiB": 1 << 20, "s": 1.0, "% of a core": 0.01}
ROW = re.compile(r"^\| .* \| ([\d,]+) ?([^|]*?) \| `(\w+)\.(\w+)` \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall(PAGE.read_text())


def test_every_row_with_a_constant_is_read() -> None:
    assert len(rows()) == len(re.findall(r"\| `\w+\.\w+` \|$", PAGE.read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("number", "unit", "module", "constant"), rows(), ids=[f"{row[2]}.{row[3]}" for row in rows()]
)
def test_a_documented_limit_is_that_of_the_code(
    number: str, unit: str, module: str, constant: str
) -> None:
    [path] = (SOURCE / "moorage_operator").rglob(f"{module}.py")
    dotted = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    limit = getattr(importlib.import_module(dotted), constant)

    assert float(number.replace(",", "")) * UNITS[unit] == pytest.approx(limit)
