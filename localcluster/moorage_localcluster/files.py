"""Atomic writes of files, and writes only when the content changes."""

from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically, so that neither a reader nor a crash sees a partial file."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.chmod(mode)
    partial.rename(path)


def write_changed(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file unless it already has this content.

    kube-proxy watches its configuration and exits when the file is modified.
    """
    if not path.exists() or path.read_text() != text:
        write_whole(path, text, mode)
