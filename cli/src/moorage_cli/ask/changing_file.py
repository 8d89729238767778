"""Reads a file that somebody may change meanwhile; used by every upload to a store."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["read_unchanged"]

CHUNK_BYTES = 1 << 20


def read_unchanged(
    path: Path, size: int, digest: str, progress: Callable[[int], None]
) -> Iterator[bytes]:
    """The content in chunks; the last one comes only if the whole content is as expected.

    Args:
        path: The file.
        size: Its size in bytes.
        digest: Its SHA-256.
        progress: Receives the number of bytes that the reader is done with.

    Raises:
        Failure: It cannot be read, or differs from its size or digest.
    """
    left, seen = size, hashlib.sha256()
    try:
        with path.open("rb") as file:
            while True:
                data = file.read(min(CHUNK_BYTES, left))
                seen.update(data)
                left -= len(data)
                is_last = not left or not data
                if is_last and (left or file.read(1) or seen.hexdigest() != digest):
                    raise Failure(f"{path} has changed while it was read: run the command again")
                yield data
                progress(size - left)
                if is_last:
                    return
    except OSError as error:
        raise Failure(f"{path} cannot be read: {reason_of(error)}") from error
