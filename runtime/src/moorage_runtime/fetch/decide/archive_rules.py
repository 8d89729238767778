"""Which files are archives, and which of their members are extracted. Pure.

An archive is untrusted. Only regular files, further names of them (hard links) and folders are
extracted, only below the target folder, and only as many bytes as the volume has room for.
"""

from dataclasses import dataclass
from enum import Enum, auto

from moorage_runtime.fetch.decide.amounts import in_bytes
from moorage_runtime.fetch.decide.failures import Corrupt, NoSpace

__all__ = ["Budget", "Kind", "Whiteout", "is_archive", "is_metadata", "member_path", "whiteout"]

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
MEMBERS_LIMIT = 100_000
NAME_LIMIT_BYTES = 255
# Source: OCI Image Layer Filesystem Changeset, "Whiteouts".
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# AUFS stores files of its own with such names; image tools omit them.
METADATA = ".wh..wh."


class Kind(Enum):
    """The type of a member."""

    FILE = auto()
    FOLDER = auto()
    HARD_LINK = auto()
    LINK = auto()
    OTHER = auto()


def is_archive(name: str) -> bool:
    """Whether a file with this name is unpacked."""
    return name.lower().endswith(SUFFIXES)


def member_path(name: str, archive: str) -> str:
    """The member's path below the folder; empty for the folder itself.

    Raises:
        Corrupt: It is outside of the folder, or not a valid name for a file system.
    """
    parts = [part for part in name.split("/") if part not in {"", "."}]
    outside = name.startswith("/") or ".." in parts or "\0" in name
    if outside or any(len(part.encode(errors="replace")) > NAME_LIMIT_BYTES for part in parts):
        raise Corrupt(
            f"{archive} has a member {name[:80]!r} outside of the archive's own folder: create "
            "the archive with relative names"
        )
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Whiteout:
    """A marker in a layer that removes files of earlier layers.

    Attributes:
        path: The removed path, relative to the image's root; "" is the root itself.
        is_opaque: Remove only the content of the folder, not the folder.
    """

    path: str
    is_opaque: bool

    def concerns(self, keep: str) -> bool:
        """Whether it removes anything in the folder that is kept; "" keeps everything."""
        inside = f"{self.path}/".startswith(f"{keep}/") if keep else True
        above = not self.path or f"{keep}/".startswith(f"{self.path}/")
        return inside or above


def is_metadata(path: str) -> bool:
    """Whether a member is metadata of a union file system, which is not part of the image."""
    *above, name = path.split("/")
    names = above if name == OPAQUE else [*above, name]
    return any(each.startswith(METADATA) for each in names)


def whiteout(path: str, layer: str) -> Whiteout | None:
    """The whiteout for a member of a layer, or None for any other member.

    Args:
        path: The member's path, as ``member_path`` returns it.
        layer: Name of the layer in errors.

    Raises:
        Corrupt: The removed name is not a file name, such as "..".
    """
    folder, _, name = path.rpartition("/")
    if any(part.startswith(WHITEOUT) for part in folder.split("/")):
        raise Corrupt(
            f"{layer} has a member {path[:80]!r} in a folder whose name is reserved for whiteouts "
            f"({WHITEOUT}NAME): rebuild the image"
        )
    if name == OPAQUE:
        return Whiteout(folder, is_opaque=True)
    if not name.startswith(WHITEOUT):
        return None
    gone = name.removeprefix(WHITEOUT)
    if gone in {"", ".", ".."}:
        raise Corrupt(
            f"{layer} has a whiteout {path[:80]!r} that removes {gone!r}: must be {WHITEOUT}NAME; "
            "rebuild the image"
        )
    return Whiteout(f"{folder}/{gone}" if folder else gone, is_opaque=False)


@dataclass(slots=True)
class Budget:
    """The remaining room for unpacking.

    Attributes:
        left_bytes: Free bytes on the volume.
        left_members: Remaining number of files and folders, which limits archives of empty
            members.
    """

    left_bytes: int
    left_members: int = MEMBERS_LIMIT

    def spend(self, count: int, archive: str) -> None:
        """Account for written bytes.

        Raises:
            NoSpace: The volume has no room for them.
        """
        if count > self.left_bytes:
            raise NoSpace(
                f"{archive} contains more than {in_bytes(max(self.left_bytes, 0))}, the free "
                "space on the volume: raise model.download.sizeLimit, or check the archive"
            )
        self.left_bytes -= count

    def spend_member(self, archive: str) -> None:
        """Account for one more member.

        Raises:
            Corrupt: There are too many for a model.
        """
        self.left_members -= 1
        if self.left_members < 0:
            raise Corrupt(
                f"{archive} has too many members: must have {MEMBERS_LIMIT} or fewer; check "
                "that it contains one model"
            )
