"""Fields of a source format and their places in the result, as data; pure.

    each source format declares its fields --> **fields** --> draft, and the reference page

A path has dots between names, brackets around positions and around names with dots, and `*` for
any name or position: `spec.predictor.*.image`, `metadata.annotations[serving.kserve.io/stop]`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Field", "Path", "field_of", "parse_path", "written_path"]

Path = tuple[str | int, ...]

_PART = re.compile(r"\[([0-9]+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_PLAIN = re.compile(r"[A-Za-z0-9_-]*[A-Za-z_-][A-Za-z0-9_-]*")
_NOWHERE = "has no equivalent"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a source format.

    Args:
        path: Its path.
        target: Its path in the result, or several with commas; empty if it has none.
        remark: How the value changes or, without a target, why and what to do instead.
    """

    path: str
    target: str = ""
    remark: str = ""

    @property
    def loss(self) -> str:
        """The sentence for a value that is not carried over."""
        return f"{_NOWHERE}: {self.remark}" if self.remark and not self.target else _NOWHERE


def parse_path(text: str) -> Path:
    """The parts of a written path."""
    return tuple(
        int(index) if index else name or plain for index, name, plain in _PART.findall(text)
    )


def written_path(path: Path) -> str:
    """A path as text."""
    text = ""
    for part in path:
        if isinstance(part, str) and _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part}]"
    return text


def field_of(fields: Sequence[Field], path: Path) -> tuple[Path, Field | None]:
    """The declared field that holds a path, the most specific one, and its own path."""
    found: tuple[Path, Field | None] = (path, None)
    for field in fields:
        pattern = parse_path(field.path)
        is_longer = found[1] is None or len(pattern) > len(found[0])
        if len(pattern) <= len(path) and is_longer and _holds(pattern, path):
            found = (path[: len(pattern)], field)
    return found


def _holds(pattern: Path, path: Path) -> bool:
    return all(a in ("*", b) for a, b in zip(pattern, path, strict=False))
