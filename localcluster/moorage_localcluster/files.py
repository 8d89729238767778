"""Files that are there whole or not at all, and written only when they change."""

from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a reader, or a crash, never sees half of it."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.chmod(mode)
    partial.rename(path)


def write_changed(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file unless it says that already.

    kube-proxy watches its configuration and ends when the file is touched.
    """
    if not path.exists() or path.read_text() != text:
        write_whole(path, text, mode)
