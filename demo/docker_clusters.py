"""Clusters whose images a Docker engine builds: one made by kind, and the current context's.

Target -> docker build -> kind load, or docker push -> kubectl port-forward
"""

import os
import re
import subprocess
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from choice import DemoError
from clusters import GRPC_PORT, HTTP_PORT
from images import LOCAL_REGISTRY, Image, build_arguments
from progress import Progress, Tasks

KIND_CLUSTER = "moorage-demo"
RELEASE_NAMESPACE = "moorage-system"


class DockerBuild:
    """Shared by kind and the current context: docker builds, and kubectl port-forward."""

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
                    *build_arguments(image.name, image.extras),
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
        """The user's own kubectl is sufficient."""
        return ""


class Kind(DockerBuild):
    """A kind cluster of the demo's own name."""

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Start the cluster and build the images in parallel, then load them."""
        self._state.mkdir(parents=True, exist_ok=True)
        tasks.add("up", self._up)
        for image in wanted:
            tasks.add(image.name, lambda image=image: self._build(image, image.reference))
            tasks.add(
                f"load-{image.name}",
                lambda image=image: self._load(image),
                after=["up", image.name],
            )

    def registry(self) -> str:
        """The registry in the names of the built images, which are imported."""
        return LOCAL_REGISTRY

    def environment(self) -> dict[str, str]:
        """KUBECONFIG of the kind cluster."""
        return {**os.environ, "KUBECONFIG": self.kubeconfig()}

    def kubeconfig(self) -> str:
        """A separate file, because kind would otherwise edit the user's."""
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
    """The cluster of the current context; IMAGE_PREFIX names the registry for its images."""

    def prepare(self, tasks: Tasks, wanted: Sequence[Image]) -> None:
        """Build and push the images; the cluster already exists."""
        self._state.mkdir(parents=True, exist_ok=True)
        for image in wanted:
            reference = f"{self.registry()}/moorage-{image.name}:{image.tag}"
            tasks.add(
                image.name,
                lambda image=image, reference=reference: self._push(image, reference),
            )

    def registry(self) -> str:
        """The registry path in IMAGE_PREFIX.

        Raises:
            DemoError: IMAGE_PREFIX is not set.
        """
        prefix = os.environ.get("IMAGE_PREFIX", "")
        if not prefix:
            raise DemoError(
                "CLUSTER=current needs IMAGE_PREFIX, a registry path that you can push to and the "
                "cluster can pull from, such as IMAGE_PREFIX=registry.example.com/team"
            )
        return prefix

    def environment(self) -> dict[str, str]:
        """The user's own environment."""
        return dict(os.environ)

    def kubeconfig(self) -> str:
        """The user's own kubeconfig, which is never written."""
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


@contextmanager
def _forward(service: str, port: int, env: dict[str, str]) -> Generator[str]:
    """A kubectl port-forward on a free local port while the context is open."""
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
            raise DemoError(
                f"kubectl port-forward service/{service} {port} failed: {line.strip()}"
            )
        yield f"127.0.0.1:{found.group(1)}"
    finally:
        process.terminate()
        process.wait()
