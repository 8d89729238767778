"""Plays a sequence on the real API server and checks it with several oracles.

base spec --> steps --> last spec == fresh object of the last spec     (differential)
                    --> base spec == fresh object of the base spec     (recovery)
                    --> nothing is written any more                    (idle)
                    --> deleted: nothing is left                       (leftovers)
while paused: no child changes                                         (paused)
throughout: every Ready=True is answered by an inference               (honesty)
            the observed generation arrives and is never ahead         (observedGeneration)
"""

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from support.testbed.api import Object, Refused, until
from support.testbed.end_state import CHILDREN, differences, end_state
from support.testbed.honesty import Honesty
from support.testbed.world import World

from .steps import BASE, IMAGES, RUNTIMES, Spec, Step, follow

NAME = "iris"
TOKEN_SECRET = "iris-tokens"
SETTLED_SECONDS = 2.0
"""A model has settled after this time without changes."""

WAIT_SECONDS = 60.0
MISMATCH_SECONDS = 25.0
"""How long an edited model may take to reach the end state of a fresh one."""

IDLE_SECONDS = 4.0
"""Longer than the shortest poll interval, so that polls without changes are included."""

_numbers = itertools.count(1)


@dataclass
class Story:
    """Steps, and the spec that follows them."""

    steps: list[Step]
    last: Spec

    def __str__(self) -> str:
        return json.dumps({"steps": self.steps, "last": self.last})


@dataclass
class Verdict:
    """The result of a sequence: failures by oracle, and the amount of work."""

    failures: list[str] = field(default_factory=list)
    transitions: int = 0
    refused: int = 0
    ready_seen: int = 0


