"""Traffic on six models while everything below them fails: `python tests/chaos/run.py [--help]`.

The chart is installed as users do it, with values-ha.yaml, on the local cluster. Failed requests
are held against what Kubernetes promises (explain.py); those that nothing explains fail the run.
"""

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "localcluster")]

from chaos.explain import (
    Failure,
    Happened,
    Span,
    Window,
    behind,
    explanation,
    outdated,
    restarts_explained,
    windows_of,
)
from chaos.models import MODELS
from chaos.node import Node
from chaos.schedule import PARTS, Fault, Step, schedule
from chaos.watching import AWAY, NAMESPACE, SYSTEM, Watching, serves
from support.manifests import digits_files
from support.testbed.api import Api, Object, Refused, endpoint_of, until

READY_SECONDS = 300.0
BEFORE_SECONDS = 30.0
CHART = ROOT / "charts" / "moorage"
CHILDREN = ("Deployment", "Service")


class Chaos:
    """One run on a cluster with the chart.

    Attributes:
        happened: Every fault that was carried out.
        skipped: How many could not be, since the API server was away or there was no such pod.
        wrong: What was wrong at the end.
    """

    def __init__(self, api: Api, node: Node) -> None:
        self.happened: list[Happened] = []
        self.skipped = 0
        self.wrong: list[str] = []
        self.watching = Watching(api)
        self._api = api
        self._node = node
        self._edits = dict.fromkeys(MODELS, 0)

    async def play(self, steps: list[Step], seconds: float) -> None:
        """Make the models, take things away under traffic, and wait until all serve again."""
        await self._begin()
        self.watching = Watching(self._api)
        async with self.watching.running():
            async with asyncio.TaskGroup() as group:
                for step in steps:
                    await self._wait_until(step.at)
                    print(step, flush=True)
                    await self.watching.look_at_pods()
                    group.create_task(self._carry_out(step))
                await self._wait_until(seconds)
            await asyncio.to_thread(self._node.mend)
            await self._end()

    async def _begin(self) -> None:
        await self._api.make_namespace(NAMESPACE)
        await self._api.apply(NAMESPACE, digits_files())
        for model in MODELS.values():
            await self._api.apply(NAMESPACE, model.manifest(0))
        await self._all_serve()

    async def _all_serve(self) -> None:
        for name in MODELS:

            async def holds(name: str = name) -> bool:
                with contextlib.suppress(*AWAY):
                    return serves(await self._api.get("InferenceModel", NAMESPACE, name))
                return False

            await until(holds, READY_SECONDS, f"{name} is Ready and UpToDate", 0.5)

    async def _end(self) -> None:
        try:
            await self._all_serve()
        except TimeoutError as error:
            self.wrong.append(str(error))
        await self.watching.look_at_pods()
        for model in MODELS.values():
            owner = await self._api.get("InferenceModel", NAMESPACE, model.name)
            kinds = (*CHILDREN, *(["PodDisruptionBudget"] if model.replicas > 1 else []))
            for kind in kinds:
                children = await self._api.list(kind, NAMESPACE, f"moorage.dev/model={model.name}")
                owners = [each["metadata"].get("ownerReferences") or [] for each in children]
                uids = {each["uid"] for some in owners for each in some}
                if uids != {owner["metadata"]["uid"]} or not all(owners):
                    self.wrong.append(f"each {kind} of {model.name}: owned by {owners}")

    async def _wait_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self.watching.now()))

    async def _carry_out(self, step: Step) -> None:
        began = self.watching.now()
        pod = await self._take_away(step)
        if pod is None:
            self.skipped += 1
            return
        ended = self.watching.now()
        self.happened.append(Happened(step.fault, Span(began, ended), step.model, pod))

    async def _take_away(self, step: Step) -> str | None:
        """Carry out a step to its end; the pod's name, or None where it was not possible."""
        if step.fault in PARTS:
            self._node.kill(PARTS[step.fault])
            await asyncio.sleep(step.lasts)
            await asyncio.to_thread(self._node.mend)
            return ""
        if step.fault is Fault.EDIT:
            self._edits[step.model] += 1
            manifest = MODELS[step.model].manifest(self._edits[step.model])
            try:
                await self._api.apply(NAMESPACE, manifest)
            except AWAY:
                return None
            return ""
        if (pod := await self._victim(step)) is None:
            return None
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        done = True
        match step.fault:
            case Fault.OPERATOR_DELETED | Fault.POD_DELETED:
                try:
                    await self._api.delete("Pod", pod["metadata"]["namespace"], name)
                except AWAY:
                    done = False
            case Fault.OPERATOR_CUT:
                done = await asyncio.to_thread(self._node.cut, pod)
                await asyncio.sleep(step.lasts if done else 0)
                await asyncio.to_thread(self._node.reconnect, uid)
            case _:
                done = await asyncio.to_thread(self._node.kill_containers, pod)
        return name if done else None

    async def _victim(self, step: Step) -> Object | None:
        """The pod that a step is about."""
        if step.model:
            pods = [
                pod
                for pod in self.watching.pods[NAMESPACE]
                if pod["metadata"].get("labels", {}).get("moorage.dev/model") == step.model
            ]
        else:
            pods = self.watching.pods[SYSTEM]
        pods = sorted(
            (pod for pod in pods if "deletionTimestamp" not in pod["metadata"]),
            key=lambda pod: pod["metadata"]["name"],
        )
        if step.fault is Fault.LEADER_KILLED:
            holder = ""
            with contextlib.suppress(*AWAY):
                lease = await self._api.get("Lease", SYSTEM, "moorage-operator")
                holder = lease["spec"].get("holderIdentity", "")
            pods = [pod for pod in pods if holder.startswith(f"{pod['metadata']['name']}_")]
        return pods[int(step.pick * len(pods))] if pods else None

    def report(self) -> int:
        """Print what happened; the number of things that must not be."""
        seen, end = self.watching, self.watching.now()
        windows = {
            name: windows_of(model, self.happened, seen.ready[name], end)
            + behind(seen.offered[name], seen.routed[name], end)
            + outdated(seen.offered[name], seen.alive[name], end)
            for name, model in MODELS.items()
        }
        bad = list(self.wrong)
        print(f"requests: {seen.requests.total()} ({dict(seen.requests)})")
        bad += _explained("failed requests", "unexplained", seen.failures, windows)
        self._tell_around(windows)
        print(f"Ready=True checked: {seen.checks}")
        bad += _explained("Ready=True without an answer", "false Ready", seen.claims, windows)
        restarts = {key: count for key, count in seen.restarts.items() if count}
        for (namespace, pod, container), count in restarts.items():
            allowed = restarts_explained(pod, self.happened, operator=namespace == SYSTEM)
            print(f"restarts: {count} of {namespace}/{pod}, {allowed} explained at most")
            if count > allowed:
                bad.append(f"container {container} of {pod} restarted {count} times")
        for fault, count in sorted(Counter(each.fault for each in self.happened).items()):
            print(f"{fault}: {count}")
        print(f"{len(self.happened)} faults, {self.skipped} skipped, {end:.0f} s")
        for each in bad[:40]:
            print(f"FAILED {each}")
        print(f"{len(bad)} failed")
        return len(bad)

    def _tell_around(self, windows: dict[str, list[Window]]) -> None:
        """Print what happened around the failures that nothing explains."""
        for name in MODELS:
            spans = [
                Span(each.span.began - BEFORE_SECONDS, each.span.ended + 1)
                for each in self.watching.failures
                if each.model == name and not explanation(each, windows[name])
            ]
            if spans:
                whole = Span(spans[0].began, max(each.ended for each in spans))
                print(f"around the failures of {name}:")
                print(*self.watching.changes_of(name, whole), sep="\n")


