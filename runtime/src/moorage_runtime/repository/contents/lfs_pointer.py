"""Recognizes the short text that Git keeps in place of a large file.

A clone without Git LFS has such pointers instead of models, and no library knows them.

Source: Git LFS specification, "The Pointer".
"""

import pathlib
from typing import Final

__all__ = ["is_lfs_pointer"]

_START: Final = b"version https://git-lfs.github.com/spec/"


def is_lfs_pointer(path: pathlib.Path) -> bool:
    """Whether a file is a pointer; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_START)) == _START
    except OSError:
        return False
