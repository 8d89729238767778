#!/usr/bin/env python3
"""`make images`: builds the images, writes an SBOM for each, and pushes them to a registry.

    build (Docker, else buildah) -> archive and SBOM -> push -> build/images/values.yaml

The values file for `helm install -f` contains the registry and, after a push, the digests. Needs
only Python's standard library, and Docker or root.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import images
import sbom
from choice import DemoError
from demo import ROOT, chart_version, quiet_output
from images import build_arguments, check_extras
from progress import Progress, fail

OUTPUT = ROOT / "build" / "images"
NAMES = ("operator", "runtime", "cli")
CLUSTER = (sys.executable, ROOT / "localcluster" / "cluster")
# As in charts/moorage/values.schema.json, which also allows an empty value.
REGISTRY = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]+)?(/[a-z0-9][-a-z0-9._]*)*")
# Source: Docker Registry HTTP API V2, "tag".
TAG = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}")
PLATFORMS = ("linux/amd64", "linux/arm64")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """An image for one platform.

    Attributes:
        platform: Such as "linux/arm64"; empty means the builder's own.
        suffix: What its names end with.
    """

    platform: str = ""
    suffix: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the program that runs buildah."""
        return ("--platform", self.platform) if self.platform else ()

    def duration(self, usual: str) -> str:
        """How long a step takes; the programs of another processor run in an emulator."""
        return f"{usual}, or 15 min in an emulator" if self.platform else usual


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to build.

    Attributes:
        registry: Registry with its path, as the chart's `image.registry`.
        tag: Tag of all images.
        extras: Backends of the runtime beside the default ones.
        push: Whether to push.
        platforms: Platforms of one multi-platform image; empty means the builder's own.
    """

    registry: str
    tag: str
    extras: str
    push: bool
    platforms: tuple[str, ...] = ()

    def reference(self, name: str, part: Part | None = None) -> str:
        """The full name of an image, or of its part for one platform."""
        return f"{self.registry}/moorage-{name}:{self.tag}{part.suffix if part else ''}"


def main() -> int:
    """Build and push; 0 on success."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--registry", default="")
    parser.add_argument("--tag", default="")
    parser.add_argument("--extras", default="")
    parser.add_argument("--push", default="")
    parser.add_argument("--platforms", default="")
    options = parser.parse_args()
    progress = Progress(OUTPUT / "logs")
    try:
        wanted = checked(
            options.registry, options.tag, options.extras, options.push, options.platforms
        )
        make(progress, wanted)
    except DemoError as error:
        progress.stop()
        fail(str(error), "images")
        return 1
    except KeyboardInterrupt:
        progress.stop()
        fail("interrupted: run the same command again", "images")
        return 130
    return 0


def checked(registry: str, tag: str, extras: str, push: str, platforms: str = "") -> Wanted:
    """Validated command-line options; reads only the version of the chart.

    Raises:
        DemoError: An option is invalid.
    """
    if not REGISTRY.fullmatch(registry):
        problem = f"REGISTRY={registry!r} is invalid" if registry else "REGISTRY is empty"
        raise DemoError(
            f"{problem}: set a registry that you can push to and your "
            "cluster can pull from, with a path and without https://, such as "
            "REGISTRY=registry.example.com/team"
        )
    tag = tag or chart_version()
    if not TAG.fullmatch(tag):
        raise DemoError(f"TAG={tag!r} is invalid: use only letters, digits, '.', '_' and '-'")
    if push not in ("", "1"):
        raise DemoError(f"PUSH={push!r} is invalid: set PUSH=1 to push, or omit it")
    check_extras(ROOT, extras)
    found = tuple(dict.fromkeys(platforms.replace(",", " ").split()))
    for platform in found:
        if platform not in PLATFORMS:
            raise DemoError(
                f"PLATFORMS={platforms!r} is invalid: use {' and '.join(PLATFORMS)}, which all "
                "locked requirements support"
            )
    if found and push != "1":
        raise DemoError(
            f"PLATFORMS={platforms!r} needs PUSH=1: an image for several platforms exists only "
            "in a registry"
        )
    return Wanted(registry, tag, extras, push == "1", found)


def make(progress: Progress, wanted: Wanted) -> None:
    """Build the images, and push them if requested.

    Raises:
        DemoError: A step failed; the message has the end of its log.
    """
    OUTPUT.mkdir(parents=True, exist_ok=True)
    docker = bool(quiet_output(["docker", "info", "--format", "{{.ServerVersion}}"]))
    if docker and wanted.platforms and not quiet_output(["docker", "buildx", "version"]):
        raise DemoError(
            f"PLATFORMS={' '.join(wanted.platforms)} needs buildx, a plugin of Docker: install "
            "it, or omit PLATFORMS to build for this machine's own platform"
        )
    if not docker and os.geteuid() != 0:
        raise DemoError(
            "Docker is not running, and building without it needs root: start Docker, or run "
            "`sudo make images ...`"
        )
    parts = (Part(),) if docker else parts_of(wanted.platforms)
    bases = {} if docker else make_bases(progress, parts)
    digests: dict[str, str] = {}
    for name in NAMES:
        for part in parts:
            archive = OUTPUT / f"{name}{part.suffix}.tar"
            with progress.step(f"Building {wanted.reference(name, part)}", part.duration("2 min")):
                if docker:
                    by_docker(progress, wanted, name, archive)
                else:
                    by_buildah(progress, wanted, name, part, bases[part], archive)
            write_bill(wanted, name, archive)
        if wanted.push:
            with progress.step(f"Pushing {wanted.reference(name)}", "30 s"):
                if docker and wanted.platforms:
                    digests[name] = pushed_for_all(progress, wanted, name)
                elif docker:
                    digests[name] = pushed_by_docker(progress, wanted.reference(name))
                else:
                    digests[name] = pushed_by_buildah(progress, wanted, name, parts)
    values = OUTPUT / "values.yaml"
    values.write_text(values_text(wanted, digests))
    progress.say(f"archives and SBOMs: {OUTPUT.relative_to(ROOT)}")
    progress.say(f"install with:       -f {values.relative_to(ROOT)}")


