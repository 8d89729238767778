"""Finds mounts in and below folders, and unmounts them before a folder is deleted."""

from pathlib import Path

from moorage_localcluster.processes import succeeds

MOUNTS = Path("/proc/mounts")


def unescape_mount(text: str) -> str:
    """Decodes a path from /proc/mounts, where blanks and backslashes are octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def mounts_below(mounts: str, folders: list[Path]) -> list[str]:
    """Mount points in or below the folders, deepest first; `mounts` is /proc/mounts; pure."""
    roots = [str(folder) for folder in folders]
    points = [unescape_mount(line.split()[1]) for line in mounts.splitlines() if line.strip()]
    ours = [
        point
        for point in points
        if any(point == root or point.startswith(f"{root}/") for root in roots)
    ]
    return sorted(ours, key=lambda point: (-point.count("/"), point))


def is_mounted_below(folder: Path) -> bool:
    """Whether something is mounted in or below the folder."""
    return bool(mounts_below(MOUNTS.read_text(), [folder]))


def unmount_all(folders: list[Path]) -> None:
    """Unmount everything in or below the folders, including stacked mounts."""
    # A mount point with several mounts is listed once per mount.
    for point in mounts_below(MOUNTS.read_text(), folders):
        succeeds(["umount", "--lazy", point])
