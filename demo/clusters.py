"""The three kinds of cluster that the demo can install into, behind one small protocol.

Each builds the images in its own way, gets them onto its nodes, says which environment kubectl and
helm need, and how the host reaches a Service. LocalCluster drives localcluster/cluster; Kind and
CurrentContext need a Docker engine to build.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from choice import DemoError
from images import Image
from progress import Progress, Tasks

HTTP_PORT = 8000
GRPC_PORT = 8001
KIND_CLUSTER = "moorage-demo"
RELEASE_NAMESPACE = "moorage-system"
ROUTE_SECONDS = 15


class Target(Protocol):
    """A cluster to install into."""

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Add the tasks that end with a running cluster that has the images."""
        ...

    def repository(self, image: Image) -> str:
        """The image's name, without tag, as the cluster's nodes find it."""
        ...

    def environment(self) -> dict[str, str]:
        """Environment in which kubectl and helm address this cluster."""
        ...

    def kubeconfig(self) -> str:
        """Path of the kubeconfig."""
        ...

    def path_hint(self) -> str:
        """What a user's PATH needs besides, as shell text, or ""."""
        ...

    def reach(self, service: str, env: dict[str, str]) -> AbstractContextManager[tuple[str, str]]:
        """Addresses (HTTP, gRPC) of a Service for as long as the context is open."""
        ...

    def remove(self) -> None:
        """Remove what the demo made."""
        ...