class Player:
    """Plays sequences, each in its own namespaces.

    Args:
        world: The environment of the sequences, served by one operator.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._api = world.api
        self._fresh: dict[str, asyncio.Task[Object]] = {}

    async def play(self, sequence: Story) -> Verdict:
        """Play a sequence in a new namespace."""
        verdict, namespace = Verdict(), f"seq-{next(_numbers)}"
        try:
            await self._play(sequence, verdict, namespace)
        except (TimeoutError, Refused, aiohttp.ClientError, RuntimeError) as error:
            verdict.failures.append(f"{type(error).__name__}: {error}")
        return verdict

    async def _play(self, sequence: Story, verdict: Verdict, namespace: str) -> None:
        await self._make_namespace(namespace)
        async with Honesty(self._api, namespace) as honesty:
            spec = BASE
            await self._write(namespace, spec)
            await self._settled(namespace)
            for step in sequence.steps:
                spec = await self._do(namespace, spec, step, verdict)
            # as in the namespace of a fresh model
            await self._renew_tokens(namespace, None)
            await self._write(namespace, sequence.last)
            verdict.transitions += 1
            await self._compare("differential", namespace, sequence.last, verdict)
            await self._write(namespace, BASE)
            verdict.transitions += 1
            await self._compare("recovery", namespace, BASE, verdict)
            await self._check_idle(namespace, verdict)
        verdict.ready_seen = honesty.seen
        verdict.failures += [f"honesty: {lie}" for lie in honesty.lies]
        verdict.failures += [f"observedGeneration: {each}" for each in honesty.ahead]
        await self._check_left_behind(namespace, verdict)

    # ------------------------------------------------------------------ steps

    async def _do(self, namespace: str, spec: Spec, step: Step, verdict: Verdict) -> Spec:
        verdict.transitions += 1
        match step["do"]:
            case "settle":
                await self._settled(namespace)
            case "tamper":
                await self._tamper(namespace, step)
            case "delete child":
                await self._delete_children(namespace, step["kind"])
            case "edit runtime":
                await self._write_runtime("moving", args=[f"--moved={next(_numbers) % 2}"])
            case "renew tokens":
                await self._renew_tokens(namespace, step["content"])
            case "hold":
                return await self._hold(namespace, spec, step, verdict)
            case "re-create":
                await self._api.delete("InferenceModel", namespace, NAME)
                await self._write(namespace, spec)
            case _:
                after = follow(spec, step)
                try:
                    await self._write(namespace, after)
                except Refused as refused:
                    if refused.code not in {400, 422} and "typed patch" not in str(refused):
                        raise
                    verdict.refused += 1
                    return spec
                return after
        return spec

    async def _delete_children(self, namespace: str, kind: str) -> None:
        for body in await self._api.list(kind, namespace):
            await self._api.delete(kind, namespace, body["metadata"]["name"])

    async def _renew_tokens(self, namespace: str, content: dict[str, str] | None) -> None:
        """Replace the Secret that `access` may name, without an edit of the model."""
        await self._api.delete("Secret", namespace, TOKEN_SECRET)
        if content is not None:
            metadata = {"name": TOKEN_SECRET}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            await self._api.apply(namespace, {**body, "stringData": content})

    async def write_runtimes(self) -> None:
        """Create the InferenceRuntimes that models may name."""
        for name in RUNTIMES:
            await self._write_runtime(name)

    async def _write_runtime(self, name: str, **parts: Any) -> None:
        body = {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceRuntime",
            "metadata": {"name": name},
            "spec": {**RUNTIMES[name], **parts},
        }
        await self._api.apply("", body)

    async def _hold(self, namespace: str, spec: Spec, step: Step, verdict: Verdict) -> Spec:
        """Pause the model and edit its Deployment, which nobody may repair."""
        held = follow(spec, step)
        try:
            await self._write(namespace, held)
        except Refused:
            verdict.refused += 1
            return spec
        await until(lambda: self._is_held(namespace), WAIT_SECONDS, "the status reports the pause")
        await self._tamper(namespace, {"kind": "Deployment", "patch": {"spec": {"replicas": 4}}})
        before = await self._children(namespace)
        await self._settled(namespace)
        after = await self._children(namespace)
        if before != after:
            changed = [
                f"{name}: {before.get(name)} became {after.get(name)}"
                for name in sorted({*before, *after})
                if before.get(name) != after.get(name)
            ]
            verdict.failures.append(f"paused: written despite the pause: {'; '.join(changed)}")
        return held

    async def _is_held(self, namespace: str) -> bool:
        model = await self._api.get("InferenceModel", namespace, NAME)
        status = model.get("status") or {}
        return status.get("observedGeneration") == model["metadata"]["generation"] and any(
            each["type"] == "Paused" for each in status.get("conditions") or []
        )

    async def _children(self, namespace: str) -> dict[str, Any]:
        """The uid and the spec of each child, without those of a deleted model of this name."""
        model = await self._api.get("InferenceModel", namespace, NAME)
        uid = model["metadata"]["uid"]
        return {
            f"{kind}/{body['metadata']['name']}": (body["metadata"]["uid"], body.get("spec"))
            for kind in CHILDREN
            for body in await self._api.list(kind, namespace)
            if uid in {owner["uid"] for owner in body["metadata"].get("ownerReferences") or []}
        }

    async def _write(self, namespace: str, spec: Spec) -> None:
        """Write the whole spec, as `kubectl apply --server-side` does."""
        image, server = IMAGES[spec["$image"]]
        found = getattr(self._world.servers, server) if server else None
        body_spec = {key: value for key, value in spec.items() if key != "$image"}
        written = body_spec.get("runtime")
        runtime = dict(written) if isinstance(written, dict) else {}
        ports = runtime.get("ports")
        ports = {**(ports if isinstance(ports, dict) else {}), "http": found.port if found else 9}
        body_spec["runtime"] = {**runtime, "image": image, "ports": ports}
        body = {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceModel",
            "metadata": {"name": NAME},
            "spec": body_spec,
        }
        await self._api.apply(namespace, body)

    async def _tamper(self, namespace: str, step: Step) -> None:
        for body in await self._api.list(step["kind"], namespace):
            name = body["metadata"]["name"]
            patch = json.loads(json.dumps(step["patch"]))
            spec = patch.get("spec") or {}
            pod = (spec.get("template") or {}).get("spec") or {}
            if image := pod.pop("$image", None):
                pod["containers"] = [
                    {**each, "image": image}
                    for each in body["spec"]["template"]["spec"]["containers"]
                ]
            if port := spec.pop("$port", None):
                first, *rest = body["spec"]["ports"]
                spec["ports"] = [{**first, "port": port}, *rest]
            try:
                await self._api.patch(step["kind"], namespace, name, patch)
            except Refused as refused:
                if refused.code not in {404, 409, 422}:
                    raise

    # ------------------------------------------------------------------ oracles

    async def _compare(self, oracle: str, namespace: str, spec: Spec, verdict: Verdict) -> None:
        expected = await self._fresh_state(spec)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MISMATCH_SECONDS
        while True:
            found = await self._state(namespace)
            different = differences(expected, found)
            if not different:
                return
            if loop.time() > deadline and await self._is_quiet(namespace):
                verdict.failures += [f"{oracle}: {each}" for each in different]
                return
            if loop.time() > deadline + WAIT_SECONDS:
                verdict.failures.append(f"{oracle}: never settles; now {different[:3]}")
                return
            await asyncio.sleep(0.3)

    async def _fresh_state(self, spec: Spec) -> Object:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._fresh:
            self._fresh[key] = asyncio.create_task(self._make_fresh(spec))
        return await self._fresh[key]

    async def _make_fresh(self, spec: Spec) -> Object:
        namespace = f"fresh-{next(_numbers)}"
        await self._make_namespace(namespace)
        await self._write(namespace, spec)
        await until(
            lambda: self._is_ready(namespace), WAIT_SECONDS, f"a fresh model serves: {spec}"
        )
        await self._settled(namespace)
        state = await self._state(namespace)
        await self._api.delete("InferenceModel", namespace, NAME)
        return state

    async def _check_idle(self, namespace: str, verdict: Verdict) -> None:
        # What was compared may be there before Kubernetes' own controllers have ended.
        await self._settled(namespace)
        before = await self._versions(namespace)
        await asyncio.sleep(IDLE_SECONDS)
        after = await self._versions(namespace)
        changed = [name for name in after if after[name] != before.get(name)]
        if changed:
            verdict.failures.append(f"idle: written although nothing happened: {changed}")

    async def _check_left_behind(self, namespace: str, verdict: Verdict) -> None:
        await self._api.delete("InferenceModel", namespace, NAME)

        async def gone() -> bool:
            left = await self._state(namespace)
            return set(left) == {"pods"} and not left["pods"]

        try:
            await until(gone, WAIT_SECONDS, "everything is gone")
        except TimeoutError:
            left = await self._state(namespace)
            verdict.failures.append(f"left behind: {sorted(left)} {left['pods']}")

    # ------------------------------------------------------------------ looks

    async def _make_namespace(self, namespace: str) -> None:
        await self._api.make_namespace(namespace)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "served"}}
        await self._api.create(namespace, account)

    async def _state(self, namespace: str) -> Object:
        return await end_state(self._api, namespace, self._world.optional)

    async def _is_ready(self, namespace: str) -> bool:
        model = await self._api.get("InferenceModel", namespace, NAME)
        status = model.get("status") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or []}
        is_described = "metadataHash" in (status.get("model") or {})
        return is_described and all(
            conditions.get(each, {}).get("status") == "True" for each in ("Ready", "UpToDate")
        )

    async def _settled(self, namespace: str) -> None:
        """Wait until nothing changes; a model that never settles is detected later."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_SECONDS
        while not await self._is_quiet(namespace) and loop.time() < deadline:
            pass

    async def _is_quiet(self, namespace: str) -> bool:
        before = await self._versions(namespace)
        await asyncio.sleep(SETTLED_SECONDS)
        return await self._versions(namespace) == before

    async def _versions(self, namespace: str) -> dict[str, str]:
        kinds = ("InferenceModel", "Deployment", "Service", "PodDisruptionBudget", "Pod")
        found: dict[str, Any] = {}
        for kind in kinds:
            for body in await self._api.list(kind, namespace):
                metadata = body["metadata"]
                found[f"{kind}/{metadata['name']}"] = metadata["resourceVersion"]
        return found
