"""The two images that the demo builds, their inputs and their tags.

The tag contains a hash of the inputs, so an unchanged tree is never built twice and a changed tree
always rolls out.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HASH_LENGTH = 12
LOCAL_REGISTRY = "localhost"


@dataclass(frozen=True, slots=True)
class Image:
    """One image of this repository.

    Attributes:
        name: "operator" or "runtime", which is also the folder with the Dockerfile.
        repository: Image name without tag. The registry `localhost` does not exist, so a node
            that lacks the image cannot pull another image with the same name.
        tag: Version and hash of the inputs.
    """

    name: str
    repository: str
    tag: str

    @property
    def reference(self) -> str:
        """Name and tag as used in a pod."""
        return f"{self.repository}:{self.tag}"

    @property
    def archive(self) -> str:
        """File name of the image's archive."""
        return f"{self.name}-{self.tag}.tar"


def find(root: Path, name: str, version: str) -> Image:
    """The image `name` for the tree at `root`."""
    folder = root / name
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    )
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    tag = f"{version}-{digest.hexdigest()[:HASH_LENGTH]}"
    return Image(name, f"{LOCAL_REGISTRY}/moorage-{name}", tag)


def stale_archives(names: Iterable[str], wanted: Sequence[Image]) -> list[str]:
    """The file names of complete or partial archives of earlier trees; pure."""
    kept = {image.archive for image in wanted}
    prefixes = tuple(f"{image.name}-" for image in wanted)
    return sorted(
        name
        for name in names
        if name.startswith(prefixes)
        and name.endswith((".tar", ".tar.partial"))
        and name not in kept
    )
