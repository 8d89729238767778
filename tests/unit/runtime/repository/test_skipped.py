"""What a scan says about entries that are not models."""

import logging
from typing import Any

import pytest

from moorage_runtime.repository.listing import Listing
from moorage_runtime.repository.skipped import Note, note

NO_MODEL = "the model repository contains "
MODEL: Any = object()


def test_a_repository_with_models_names_skipped_entries() -> None:
    assert note("/models", Listing((MODEL,))) == Note(logging.INFO, "", "")
    found = note("/models", Listing((MODEL,), ("notes.txt: not a model", "a: b")))
    assert found == Note(line="skipped in the model repository: notes.txt: not a model, a: b")


@pytest.mark.parametrize(
    ("skipped", "problem", "named"),
    [
        ((), f"{NO_MODEL}no files", "no models in /models: it is empty. Add a folder"),
        (("a: b",), f"{NO_MODEL}one entry, which cannot be served", ": skipped a: b. Add"),
        (("a", "b"), f"{NO_MODEL}2 entries, none of which can be served", "skipped a, b. Add"),
    ],
)
def test_a_repository_without_models_has_a_problem(
    skipped: tuple[str, ...], problem: str, named: str
) -> None:
    found = note("/models", Listing((), skipped))

    assert (found.level, found.problem) == (logging.WARNING, problem)
    assert named in found.line


@pytest.mark.parametrize(("count", "end"), [(20, "e19"), (21, "e19 and 1 more")])
def test_a_line_names_at_most_twenty_entries(count: int, end: str) -> None:
    found = note("/models", Listing((MODEL,), tuple(f"e{number}" for number in range(count))))

    assert found.line.endswith(f"e18, {end}")
