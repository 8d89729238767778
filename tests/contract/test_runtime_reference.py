"""The reference pages of the runtime say what the code does."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


@pytest.mark.parametrize(
    "name", ["runtime-settings.md", "metrics-runtime.md", "model.schema.json"]
)
def test_the_page_is_what_the_code_says(name):
    assert (DOCS / "reference" / name).read_text() == pages()[name], "docs/make_reference.py"
