"""Sends the files of a model that a bucket does not have yet; used by every kind of bucket."""

from collections.abc import Callable, Iterator
from pathlib import Path

from moorage_cli.ask.changing_file import read_unchanged
from moorage_cli.manifests.deploying import Content

__all__ = ["send_missing"]


def send_missing(
    folder: str,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
    has: Callable[[str, int], bool],
    put: Callable[[str, int, Iterator[bytes]], None],
) -> bool:
    """Send the files; False if the bucket has them already.

    Args:
        folder: Key of the folder in the bucket.
        content: The files, with their sizes and digests.
        paths: Where they are on this machine.
        progress: Receives the number of bytes sent so far.
        has: Whether there is an object with this key and size. The name of the folder has the
            digest of its content.
        put: Writes an object with this key and size.

    Raises:
        Failure: A file cannot be read or has changed, or what `has` and `put` raise.
    """
    sent, is_new = 0, False
    for path, (size, digest) in content.files.items():
        key = f"{folder}/{path}"
        if not has(key, size):
            put(
                key,
                size,
                read_unchanged(paths[path], size, digest, lambda n, base=sent: progress(base + n)),
            )
            is_new = True
        sent += size
        progress(sent)
    return is_new
