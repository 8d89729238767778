"""Everything around the operator: API server, Deployment controller, fake nodes, answering pods.

::

    etcd, kube-apiserver <- kube-controller-manager (Deployments, ReplicaSets)
          ^      ^--------- kwok (nodes and pods of objects.POD_RANGE)
          |                 answers (every pod's address is loopback here)
    this process: makes objects, watches when what appears

Runs inside the namespaces of `isolation`, with whose end all of it ends.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moorage_benchmarks.programs import ROOT, BenchmarkError, kubectl, run
from moorage_benchmarks.scale import isolation, objects, rights
from moorage_benchmarks.scale.operator_process import OperatorProcess
from moorage_benchmarks.scale.sightings import Existence, Models, Pods
from moorage_operator.kube import auth, errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.kinds import Kind
from moorage_operator.kube.reflector import Reflector

STAGES = Path(__file__).with_name("stages.yaml")
NODES = Kind("", "v1", "nodes", frozenset({"create"}))
NAMESPACES = Kind("", "v1", "namespaces", frozenset({"create"}))
ALL_PODS = Kind("", "v1", "pods", frozenset({"create"}))
CONTROLLERS = "deployment-controller,replicaset-controller"
PARALLEL = 32
PROGRESS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class World:
    """What the cases work with; the kubeconfig is the administrator's, with a token."""

    kubeconfig: Path
    client: KubeClient
    operator: OperatorProcess
    deployments: Existence
    services: Existence
    models: Models
    pods: Pods

    async def create(self, kind: Kind, bodies: Iterable[dict[str, Any]]) -> float:
        """Create objects, many at a time; the seconds that it took."""
        began = time.monotonic()
        waiting = iter(bodies)

        async def work() -> None:
            for body in waiting:
                await self.client.create(kind, body)

        await asyncio.gather(*(work() for _ in range(PARALLEL)))
        return time.monotonic() - began

    async def report_pod(self, make: Callable[[str], dict[str, Any]]) -> None:
        """Write a pod's status as its kubelet would; `make` takes the time as a timestamp."""
        await self.client.apply(kinds.POD_STATUS, make(_now()), field_manager="kubelet")


@contextlib.asynccontextmanager
async def world(folder: Path, program: Path) -> AsyncGenerator[World]:
    """The world, running, with the operator's program in it and nothing to do.

    Raises:
        BenchmarkError: A program is missing or does not start.
    """
    isolation.open_network(objects.POD_RANGE)
    with contextlib.ExitStack() as stack:
        admin = _control_plane(folder / "plane")
        operators, own = rights.make_kubeconfigs(admin, folder)
        stack.enter_context(_program(_controllers(admin), folder))
        stack.enter_context(_program(_kwok(admin), folder))
        answers = [sys.executable, "-m", "moorage_benchmarks.scale.answers", str(objects.PORT)]
        stack.enter_context(_program(answers, folder))
        async with KubeClient(auth.from_kubeconfig([own])) as client:
            while not await client.serves(kinds.INFERENCE_MODELS):  # noqa: ASYNC110 -- the API server tells nobody
                await asyncio.sleep(0.1)
            await _furnish(client)
            operator = OperatorProcess(program, operators, folder / "operator.log")
            seen = (Existence(), Existence(), Models(), Pods())
            made = World(own, client, operator, *seen)
            watches = _watch(made)
            await operator.start()
            try:
                yield made
            finally:
                await operator.stop()
                for task in watches:
                    task.cancel()


async def until(what: str, holds: Callable[[], bool], seconds: float) -> float:
    """Wait; how long it took.

    Raises:
        BenchmarkError: It does not hold in time.
    """
    began = told = time.monotonic()
    while not holds():
        now = time.monotonic()
        if now - began > seconds:
            raise BenchmarkError(f"timeout after {seconds:.0f} s, waiting for: {what}")
        if now - told > PROGRESS_SECONDS:
            print(f"  {now - began:.0f} s, waiting for: {what}", file=sys.stderr, flush=True)
            told = now
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def at_rate(a_second: float, acts: Sequence[Callable[[], Awaitable[None]]]) -> float:
    """Do them at a steady rate without waiting for each other; the rate that came about."""
    began = time.monotonic()
    tasks: list[asyncio.Future[None]] = []
    for number, act in enumerate(acts):
        await asyncio.sleep(max(0.0, began + number / a_second - time.monotonic()))
        tasks.append(asyncio.ensure_future(act()))
    spent = time.monotonic() - began
    await asyncio.gather(*tasks)
    return len(acts) / spent


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _control_plane(folder: Path) -> Path:
    program = str(ROOT / "localcluster" / "cluster")
    run([sys.executable, program, "control-plane", "up", "--dir", str(folder)])
    kubeconfig = folder / "kubeconfig"
    kubectl(kubeconfig, "apply", "-f", str(ROOT / "crds" / "inferencemodels.yaml"))
    return kubeconfig


def _controllers(kubeconfig: Path) -> list[str]:
    # The cluster's own process would be held back by its client's 20 requests a second.
    return [
        str(isolation.BINARIES / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={CONTROLLERS}",
        "--concurrent-deployment-syncs=20",
        "--concurrent-replicaset-syncs=20",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
    ]


def _kwok(kubeconfig: Path) -> list[str]:
    return [
        str(isolation.BINARIES / "kwok"),
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=0",
    ]


@contextlib.contextmanager
def _program(words: Sequence[str], folder: Path) -> Generator[None]:
    name = Path(words[0]).name
    with (folder / f"{name}.log").open("ab") as log:
        started = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        yield
    finally:
        started.terminate()
        started.wait()


async def _furnish(client: KubeClient) -> None:
    for name in objects.NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with contextlib.suppress(errors.Conflict):
            await _create_cluster_wide(client, NAMESPACES, namespace)
    for number in range(objects.NODES):
        await _create_cluster_wide(client, NODES, objects.node(number))


async def _create_cluster_wide(client: KubeClient, kind: Kind, body: dict[str, Any]) -> None:
    await client.create(kind, {**body, "metadata": {"namespace": "", **body["metadata"]}})


def _watch(made: World) -> list[asyncio.Task[None]]:
    fed = (
        (kinds.DEPLOYMENTS, made.deployments, ""),
        (kinds.SERVICES, made.services, objects.MODEL_LABEL),
        (kinds.INFERENCE_MODELS, made.models, ""),
        (kinds.PODS, made.pods, objects.MODEL_LABEL),
    )
    return [
        asyncio.create_task(
            Reflector(made.client, kind, sink, selector=selector, clock=time.monotonic).run()
        )
        for kind, sink, selector in fed
    ]
