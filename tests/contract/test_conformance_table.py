"""docs/conformance.md names tests and vectors that exist, for every number of every protocol."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
ROW = re.compile(r"^\| ([CR][0-4]?-\d{3}) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
HEADING = re.compile(r"^### .* \((\d+) requirements\)$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
VECTORS = [path.stem for path in (ROOT / "tests" / "vectors").glob("*.json")]


def defined() -> set[str]:
    """Every test as ``file.py::test``."""
    return {
        f"{path.name}::{node.name}"
        for folder in ("conformance", "contract", "unit/runtime")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_that_is_named_exists():
    named = set(re.findall(r"`(test_\w+\.py::\w+)`", PAGE))

    assert len(named) > 200
    assert named - defined() == set()


def test_every_vector_that_is_named_exists_once():
    named = set(re.findall(r"`((?:bin|grps|health|tfs|v2grpc|v2rest)-\d+)`", PAGE))

    assert len(named) > 90
    for name in sorted(named):
        assert len([stem for stem in VECTORS if stem.startswith(f"{name}-")]) == 1, name


def test_every_vector_is_named():
    unnamed = {stem for stem in VECTORS if f"`{'-'.join(stem.split('-')[:2])}`" not in PAGE}

    assert unnamed == set()


@pytest.mark.parametrize(("number", "words", "cover"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_has_words_and_a_cover_or_a_reason(number, words, cover):
    assert words.strip()
    if cover.startswith("not met: "):
        assert len(cover) > len("not met: ") + 10
    else:
        assert re.match(r"`[^`]+`(, `[^`]+`)*(; .{10,})?$", cover), cover


def test_numbers_ascend_and_each_section_has_as_many_as_it_says():
    sections = HEADING.split(PAGE)[1:]
    counts = [int(count) for count in sections[::2]]
    numbers = [[row[0] for row in ROW.findall(text)] for text in sections[1::2]]

    assert [len(section) for section in numbers] == counts
    assert sum(counts) == len(ROWS)
    for section in numbers:
        assert section == sorted(set(section))
        assert len({number.partition("-")[0] for number in section}) == 1


def test_no_line_of_a_table_is_passed_over():
    lines = [line for line in PAGE.splitlines() if re.match(r"\| [CR]\d?-", line)]

    assert len(lines) == len(ROWS)
