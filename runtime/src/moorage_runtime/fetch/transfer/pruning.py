"""Removes files that are not selected from a folder.

Only an archive or an image needs this: the names of its files are known after it is unpacked.
"""

from pathlib import Path

from moorage_runtime.fetch.decide.selection import Selection, nothing_selected

__all__ = ["prune"]


def prune(folder: Path, selection: Selection, what: str) -> None:
    """Remove the other files, and the folders that are empty then.

    Raises:
        NotFound: No file is selected.
    """
    if selection.is_all:
        return
    found = sorted(folder.rglob("*"), reverse=True)
    paths = {path: path.relative_to(folder).as_posix() for path in found if not path.is_dir()}
    if not any(selection.takes(path) for path in paths.values()):
        raise nothing_selected(paths.values(), selection, what)
    # a folder comes after everything in it
    for path in found:
        if path in paths:
            if not selection.takes(paths[path]):
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
