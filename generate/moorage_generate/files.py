"""All generated files: which they are, which of them are outdated, and how they are written.

chart_crd, chart_values, dashboard, cli_data,
runtime_reference, messages                   --> **files** --> repository
"""

from pathlib import Path

from . import chart_crd, chart_values, cli_data, dashboard, messages, runtime_reference

MAKERS = (chart_crd, chart_values, dashboard, cli_data, runtime_reference, messages)


def wanted(root: Path) -> dict[str, bytes]:
    """Path below the root to content, of every file that the sources below the root determine."""
    made = {path: text for maker in MAKERS for path, text in maker.files(root).items()}
    return {path: text.encode() for path, text in made.items()}


def outdated(root: Path) -> list[str]:
    """The paths of generated files that are missing, different or left over."""
    expected = wanted(root)
    differing = [path for path, content in expected.items() if _content(root / path) != content]
    return sorted([*differing, *_left_over(root, expected)])


def write(root: Path) -> list[str]:
    """Make the generated files below the root current; the paths of those that were not."""
    expected = wanted(root)
    changed = outdated(root)
    for path in changed:
        if path in expected:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(expected[path])
        else:
            (root / path).unlink()
    return changed


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _left_over(root: Path, expected: dict[str, bytes]) -> list[str]:
    """The files in folders of message classes that no .proto file gives."""
    found = [path for folder in messages.FOLDERS for path in (root / folder).glob("*.py*")]
    names = [path.relative_to(root).as_posix() for path in found]
    return [name for name in names if name not in expected]