class LocalCluster:
    """The cluster of this repository: real components, no Docker."""

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
                "this repository's cluster makes mounts, bridges and control groups, so it needs "
                "root: run `sudo make demo`, or use CLUSTER=kind or CLUSTER=current"
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
                "Building Kubernetes, helm and CoreDNS from Go modules",
                "10 min the first time, seconds after",
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
                    "Making the base image",
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

    def repository(self, image: Image) -> str:
        """As built; the images are imported."""
        return image.repository

    def environment(self) -> dict[str, str]:
        """KUBECONFIG of this cluster, its binaries in front of the PATH."""
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
        """The kubectl and helm that are built here, where the machine has none."""
        return "" if shutil.which("kubectl") else f'; eval "$({self._program} env)"'

    @contextmanager
    def reach(self, service: str, env: dict[str, str]) -> Generator[tuple[str, str]]:
        """The Service's cluster address: the host routes it."""
        address = subprocess.run(
            ["kubectl", "get", "service", service, "-o", "jsonpath={.spec.clusterIP}"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        _wait_for_route(address, HTTP_PORT)
        yield f"{address}:{HTTP_PORT}", f"{address}:{GRPC_PORT}"

    def remove(self) -> None:
        """Stop the cluster; nothing of it stays."""
        with self._progress.step("Removing the cluster"):
            self._progress.run("down", [sys.executable, self._program, "down", "--purge"])

    def _step(
        self, name: str, title: str, usual: str, words: Sequence[str], downloads: str = ""
    ) -> None:
        with self._progress.step(title, usual):
            self._progress.run(name, [sys.executable, self._program, *words], downloads=downloads)

    def _build(self, image: Image) -> None:
        # a half-written archive must never look like a finished one
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


class DockerBuild:
    """What kind and the current context share: images by docker, Services by port-forward."""

    def __init__(self, root: Path, state: Path, progress: Progress) -> None:
        self._root = root
        self._state = state
        self._progress = progress

    def _build(self, image: Image, reference: str) -> None:
        with self._progress.step(f"Building the {image.name} image", "2 min"):
            self._progress.run(
                f"image-{image.name}",
                [
                    "docker",
                    "build",
                    "--file",
                    self._root / image.name / "Dockerfile",
                    "--tag",
                    reference,
                    self._root,
                ],
            )

    @contextmanager
    def reach(self, service: str, env: dict[str, str]) -> Generator[tuple[str, str]]:
        """Two local ports forwarded to the Service."""
        with ExitStack() as stack:
            yield (
                stack.enter_context(_forward(service, HTTP_PORT, env)),
                stack.enter_context(_forward(service, GRPC_PORT, env)),
            )

    def path_hint(self) -> str:
        """The user's own kubectl does."""
        return ""


class Kind(DockerBuild):
    """A kind cluster of the demo's own name."""

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Cluster and images side by side, then load."""
        self._state.mkdir(parents=True, exist_ok=True)
        tasks.add("up", self._up)
        for image in wanted:
            tasks.add(image.name, lambda image=image: self._build(image, image.reference))
            tasks.add(
                f"load-{image.name}",
                lambda image=image: self._load(image),
                after=["up", image.name],
            )

    def repository(self, image: Image) -> str:
        """As built; the images are imported."""
        return image.repository

    def environment(self) -> dict[str, str]:
        """KUBECONFIG of the kind cluster."""
        return {**os.environ, "KUBECONFIG": self.kubeconfig()}

    def kubeconfig(self) -> str:
        """A file of the demo's own; kind would else edit the user's."""
        return str(self._state / "kubeconfig")

    def remove(self) -> None:
        """Delete the kind cluster."""
        with self._progress.step("Removing the kind cluster"):
            self._progress.run(
                "kind",
                [
                    "kind",
                    "delete",
                    "cluster",
                    "--name",
                    KIND_CLUSTER,
                    "--kubeconfig",
                    self.kubeconfig(),
                ],
            )

    def _up(self) -> None:
        existing = self._progress.run("kind", ["kind", "get", "clusters"]).splitlines()
        if KIND_CLUSTER in existing:
            self._progress.run(
                "kind",
                [
                    "kind",
                    "export",
                    "kubeconfig",
                    "--name",
                    KIND_CLUSTER,
                    "--kubeconfig",
                    self.kubeconfig(),
                ],
            )
            return
        with self._progress.step("Creating a kind cluster", "1 min"):
            self._progress.run(
                "kind",
                [
                    "kind",
                    "create",
                    "cluster",
                    "--name",
                    KIND_CLUSTER,
                    "--wait",
                    "2m",
                    "--kubeconfig",
                    self.kubeconfig(),
                ],
            )

    def _load(self, image: Image) -> None:
        with self._progress.step(f"Loading the {image.name} image", "20 s"):
            self._progress.run(
                f"load-{image.name}",
                [
                    "kind",
                    "load",
                    "docker-image",
                    image.reference,
                    "--name",
                    KIND_CLUSTER,
                ],
            )


class CurrentContext(DockerBuild):
    """The cluster that the user named; images travel by the registry that IMAGE_PREFIX names."""

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Build and push; the cluster is there already."""
        self._state.mkdir(parents=True, exist_ok=True)
        for image in wanted:
            reference = f"{self.repository(image)}:{image.tag}"
            tasks.add(
                image.name,
                lambda image=image, reference=reference: self._push(image, reference),
            )

    def repository(self, image: Image) -> str:
        """Below the registry path that the user names.

        Raises:
            DemoError: IMAGE_PREFIX is not set.
        """
        prefix = os.environ.get("IMAGE_PREFIX", "")
        if not prefix:
            raise DemoError(
                "CLUSTER=current needs IMAGE_PREFIX, a registry path that you may push to and the "
                "cluster may pull from, for example IMAGE_PREFIX=registry.example.com/team"
            )
        return f"{prefix}/{image.name}"

    def environment(self) -> dict[str, str]:
        """The user's own environment."""
        return dict(os.environ)

    def kubeconfig(self) -> str:
        """The user's own kubeconfig, which is read and never written."""
        return os.environ.get("KUBECONFIG", str(Path.home() / ".kube" / "config"))

    def remove(self) -> None:
        """Uninstall the chart and the example; the cluster stays."""
        with self._progress.step("Uninstalling from the current context"):
            for command in (
                [
                    "kubectl",
                    "delete",
                    "inferencemodels,configmaps",
                    "digits",
                    "--ignore-not-found",
                ],
                ["helm", "uninstall", "moorage", "--namespace", RELEASE_NAMESPACE, "--wait"],
                ["kubectl", "delete", "namespace", RELEASE_NAMESPACE, "--ignore-not-found"],
            ):
                self._progress.run("uninstall", command)

    def _push(self, image: Image, reference: str) -> None:
        self._build(image, reference)
        with self._progress.step(f"Pushing the {image.name} image", "30 s"):
            self._progress.run(f"push-{image.name}", ["docker", "push", reference])


def _wait_for_route(address: str, port: int) -> None:
    """The node's rules follow a ready pod within moments, as for every Service.

    Raises:
        DemoError: The address refuses for longer than that.
    """
    deadline = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            socket.create_connection((address, port), 1).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise DemoError(f"{address}:{port} is not reachable: {error}") from error
            time.sleep(0.1)
        else:
            return


@contextmanager
def _forward(service: str, port: int, env: dict[str, str]) -> Generator[str]:
    """A kubectl port-forward on a free local port, for as long as the context is open."""
    process = subprocess.Popen(
        ["kubectl", "port-forward", f"service/{service}", f":{port}"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
        if not found:
            raise DemoError(f"kubectl port-forward service/{service} {port} said: {line.strip()}")
        yield f"127.0.0.1:{found.group(1)}"
    finally:
        process.terminate()
        process.wait()
