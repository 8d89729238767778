"""Reads the content of an image archive and generates a software bill of materials (SBOM).

`read` accepts an archive written by `docker save` or buildah. It reads the package databases in
the image itself, so the SBOM lists what the image ships, not what was meant to be installed.
"""

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import quote

DPKG_STATUS = "var/lib/dpkg/status"
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"


@dataclass(slots=True)
class Contents:
    """The files of an image, and those of its package databases with their text.

    Attributes:
        config: The image's configuration: user, entrypoint, environment.
        modes: Path without a leading slash to mode; directories are left out.
        texts: Path to text, of the package databases alone.
    """

    config: Mapping[str, Any]
    modes: dict[str, int] = field(default_factory=dict[str, int])
    texts: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """An installed package; `kind` is the type of its package URL."""

    kind: str
    name: str
    version: str
    architecture: str = ""

    @property
    def purl(self) -> str:
        """The package URL.

        Source: Package URL specification, types `pypi` and `deb`.
        """
        version = quote(self.version, safe=".-_~")
        if self.kind == "pypi":
            return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{version}"
        return f"pkg:deb/debian/{quote(self.name)}@{version}?arch={self.architecture}"


def read(archive: Path) -> Contents:
    """The files of the image in an archive, layer over layer.

    Raises:
        KeyError, tarfile.TarError: The file is not an image archive.
    """
    with tarfile.open(archive) as outer:
        (image,) = json.load(_member(outer, "manifest.json"))
        contents = Contents(json.load(_member(outer, image["Config"]))["config"])
        for name in image["Layers"]:
            with tarfile.open(fileobj=_member(outer, name)) as layer:
                _lay_over(contents, layer)
    return contents


def packages(contents: Contents) -> list[Package]:
    """The Debian and Python packages that the image's own databases list, sorted."""
    found: set[Package] = set()
    for path, text in contents.texts.items():
        if path == DPKG_STATUS:
            stanzas = (HeaderParser().parsestr(stanza) for stanza in text.split("\n\n"))
            found |= {
                Package("deb", stanza["Package"], stanza["Version"], stanza["Architecture"])
                for stanza in stanzas
                if stanza.get("Status", "").endswith(" installed")
            }
        else:
            metadata = HeaderParser().parsestr(text)
            found.add(Package("pypi", metadata["Name"], metadata["Version"]))
    return sorted(found)


def bill(name: str, version: str, found: list[Package]) -> dict[str, Any]:
    """The SBOM; it holds no time and no random number, so equal images have equal SBOMs.

    Source: CycloneDX 1.5, JSON.
    """
    components = [
        {
            "type": "library",
            "bom-ref": each.purl,
            "name": each.name,
            "version": each.version,
            "purl": each.purl,
        }
        for each in found
    ]
    image = {"type": "container", "bom-ref": "image", "name": name, "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": image},
        "components": components,
    }


def _lay_over(contents: Contents, layer: tarfile.TarFile) -> None:
    for member in layer:
        path = PurePosixPath(member.name.removeprefix("./").lstrip("/"))
        if path.name == OPAQUE:
            _remove(contents, str(path.parent))
        elif path.name.startswith(WHITEOUT):
            _remove(contents, str(path.with_name(path.name.removeprefix(WHITEOUT))))
        elif not member.isdir():
            contents.modes[str(path)] = member.mode
            if _is_database(path):
                stream = layer.extractfile(member)
                contents.texts[str(path)] = stream.read().decode() if stream else ""


def _is_database(path: PurePosixPath) -> bool:
    return str(path) == DPKG_STATUS or (
        path.name == "METADATA" and path.parent.suffix == ".dist-info"
    )


def _remove(contents: Contents, path: str) -> None:
    for known in (contents.modes, contents.texts):
        for each in [each for each in known if each == path or each.startswith(f"{path}/")]:
            del known[each]


def _member(outer: tarfile.TarFile, name: str) -> IO[bytes]:
    stream = outer.extractfile(name)
    if stream is None:
        raise KeyError(name)
    return stream
