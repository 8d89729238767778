import sys

import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.extra import IMAGE_EXTRAS, ExtraBackend, installation
from moorage_runtime.values.errors import InvalidConfig
from support.environments import ROOT

BACKEND = """
{first}
class Backend:
    def load(self, source):
        return source
"""


def source(folder) -> ModelSource:
    return ModelSource("m", "1", folder / "model.joblib")


def backend(folder, monkeypatch, first: str = "") -> ExtraBackend:
    """An extra whose module starts with the given lines."""
    (folder / "backend_of_an_extra.py").write_text(BACKEND.format(first=first))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "backend_of_an_extra", raising=False)
    return ExtraBackend("things", "backend_of_an_extra", "Backend")


def test_the_library_is_imported_with_the_first_model(tmp_path, monkeypatch):
    extra = backend(tmp_path, monkeypatch)
    assert "backend_of_an_extra" not in sys.modules

    assert extra.load(source(tmp_path)) == source(tmp_path)


def test_a_missing_library_says_what_to_install(tmp_path, monkeypatch):
    extra = backend(tmp_path, monkeypatch, "import a_library_that_is_not_there")

    with pytest.raises(InvalidConfig) as caught:
        extra.load(source(tmp_path))

    for fact in (
        "model.joblib",
        "'things'",
        "'a_library_that_is_not_there'",
        "an image of your own that has it",
        "pip install './runtime[things]' in the repository",
    ):
        assert fact in caught.value.message


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_a_broken_library_is_not_reported_as_missing(tmp_path, monkeypatch, error):
    extra = backend(tmp_path, monkeypatch, f"raise {error}('libgomp.so.1: no such file')")

    with pytest.raises(InvalidConfig, match=r"model\.joblib .*'things'.*libgomp\.so\.1"):
        extra.load(source(tmp_path))


def test_an_image_is_suggested_only_with_extras_that_it_can_be_built_with():
    built = {
        file.stem.removeprefix("requirements-")
        for file in (ROOT / "runtime").glob("requirements-*.txt")
    }

    assert built == IMAGE_EXTRAS
    assert "EXTRAS=tables" in installation("tables")
    assert "EXTRAS" not in installation("torchscript")