def by_docker(progress: Progress, wanted: Wanted, name: str, archive: Path) -> None:
    """Build with the Docker engine."""
    words = [
        "docker",
        "build",
        "--file",
        ROOT / name / "Dockerfile",
        *build_arguments(name, wanted.extras),
    ]
    progress.run(f"build-{name}", [*words, "--tag", wanted.reference(name), ROOT])
    progress.run(f"save-{name}", ["docker", "save", "--output", archive, wanted.reference(name)])


def parts_of(platforms: Sequence[str]) -> tuple[Part, ...]:
    """The images from which buildah makes one for several platforms; pure."""
    found = (Part(each, "-" + each.rpartition("/")[2]) for each in platforms)
    return tuple(found) or (Part(),)


def make_bases(progress: Progress, parts: Sequence[Part]) -> dict[Part, str]:
    """Build the Debian on which buildah builds each part, by debootstrap, and return its name."""
    bases: dict[Part, str] = {}
    with progress.step("Installing what builds images", "30 s"):
        progress.run("packages", [*CLUSTER, "install", "--packages"])
    for part in parts:
        of = f" for {part.platform}" if part.platform else ""
        with progress.step(f"Building the base image{of}", part.duration("1 min")):
            words = [*CLUSTER, "base-image", *part.options]
            bases[part] = progress.run(f"base-image{part.suffix}", words).split()[-1]
    return bases


def by_buildah(
    progress: Progress, wanted: Wanted, name: str, part: Part, base: str, archive: Path
) -> None:
    """Build with buildah, on a Debian made by debootstrap."""
    words = [*CLUSTER, "build", "--file", ROOT / name / "Dockerfile", "--context", ROOT]
    words += ["--tag", wanted.reference(name, part), "--output", archive, *part.options]
    words += ["--build-arg", f"BASE_IMAGE={base}", *build_arguments(name, wanted.extras)]
    progress.run(f"build-{name}{part.suffix}", words, downloads="PyPI")


def pushed_by_docker(progress: Progress, reference: str) -> str:
    """Push an image and return its digest in the registry.

    Raises:
        DemoError: The registry refused it.
    """
    name = reference.rpartition("/")[2].partition(":")[0]
    return digest_in(progress.run(f"push-{name}", ["docker", "push", reference]), reference)


def pushed_by_buildah(progress: Progress, wanted: Wanted, name: str, parts: Sequence[Part]) -> str:
    """Push an image, or an index of its parts, and return the digest in the registry.

    Raises:
        DemoError: The registry refused it.
    """
    reference = wanted.reference(name)
    file = OUTPUT / f"{name}.digest"
    words = [*CLUSTER, "push", "--tag", reference, "--digest-file", file]
    for part in parts:
        words += ["--part", wanted.reference(name, part)] if part.platform else []
    progress.run(f"push-{name}", words)
    said = file.read_text()
    file.unlink()
    return digest_in(said, reference)


def digest_in(said: str, reference: str) -> str:
    """The last digest in the output of a push; pure.

    Raises:
        DemoError: There is none.
    """
    found = DIGEST.findall(said)
    if not found:
        raise DemoError(f"no digest in the output of pushing {reference}: {said.strip()[-200:]}")
    return found[-1]


def pushed_for_all(progress: Progress, wanted: Wanted, name: str) -> str:
    """Build an image for every platform, push it as one index, and return the index's digest.

    Raises:
        DemoError: The builder failed or reported no digest.
    """
    metadata = OUTPUT / f"{name}.metadata.json"
    progress.run(f"push-{name}", index_command(wanted, name, metadata))
    digest = str(json.loads(metadata.read_text()).get("containerimage.digest", ""))
    metadata.unlink()
    if not DIGEST.fullmatch(digest):
        raise DemoError(
            f"docker buildx reported no digest of {wanted.reference(name)}: {digest!r}"
        )
    return digest


def index_command(wanted: Wanted, name: str, metadata: Path) -> list[str | Path]:
    """The command of buildx, with an SBOM and the provenance in the index; pure."""
    words: list[str | Path] = ["docker", "buildx", "build", "--file", ROOT / name / "Dockerfile"]
    words += ["--platform", ",".join(wanted.platforms), *build_arguments(name, wanted.extras)]
    words += ["--sbom=true", "--provenance=mode=max", "--metadata-file", metadata, "--push"]
    return [*words, "--tag", wanted.reference(name), ROOT]


def write_bill(wanted: Wanted, name: str, archive: Path) -> None:
    """Write the SBOM beside the archive."""
    found = sbom.packages(sbom.read(archive))
    file = archive.with_suffix(".cdx.json")
    made = sbom.bill(f"{wanted.registry}/moorage-{name}", wanted.tag, found)
    file.write_text(json.dumps(made, indent=1) + "\n")


def values_text(wanted: Wanted, digests: Mapping[str, str]) -> str:
    """The chart's values for these images; pure."""
    pins = {
        name: ("digest", digests[name]) if digests.get(name) else ("tag", wanted.tag)
        for name in NAMES
    }
    return images.values_text("make images", wanted.registry, pins)


if __name__ == "__main__":
    sys.exit(main())
