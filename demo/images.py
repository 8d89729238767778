"""The images of this repository: their inputs, their tags, and the chart's values for them.

The tag contains a hash of the inputs, so an unchanged tree is never built twice and a changed tree
always rolls out.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from choice import DemoError

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
        extras: Backends of the runtime beside the default ones.
    """

    name: str
    repository: str
    tag: str
    extras: str = ""

    @property
    def reference(self) -> str:
        """Name and tag as used in a pod."""
        return f"{self.repository}:{self.tag}"

    @property
    def archive(self) -> str:
        """File name of the image's archive."""
        return f"{self.name}-{self.tag}.tar"


def check_extras(root: Path, extras: str) -> None:
    """Check names that are separated by spaces.

    Raises:
        DemoError: The runtime lacks one.
    """
    folder = root / "runtime"
    known = sorted(
        path.stem.removeprefix("requirements-") for path in folder.glob("requirements-*.txt")
    )
    for extra in extras.split():
        if extra not in known:
            raise DemoError(
                f"EXTRAS={extras!r} is invalid: the runtime has no extra {extra!r}; use "
                f"{', '.join(known)}, separated by spaces"
            )


def build_arguments(name: str, extras: str) -> list[str]:
    """The build arguments of an image; only the runtime has extras."""
    return ["--build-arg", f"EXTRAS={extras}"] if name == "runtime" and extras else []


def values_text(command: str, registry: str, pins: Mapping[str, tuple[str, str]]) -> str:
    """The chart's values for images that a command built, each with its tag or digest."""
    lines = [f"# Written by `{command}`.", "image:", f"  registry: {json.dumps(registry)}"]
    lines += [f"  {name}: {{{key}: {json.dumps(value)}}}" for name, (key, value) in pins.items()]
    return "".join(f"{line}\n" for line in lines)


def find(root: Path, name: str, version: str, extras: str = "") -> Image:
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
    digest.update(extras.encode())
    tag = f"{version}-{digest.hexdigest()[:HASH_LENGTH]}"
    return Image(name, f"{LOCAL_REGISTRY}/moorage-{name}", tag, extras)


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
