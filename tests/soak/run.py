"""Operator and runtime under steady work for hours: `python tests/soak/run.py [--help]`.

The operator works on a real API server with its controllers, on pods of fake kubelets; the runtime
is a process of its own. Both are edited and asked all the time, and sampled; at the end, memory,
descriptors and threads must be flat.
"""

import argparse
import asyncio
import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "localcluster")]

import aiohttp

from soak.processes import sample_all
from soak.slopes import LIMITS, Sample, slopes
from support.digits_client import PROTOCOLS, Address, DigitsClient
from support.manifests import DIGITS, inference_model
from support.runtime import HOST, Runtime, serving
from support.testbed.api import Api
from support.testbed.honesty import Honesty
from support.testbed.kubelets import PULL_FAILS
from support.testbed.operators import Operator
from support.testbed.servers import Server
from support.testbed.world import World, world

NAMESPACE = "soak"
STEADY_MODELS = 6
EDIT_SECONDS = 10.0
REQUEST_PAUSE_SECONDS = 0.05
SETTLE_SECONDS = 120.0
HEALTH = {"periodSeconds": 1, "failureThreshold": 1, "pollIntervalSeconds": 1}
ROLLOUT = {"progressDeadlineSeconds": 10}


class Work:
    """What both programs were given to do.

    Attributes:
        done: How often each kind of work was done.
        failures: Wrong answers of the runtime, and everything else that must not be.
    """

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []

    async def edit_models(self, world: World) -> None:
        """Edit one model after the other, for ever; rollouts succeed, fail and are superseded."""
        for number in itertools.count():
            name = f"model-{number % STEADY_MODELS}"
            kind = ("image", "replicas", "missing image", "broken model", "churn")[number % 5]
            spec = {"replicas": 2} if kind == "replicas" else {}
            image = f"example/{PULL_FAILS if kind == 'missing image' else 'good'}:{number}"
            server = world.servers.broken if kind == "broken model" else world.servers.other
            if kind == "churn":
                if number % 2:
                    await world.api.delete("InferenceModel", NAMESPACE, "short-lived")
                else:
                    await apply(world.api, "short-lived", image, server)
            else:
                await apply(world.api, name, image, server, **spec)
            self.done[f"edit: {kind}"] += 1
            await asyncio.sleep(EDIT_SECONDS)

    async def edit_repository(self, repository: Path) -> None:
        """Replace the served model by itself, and let another come and go, for ever."""
        for number in itertools.count():
            replacement = repository.parent / "replacement.onnx"
            shutil.copy(DIGITS / "model.onnx", replacement)
            if number % 3 == 0:
                replacement.rename(repository / "digits" / "model.onnx")
            elif number % 3 == 1:
                (repository / "extra").mkdir()
                replacement.rename(repository / "extra" / "model.onnx")
            else:
                shutil.rmtree(repository / "extra")
            self.done["edit: repository"] += 1
            await asyncio.sleep(EDIT_SECONDS)

    async def ask(self, runtime: Runtime, *, keep: bool) -> None:
        """Ask the runtime over each protocol in turn, and now and then wrongly, for ever."""
        address = Address(HOST, runtime.http_port, runtime.grpc_port)
        async with DigitsClient(keep=keep) as client, aiohttp.ClientSession() as session:
            for number, protocol in enumerate(itertools.cycle(PROTOCOLS)):
                if said := await client.ask(protocol, "digits", address):
                    self.failures.append(f"{time.strftime('%H:%M:%S')} {protocol}: {said}")
                self.done[f"asked: {protocol}"] += 1
                if number % 10 == 0:
                    await self._ask_wrongly(session, f"http://{runtime.http}")
                await asyncio.sleep(REQUEST_PAUSE_SECONDS)

    async def _ask_wrongly(self, session: aiohttp.ClientSession, base: str) -> None:
        for path, body in (("digits", b"{"), ("absent", b"{}")):
            async with session.post(f"{base}/v2/models/{path}/infer", data=body) as answer:
                await answer.read()
                if answer.status not in {400, 404}:
                    self.failures.append(f"{path}: status {answer.status} to a wrong request")
            self.done["asked wrongly"] += 1


async def apply(api: Api, name: str, image: str, server: Server, **spec: object) -> None:
    """Write a whole model."""
    runtime = {"image": image, "ports": {"http": server.port}}
    body = inference_model(name, runtime=runtime, health=HEALTH, rollout=ROLLOUT, **spec)
    await api.apply(NAMESPACE, body)


async def soak(seconds: float) -> int:
    """The exit status; prints the report."""
    work = Work()
    with tempfile.TemporaryDirectory(prefix="moorage-soak-") as folder:
        repository = Path(folder) / "repository"
        (repository / "digits").mkdir(parents=True)
        shutil.copy(DIGITS / "model.onnx", repository / "digits" / "model.onnx")
        with serving(repository, "--poll-seconds=1") as runtime:
            async with world() as made:
                return await _soak(seconds, work, made, runtime, repository)


async def _soak(
    seconds: float, work: Work, world: World, runtime: Runtime, repository: Path
) -> int:
    await world.api.make_namespace(NAMESPACE)
    operator = Operator(world.kubeconfig, world.folder / "operator.log", "--namespaces", NAMESPACE)
    await operator.start()
    try:
        await operator.ready()
        for number in range(STEADY_MODELS):
            await apply(world.api, f"model-{number}", "example/good:0", world.servers.good)
        programs = {"operator": operator.pid, "runtime": runtime.process.pid}
        async with Honesty(world.api, NAMESPACE) as honesty, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work.edit_models(world)),
                group.create_task(work.edit_repository(repository)),
                group.create_task(work.ask(runtime, keep=True)),
                group.create_task(work.ask(runtime, keep=False)),
            ]
            samples = await sample_all(programs, seconds)
            for task in tasks:
                task.cancel()
        work.failures += [f"Ready=True without an answer: {lie}" for lie in honesty.lies]
        work.failures += [f"the operator's log: {line}" for line in operator.errors()]
        work.done["Ready=True checked"] = honesty.seen
        return _report(samples, work)
    finally:
        await operator.stop()


def _report(samples: dict[str, list[Sample]], work: Work) -> int:
    steep: list[str] = []
    for name, taken in samples.items():
        print(f"{name}: {len(taken)} samples in {taken[-1].at:.0f} s, growth per 10 minutes:")
        for slope in slopes(taken):
            unit = "MiB" if slope.figure in {"rss", "pss"} else ""
            print(
                f"  {slope.figure:12}{slope.per_period:+8.3f} ± {slope.error:.3f} {unit:3} "
                f"({slope.first:.1f} to {slope.last:.1f}, limit {LIMITS[slope.figure]:g})"
            )
            if not slope.is_flat:
                steep.append(f"{slope.figure} of the {name} grows")
    for kind, count in sorted(work.done.items()):
        print(f"{kind}: {count}")
    for failure in work.failures[:20]:
        print(f"FAILED {failure}")
    for each in steep:
        print(f"FAILED {each}")
    print(f"{len(work.failures)} failures, {len(steep)} figures that grow")
    return 1 if work.failures or steep else 0


def main() -> int:
    """The exit status: 0 where everything is flat and nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    return asyncio.run(soak(parser.parse_args().seconds))


if __name__ == "__main__":
    sys.exit(main())
