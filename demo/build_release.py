#!/usr/bin/env python3
"""`make install.yaml` and `make chart`: what a release contains besides images and wheels.

    build/images/values.yaml -> chart with these images -> build/release -> registry

`make images PUSH=1` writes the values: a released chart names its images by digest, so it needs no
values of the user. Needs only Python's standard library and helm.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from build_images import NAMES, OUTPUT, REGISTRY
from choice import DemoError
from demo import RELEASE_NAMESPACE, ROOT
from progress import fail

RELEASE = ROOT / "build" / "release"
CHARTS = ROOT / "charts"
VALUES = OUTPUT / "values.yaml"
# Of the oldest supported Kubernetes; helm would guess otherwise without a cluster.
KUBERNETES = "1.30"
MAKE_IMAGES = (
    "run `make images REGISTRY=registry.example.com/team PUSH=1` with your registry first"
)
LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+)(:|/|$)")


def main() -> int:
    """Make one part of a release; 0 on success."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("part", choices=["install.yaml", "chart"])
    parser.add_argument("--registry", default="")
    parser.add_argument("--push", default="")
    options = parser.parse_args()
    try:
        RELEASE.mkdir(parents=True, exist_ok=True)
        if options.part == "chart":
            for made in charts(options.registry, options.push):
                print(made)
        else:
            print(manifests())
    except DemoError as error:
        fail(str(error), options.part)
        return 1
    return 0


def manifests() -> Path:
    """Write the rendered chart with its namespace.

    Raises:
        DemoError: The images have no digests, or helm failed.
    """
    read_images()
    words = ["template", "moorage", CHARTS / "moorage", "--values", VALUES, "--skip-tests"]
    words += ["--namespace", RELEASE_NAMESPACE, "--kube-version", KUBERNETES]
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": RELEASE_NAMESPACE},
    }
    written = RELEASE / "install.yaml"
    written.write_text(f"---\n{json.dumps(namespace)}\n{helm(words)}")
    return written


def charts(registry: str, push: str) -> list[str]:
    """Package both charts, and push them if requested; what was made.

    Raises:
        DemoError: A value is invalid, the images have no digests, or helm failed.
    """
    if push not in ("", "1"):
        raise DemoError(f"PUSH={push!r} is invalid: set PUSH=1 to push, or omit it")
    if (push or registry) and not REGISTRY.fullmatch(registry):
        problem = f"REGISTRY={registry!r} is invalid" if registry else "REGISTRY is empty"
        raise DemoError(
            f"{problem}: set the registry of the images, with a path and "
            "without https://, such as REGISTRY=registry.example.com/team"
        )
    made: list[str] = []
    for name in ("moorage", "moorage-runtimes"):
        folder = CHARTS / name
        if registry and name == "moorage":
            folder = with_images(registry)
        said = helm(["package", folder, "--destination", RELEASE])
        package = Path(said.strip().rpartition(": ")[2])
        made.append(str(package.relative_to(ROOT)))
        if push:
            place = f"oci://{registry}/charts"
            plain = ["--plain-http"] if LOOPBACK.match(registry) else []
            said = helm(["push", package, place, *plain], log=True)
            made.append(f"{place}/{name}@{pushed_digest(said)}")
    return made


def with_images(registry: str) -> Path:
    """A copy of the chart whose values name the pushed images.

    Raises:
        DemoError: The images have no digests or are in another registry.
    """
    pushed, digests = read_images()
    if pushed != registry:
        raise DemoError(
            f"REGISTRY={registry!r} is not the registry of the images in "
            f"{VALUES.relative_to(ROOT)}, {pushed!r}: {MAKE_IMAGES}"
        )
    folder = RELEASE / "chart" / "moorage"
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(CHARTS / "moorage", folder)
    values = folder / "values.yaml"
    values.write_text(filled(values.read_text(), registry, digests))
    return folder


def read_images() -> tuple[str, dict[str, str]]:
    """The registry and the digests that `make images` wrote.

    Raises:
        DemoError: They are missing.
    """
    try:
        text = VALUES.read_text()
    except OSError:
        raise DemoError(f"{VALUES.relative_to(ROOT)} does not exist: {MAKE_IMAGES}") from None
    found = parsed(text)
    if found is None:
        raise DemoError(
            f"{VALUES.relative_to(ROOT)} has no digests of pushed images: {MAKE_IMAGES}"
        )
    return found


def parsed(text: str) -> tuple[str, dict[str, str]] | None:
    """Registry and digests of all images; None without one of them; pure."""
    registry = re.search(r'^  registry: "(.+)"$', text, re.MULTILINE)
    digests = dict(
        re.findall(r'^  (\w+): \{digest: "(sha256:[0-9a-f]{64})"\}$', text, re.MULTILINE)
    )
    if registry is None or set(digests) != set(NAMES):
        return None
    return registry[1], digests


def filled(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """The chart's values with registry and digests, their comments kept; pure.

    Raises:
        DemoError: The text has no empty registry or digests to fill.
    """
    head, found, rest = values.partition('\n  registry: ""\n')
    parts = rest.split('    digest: ""\n')
    if not found or len(parts) != len(NAMES) + 1:
        raise DemoError(
            "charts/moorage/values.yaml: expected one empty registry and a digest of each image"
        )
    filled_parts = [
        f'{part}    digest: "{digests[name]}"\n'
        for part, name in zip(parts[:-1], NAMES, strict=True)
    ]
    return f'{head}\n  registry: "{registry}"\n{"".join(filled_parts)}{parts[-1]}'


def pushed_digest(said: str) -> str:
    """The digest in the output of `helm push`, by which a chart is signed; pure.

    Raises:
        DemoError: There is none.
    """
    found = re.search(r"^Digest: (sha256:[0-9a-f]{64})$", said, re.MULTILINE)
    if found is None:
        raise DemoError(f"helm push printed no digest: {said.strip()[-1000:]}")
    return found[1]


def helm(words: Sequence[str | Path], *, log: bool = False) -> str:
    """Run helm and return its standard output, with `log` also its standard error.

    Raises:
        DemoError: helm is missing or failed.
    """
    own = ROOT / "build" / "localcluster" / "bin" / "helm"
    program = shutil.which("helm") or (own if own.exists() else None)
    if program is None:
        raise DemoError("helm is not installed: install it, or run `localcluster/cluster install`")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"helm {words[0]} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout + done.stderr if log else done.stdout


if __name__ == "__main__":
    sys.exit(main())
