"""Selects the names of a store that belong to a path: one file, or all below a folder. Pure."""

from collections.abc import Iterable, Iterator

__all__ = ["below"]


def below(names: Iterable[str], path: str) -> Iterator[tuple[str, str]]:
    """Each name that belongs to the path, with its part below the path.

    A folder takes precedence over a file with the same name, and an empty path selects everything.
    For a/b.onnx, the path "a" gives b.onnx, and so does the path "a/b.onnx".
    """
    known = list(names)
    folder = path.rstrip("/")
    inside = [name for name in known if not folder or name.startswith(f"{folder}/")]
    cut = len(folder) + 1 if folder else 0
    if inside:
        yield from ((name, name[cut:]) for name in inside)
    elif folder in known and not path.endswith("/"):
        yield folder, folder.rpartition("/")[2]
