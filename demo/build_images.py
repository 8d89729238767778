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
from collections.abc import Mapping
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
BASE_IMAGE = "localhost/moorage-base:bookworm"
# As in charts/moorage/values.schema.json, which also allows an empty value.
REGISTRY = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]+)?(/[a-z0-9][-a-z0-9._]*)*")
# Source: Docker Registry HTTP API V2, "tag".
TAG = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}")
PLATFORMS = ("linux/amd64", "linux/arm64")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


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

    def reference(self, name: str) -> str:
        """The image's full name."""
        return f"{self.registry}/moorage-{name}:{self.tag}"


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
        raise DemoError(
            f"REGISTRY={registry!r} is invalid: set a registry that you can push to and your "
            "cluster can pull from, with a path and without https://, such as "
            "REGISTRY=registry.example.com/team"
        )
    tag = tag or chart_version()
    if not TAG.fullmatch(tag):
        raise DemoError(f"TAG={tag!r} is invalid: use only letters, digits, '.', '_' and '-'")
    if push not in ("", "1"):
        raise DemoError(f"PUSH={push!r} is invalid: set PUSH=1 to push, or omit it")
    check_extras(ROOT, extras)
    found = tuple(platforms.replace(",", " ").split())
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
    if wanted.platforms and not (docker and quiet_output(["docker", "buildx", "version"])):
        raise DemoError(
            f"PLATFORMS={' '.join(wanted.platforms)} needs a running Docker engine with buildx: "
            "buildah builds on a Debian of this machine's own platform. Omit PLATFORMS to build "
            "for that one"
        )
    if not docker and os.geteuid() != 0:
        raise DemoError(
            "Docker is not running, and building without it needs root: start Docker, or run "
            "`sudo make images ...`"
        )
    if not docker:
        with progress.step("Building the base image", "1 min"):
            progress.run("packages", [*CLUSTER, "install", "--packages"])
            progress.run("base-image", [*CLUSTER, "base-image"])
    digests: dict[str, str] = {}
    for name in NAMES:
        archive = OUTPUT / f"{name}.tar"
        with progress.step(f"Building {wanted.reference(name)}", "2 min"):
            (by_docker if docker else by_buildah)(progress, wanted, name, archive)
        write_bill(wanted, name, archive)
        if wanted.push:
            with progress.step(f"Pushing {wanted.reference(name)}", "30 s"):
                if wanted.platforms:
                    digests[name] = pushed_for_all(progress, wanted, name)
                else:
                    digests[name] = pushed(progress, wanted.reference(name), docker=docker)
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


def by_buildah(progress: Progress, wanted: Wanted, name: str, archive: Path) -> None:
    """Build with buildah, on a Debian made by debootstrap."""
    words = [*CLUSTER, "build", "--file", ROOT / name / "Dockerfile", "--context", ROOT]
    words += ["--tag", wanted.reference(name), "--output", archive]
    words += ["--build-arg", f"BASE_IMAGE={BASE_IMAGE}", *build_arguments(name, wanted.extras)]
    progress.run(f"build-{name}", words, downloads="PyPI")


def pushed(progress: Progress, reference: str, *, docker: bool) -> str:
    """Push an image and return its digest in the registry.

    Raises:
        DemoError: The registry refused it.
    """
    name = reference.rpartition("/")[2].partition(":")[0]
    if not docker:
        file = OUTPUT / f"{name}.digest"
        words = ["push", "--tag", reference, "--digest-file", file]
        progress.run(f"push-{name}", [*CLUSTER, *words])
        said = file.read_text()
        file.unlink()
    else:
        said = progress.run(f"push-{name}", ["docker", "push", reference])
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
    made = sbom.bill(f"{wanted.registry}/moorage-{name}", wanted.tag, found)
    (OUTPUT / f"{name}.cdx.json").write_text(json.dumps(made, indent=1) + "\n")


def values_text(wanted: Wanted, digests: Mapping[str, str]) -> str:
    """The chart's values for these images; pure."""
    pins = {
        name: ("digest", digests[name]) if digests.get(name) else ("tag", wanted.tag)
        for name in NAMES
    }
    return images.values_text("make images", wanted.registry, pins)


if __name__ == "__main__":
    sys.exit(main())
