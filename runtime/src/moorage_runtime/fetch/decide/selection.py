"""Selects files of a model by patterns of their paths. Pure.

A pattern is compared with the whole path below the URI, as in the tools of the Hugging Face Hub:
`*` is any number of characters, including '/'; `?` is one character; `[ab]` is one of several. A
pattern that ends with '/' means everything below that folder.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from moorage_runtime.fetch.decide.entries import Listing
from moorage_runtime.fetch.decide.failures import NotFound

__all__ = ["ALL_FILES", "Selection", "nothing_selected", "select"]

# Names in the message about patterns that match nothing.
NAMED = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns of files: those to include, all of them if there is none, except the others.

    Attributes:
        include: Patterns of files to include.
        exclude: Patterns of files to leave out.
        folder: Part of the paths before the pattern, such as the path in an image.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    folder: str = ""

    @property
    def is_all(self) -> bool:
        """Whether every file is selected."""
        return not self.include and not self.exclude

    def takes(self, path: str) -> bool:
        """Whether a file is selected."""
        above = f"{self.folder}/"
        path = path.rpartition("/")[2] if path == self.folder else path.removeprefix(above)
        included = not self.include or _matches(path, self.include)
        return included and not _matches(path, self.exclude)

    def __str__(self) -> str:
        """The patterns, for messages."""
        parts = {"include": self.include, "exclude": self.exclude}
        return ", ".join(f"{name} {' '.join(given)}" for name, given in parts.items() if given)


ALL_FILES: Final = Selection()


def select(listing: Listing, selection: Selection, what: str) -> Listing:
    """The selected files; layers are kept, because what they contain is not known yet.

    Raises:
        NotFound: No file is selected.
    """
    if selection.is_all:
        return listing
    taken = tuple(each for each in listing.entries if each.layer or selection.takes(each.path))
    if not taken:
        raise nothing_selected((each.path for each in listing.entries), selection, what)
    return replace(listing, entries=taken)


def nothing_selected(paths: Iterable[str], selection: Selection, what: str) -> NotFound:
    """The failure for patterns that select none of these files."""
    found = sorted(paths)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return NotFound(
        f"no file of {what} is selected by model.files ({selection}): it contains "
        f"{', '.join(found[:NAMED])}{more}"
    )


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(
        fnmatchcase(path, f"{pattern}*" if pattern.endswith("/") else pattern)
        for pattern in patterns
    )