def _explained(
    what: str, name: str, failures: list[Failure], windows: dict[str, list[Window]]
) -> list[str]:
    """Print failures by their explanation; one line for each that has none."""
    told = [(each, explanation(each, windows[each.model])) for each in failures]
    classes = Counter(why or name for _, why in told)
    print(f"{what}: {len(failures)} ({dict(classes)})")
    return [
        f"{name}: {each.model} at {each.span.began:.1f} to {each.span.ended:.1f} s: {each.said}"
        for each, why in told
        if not why
    ]


def install() -> dict[str, str]:
    """The chart as users install it, with two operators; the environment of kubectl and helm."""
    demo = [sys.executable, ROOT / "demo" / "demo.py", "install"]
    subprocess.run(demo, check=True, env={**os.environ, "CLUSTER": "local"})
    script = f'eval "$({ROOT / "localcluster" / "cluster"} env)" && env -0'
    text = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    env = dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
    helm(env, "-f", str(CHART / "values-ha.yaml"))
    return env


def helm(env: dict[str, str], *values: str) -> None:
    """Upgrade the release; other values stay."""
    command = ["helm", "upgrade", "moorage", CHART, "--namespace", SYSTEM, "--reuse-values"]
    subprocess.run([*command, *values, "--wait", "--timeout", "3m"], env=env, check=True)


async def run(env: dict[str, str], seed: str, seconds: float) -> int:
    """The number of things that must not be."""
    steps = schedule(seed, seconds, list(MODELS))
    async with Api(endpoint_of(Path(env["KUBECONFIG"]))) as api:
        node = Node()
        chaos = Chaos(api, node)
        try:
            await chaos.play(steps, seconds)
        finally:
            for pod in chaos.watching.pods[SYSTEM]:
                node.reconnect(pod["metadata"]["uid"])
            node.mend()
            await _delete_namespace(api)
        return chaos.report()


async def _delete_namespace(api: Api) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}"

    async def is_gone() -> bool:
        try:
            await api.call("GET", path)
        except Refused as refused:
            return refused.code == 404
        return False

    with contextlib.suppress(Refused):
        await api.call("DELETE", path)
    await until(is_gone, READY_SECONDS, f"namespace {NAMESPACE} is deleted", 0.5)


def main() -> int:
    """The exit status: 0 where every failure is explained and every status was honest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", default="", help="which schedule; a random one where empty")
    parser.add_argument("--show", action="store_true", help="print the schedule and end")
    options = parser.parse_args()
    seed = options.seed or f"{random.SystemRandom().getrandbits(32):08x}"
    print(f"seed {seed}, {options.seconds:g} s", flush=True)
    if options.show:
        print(*schedule(seed, options.seconds, list(MODELS)), sep="\n")
        return 0
    if os.geteuid() != 0:
        print("chaos: faults of the node need root", file=sys.stderr)
        return 2
    began = time.monotonic()
    env = install()
    try:
        failed = asyncio.run(run(env, seed, options.seconds))
    finally:
        helm(env, "--set", "replicas=1")
        if not os.environ.get("KEEP_CLUSTER"):
            demo = [sys.executable, ROOT / "demo" / "demo.py", "down"]
            subprocess.run(demo, check=True)
    print(f"seed {seed}, {time.monotonic() - began:.0f} s in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
