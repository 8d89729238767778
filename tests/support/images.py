"""Images that tests build and load into the cluster under test, like the demo."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_PROGRAM = ROOT / "localcluster" / "cluster"
BASE_IMAGE = "localhost/moorage-base:bookworm"


def build_and_load(name: str, dockerfile: Path, folder: Path) -> str:
    """The reference of an image that the cluster's node now has.

    The build's context is the Dockerfile's folder; the archive is made in `folder`. The cluster
    is that of this repository, which is running.

    Raises:
        AssertionError: The build or the import failed; the text has its last lines.
    """
    reference = f"moorage-tests/{name}:dev"
    archive = folder / f"{name}.tar"
    run("base-image")
    run(
        *("build", "--file", dockerfile, "--context", dockerfile.parent, "--tag", reference),
        *("--build-arg", f"BASE_IMAGE={BASE_IMAGE}", "--output", archive),
    )
    run("load", archive)
    archive.unlink()
    return reference


def run(*words: str | Path) -> None:
    """A command of the cluster program."""
    done = subprocess.run(
        [CLUSTER_PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-3000:]}"
