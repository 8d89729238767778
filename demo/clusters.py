"""The protocol of a cluster that the demo can install into, and the local cluster.

Each kind of cluster builds the images, loads them onto its nodes, provides the environment for
kubectl and helm, and gives the host access to a Service. LocalCluster runs localcluster/cluster;
``docker_clusters`` has those that need a Docker engine.
"""

import http.client
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from choice import DemoError
from images import LOCAL_REGISTRY, Image, build_arguments
from progress import Progress, Tasks

HTTP_PORT = 8000
GRPC_PORT = 8001
ROUTE_SECONDS = 15


class Target(Protocol):
    """A cluster to install into."""

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Add the tasks that end with a running cluster that has the images."""
        ...

    def registry(self) -> str:
        """The registry, with its path, in the image names that the nodes use."""
        ...

    def environment(self) -> dict[str, str]:
        """Environment in which kubectl and helm address this cluster."""
        ...

    def kubeconfig(self) -> str:
        """Path of the kubeconfig."""
        ...

    def path_hint(self) -> str:
        """Shell text that extends the user's PATH, or ""."""
        ...

    def reach(self, service: str, env: dict[str, str]) -> AbstractContextManager[tuple[str, str]]:
        """Addresses (HTTP, gRPC) of a Service for as long as the context is open."""
        ...

    def remove(self) -> None:
        """Remove what the demo created."""
        ...


class LocalCluster:
    """The local cluster of this repository: real components, no Docker."""

    def __init__(self, root: Path, state: Path, progress: Progress) -> None:
        self._program = root / "localcluster" / "cluster"
        self._root = root
        self._state = state
        self._progress = progress

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Packages, then binaries and images side by side, then the cluster.

        Raises:
            DemoError: Not root.
        """
        if os.geteuid() != 0:
            raise DemoError(
                "the local cluster creates mounts, bridges and control groups, so it needs root: "
                "run `sudo make demo`, or set CLUSTER=kind or CLUSTER=current"
            )
        self._state.mkdir(parents=True, exist_ok=True)
        tasks.add(
            "packages",
            lambda: self._step(
                "packages",
                "Installing Debian packages",
                "1 min",
                ["install", "--packages"],
                downloads="the Debian mirrors of /etc/apt",
            ),
        )
        tasks.add(
            "binaries",
            lambda: self._step(
                "binaries",
                "Building Kubernetes, containerd, helm and CoreDNS from Go modules",
                "10 min the first time, then seconds",
                ["install", "--binaries"],
                downloads="the Go module proxy and PyPI",
            ),
            after=["packages"],
        )
        missing = [image for image in wanted if not (self._state / image.archive).exists()]
        if missing:
            tasks.add(
                "base-image",
                lambda: self._step(
                    "base-image",
                    "Building the base image",
                    "1 min",
                    ["base-image"],
                    downloads="the Debian mirrors of /etc/apt",
                ),
                after=["packages"],
            )
        for image in missing:
            tasks.add(image.name, lambda image=image: self._build(image), after=["base-image"])
        tasks.add(
            "up",
            lambda: self._step("up", "Starting the cluster", "20 s", ["up"]),
            after=["binaries"],
        )
        for image in wanted:
            needs = ["up", image.name] if image in missing else ["up"]
            tasks.add(f"load-{image.name}", lambda image=image: self._load(image), after=needs)

    def registry(self) -> str:
        """The registry in the names of the built images, which are imported."""
        return LOCAL_REGISTRY

    def environment(self) -> dict[str, str]:
        """KUBECONFIG of this cluster, with its binaries first in PATH."""
        env = dict(os.environ)
        for line in self._output("env").splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            if name in {"KUBECONFIG", "PATH"}:
                env[name] = shlex.split(value)[0].replace("$PATH", os.environ["PATH"])
        return env

    def kubeconfig(self) -> str:
        """Path of the kubeconfig that the local cluster wrote."""
        return self._output("kubeconfig").strip()

    def path_hint(self) -> str:
        """The built kubectl and helm, if the machine has none."""
        found = all(shutil.which(program) for program in ("kubectl", "helm"))
        return "" if found else f'; eval "$({self._program} env)"'

    @contextmanager
    def reach(self, service: str, env: dict[str, str]) -> Generator[tuple[str, str]]:
        """The Service's cluster address, which the host can route."""
        address = subprocess.run(
            ["kubectl", "get", "service", service, "-o", "jsonpath={.spec.clusterIP}"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        host = f"[{address}]" if ":" in address else address
        _wait_for_model(host, service)
        yield f"{host}:{HTTP_PORT}", f"{host}:{GRPC_PORT}"

    def remove(self) -> None:
        """Stop the cluster and remove all of it."""
        with self._progress.step("Removing the cluster"):
            self._progress.run("down", [sys.executable, self._program, "down", "--purge"])

    def _step(
        self, name: str, title: str, usual: str, words: Sequence[str], downloads: str = ""
    ) -> None:
        with self._progress.step(title, usual):
            self._progress.run(name, [sys.executable, self._program, *words], downloads=downloads)

    def _build(self, image: Image) -> None:
        # A partial archive must never look like a complete one.
        partial = self._state / f"{image.archive}.partial"
        partial.unlink(missing_ok=True)
        with self._progress.step(f"Building the {image.name} image", "1 min"):
            self._progress.run(
                f"image-{image.name}",
                [
                    sys.executable,
                    self._program,
                    "build",
                    "--file",
                    self._root / image.name / "Dockerfile",
                    "--context",
                    self._root,
                    "--tag",
                    image.reference,
                    "--build-arg",
                    "BASE_IMAGE=localhost/moorage-base:bookworm",
                    *build_arguments(image.name, image.extras),
                    "--output",
                    partial,
                ],
                downloads="PyPI",
            )
        partial.rename(self._state / image.archive)

    def _load(self, image: Image) -> None:
        marker = f"Loading the {image.name} image"
        with self._progress.step(marker, "10 s"):
            self._progress.run(
                f"load-{image.name}",
                [
                    sys.executable,
                    self._program,
                    "load",
                    self._state / image.archive,
                ],
            )

    def _output(self, command: str) -> str:
        return subprocess.run(
            [sys.executable, self._program, command], capture_output=True, text=True, check=True
        ).stdout


def _wait_for_model(host: str, model: str) -> None:
    """The node's rules follow a ready pod within moments, as for every Service.

    Until then, another machine may answer at the address: some networks have a proxy that accepts
    every connection.

    Raises:
        DemoError: The model does not answer for longer than that.
    """
    url = f"http://{host}:{HTTP_PORT}/v2/models/{model}"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            with direct.open(url, timeout=1) as answer:
                metadata: object = json.load(answer)
        except (OSError, ValueError, http.client.HTTPException) as error:
            metadata = error
        if isinstance(metadata, dict) and metadata.get("name") == model:
            return
        if time.monotonic() > deadline:
            raise DemoError(f"{url} does not answer with the model's metadata: {metadata}")
        time.sleep(0.1)
