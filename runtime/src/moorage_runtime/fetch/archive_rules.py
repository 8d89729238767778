"""Which files are archives, and which of their members are made. Pure.

An archive may come from anybody. Only plain files and folders are made, only below the folder that
is unpacked to, and no more bytes than there is room for.
"""

from dataclasses import dataclass
from enum import Enum, auto

from moorage_runtime.fetch.amounts import in_bytes
from moorage_runtime.fetch.failures import Corrupt, NoSpace

__all__ = ["Budget", "Kind", "is_archive", "member_path", "whiteout"]

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
MEMBERS_LIMIT = 100_000
NAME_LIMIT_BYTES = 255
# Source: OCI Image Layer Filesystem Changeset, "Whiteouts".
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"


class Kind(Enum):
    """What a member is."""

    FILE = auto()
    FOLDER = auto()
    LINK = auto()
    OTHER = auto()


def is_archive(name: str) -> bool:
    """Whether a file of this name is unpacked."""
    return name.lower().endswith(SUFFIXES)


def member_path(name: str, archive: str) -> str:
    """The member's path below the folder; empty for the folder itself.

    Raises:
        Corrupt: It would lie elsewhere, or no file system can hold it.
    """
    parts = [part for part in name.split("/") if part not in {"", "."}]
    outside = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name
    if outside or any(len(part.encode(errors="replace")) > NAME_LIMIT_BYTES for part in parts):
        raise Corrupt(
            f"{archive} has a member {name[:80]!r}, which does not lie below the archive's own "
            "folder; make the archive with relative names"
        )
    return "/".join(parts)


def whiteout(path: str) -> tuple[str, bool] | None:
    """What a member of a layer takes away: a path, and whether only what is below it.

    None where the member is an ordinary one.
    """
    folder, _, name = path.rpartition("/")
    if name == OPAQUE:
        return folder, True
    if name.startswith(WHITEOUT):
        below = f"{folder}/" if folder else ""
        return f"{below}{name.removeprefix(WHITEOUT)}", False
    return None


@dataclass(slots=True)
class Budget:
    """How much may still be unpacked.

    Attributes:
        left_bytes: Room on the volume.
        left_members: Files and folders, so that an archive of nothing but names ends too.
    """

    left_bytes: int
    left_members: int = MEMBERS_LIMIT

    def spend(self, count: int, archive: str) -> None:
        """So many bytes are written.

        Raises:
            NoSpace: There is no room for them.
        """
        if count > self.left_bytes:
            raise NoSpace(
                f"{archive} has more than the {in_bytes(max(self.left_bytes, 0))} in it that the "
                "volume has room for; raise model.download.sizeLimit, or check the archive"
            )
        self.left_bytes -= count

    def spend_member(self, archive: str) -> None:
        """One more member.

        Raises:
            Corrupt: There are more than any model has.
        """
        self.left_members -= 1
        if self.left_members < 0:
            raise Corrupt(f"{archive} has more than {MEMBERS_LIMIT} members; expected one model")
