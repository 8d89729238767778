"""Every generated file of the repository is current, and `make generate` makes it so."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage_generate import files

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("crds", "charts/moorage/values.yaml", "docs/reference/conditions.md", "runtime/proto")
MESSAGES = "cli/src/moorage_cli/_generated"
TEMPLATE = "charts/moorage/templates/inferencemodels-crd.yaml"
PACKAGED = "cli/src/moorage_cli/data/inferencemodels.yaml"


def test_every_generated_file_is_current() -> None:
    assert files.outdated(ROOT) == [], "run `make generate`"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of the sources and of current generated files."""
    for name in SOURCES:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    files.write(tmp_path)
    return tmp_path


def replace(path: str, old: str, new: str) -> Callable[[Path], None]:
    """An edit of a file below the root."""

    def edit(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        (root / path).write_text(text.replace(old, new))

    return edit


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (replace("crds/inferencemodels.yaml", "Whether", "If"), [TEMPLATE, PACKAGED]),
        (
            replace("docs/reference/conditions.md", "the spec is valid", "the spec is fine"),
            ["cli/src/moorage_cli/data/advice.json"],
        ),
        (
            replace("runtime/proto/health.proto", "string service = 1;", "string service = 2;"),
            ["runtime/src/moorage_runtime/codec/_generated/health_pb2.py"],
        ),
        (
            replace("docs/reference/cli.md", "moorage", "Moorage"),
            ["docs/reference/cli.md"],
        ),
        (
            lambda root: (root / "docs/reference/runtime-settings.md").unlink(),
            ["docs/reference/runtime-settings.md"],
        ),
        (
            lambda root: (root / MESSAGES / "old_pb2.py").write_text(""),
            [f"{MESSAGES}/old_pb2.py"],
        ),
    ],
    ids=["the CRD", "the advice", "a protocol", "an edited page", "a lost page", "a leftover"],
)
def test_generating_updates_exactly_what_is_outdated(
    copy: Path, edit: Callable[[Path], None], expected: list[str]
) -> None:
    edit(copy)

    assert files.outdated(copy) == expected
    assert files.write(copy) == expected
    assert files.outdated(copy) == []
