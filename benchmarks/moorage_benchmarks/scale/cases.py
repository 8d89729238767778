"""What is measured, one function a case; each returns figures with the unit in their names.

The cases stand on each other's models: `grow` adds some, the others work on those that are there.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from moorage_benchmarks import figures
from moorage_benchmarks.scale import objects
from moorage_benchmarks.scale.operator_process import Usage
from moorage_benchmarks.scale.sightings import latencies
from moorage_benchmarks.scale.world import ALL_PODS, World, at_rate, until
from moorage_operator.kube import kinds

Figures = dict[str, Any]

REPLICAS = 2
READY_SECONDS = 1500.0
QUIET_SECONDS = 5.0
CRASHES_A_SECOND = 50
LARGE_REPLICAS = 500


async def grow(world: World, prefix: str, count: int, *, replicas: int = REPLICAS) -> Figures:
    """Create models, all at once, and wait until each is Ready."""
    models = [objects.model(f"{prefix}-{n}", replicas=replicas, number=n) for n in range(count)]
    before = await world.operator.usage()
    found = await until_ready(world, models)
    after = await world.operator.usage()
    return {
        **found,
        "operator_cpu_seconds": after.cpu - before.cpu,
        "api_requests_a_model": (after.requests - before.requests) / count,
        "api_writes_a_model": (after.writes - before.writes) / count,
        "api_requests_by_kind": after.requests_by_kind(before, count),
        "polls_a_model": (after.polls - before.polls) / count,
    }


async def until_ready(world: World, models: Sequence[objects.Body]) -> Figures:
    """Create these models, all at once, and wait until each is told to be Ready, by whomever."""
    names = [model["metadata"]["name"] for model in models]
    count = len(names)
    began = time.monotonic()
    accepted = await world.create(kinds.INFERENCE_MODELS, models)
    await until(
        f"{count} Deployments and Services exist",
        lambda: all(n in world.deployments.since and n in world.services.since for n in names),
        READY_SECONDS,
    )
    services = max(world.services.since[n] for n in names) - began
    exist = [max(world.deployments.since[n], world.services.since[n]) for n in names]
    await until(
        f"{count} models are Ready", lambda: world.models.ready.issuperset(names), READY_SECONDS
    )
    return {
        "models": count,
        "replicas": models[0]["spec"]["replicas"],
        "accepted_seconds": accepted,
        "services_exist_seconds": services,
        "children_exist_seconds": max(exist) - began,
        "children_exist_p50_seconds": figures.median(exist) - began,
        "all_ready_seconds": max(world.models.verdicts[n][-1].at for n in names) - began,
        **_spread("pods_ready_to_ready", ready_latencies(world, names)),
    }


def ready_latencies(world: World, names: Sequence[str]) -> list[float]:
    """Seconds from the last pod's readiness to the model's, for models that became Ready once."""
    found: list[float] = []
    for name in names:
        pods = world.pods.of_model[name]
        ready = [v.at for pod in pods for v in world.pods.verdicts[pod] if v.status == "True"]
        became = [v.at for v in world.models.verdicts[name] if v.status == "True"]
        found.append(became[0] - max(ready))
    return found


async def idle(world: World, seconds: float) -> Figures:
    """What the operator uses and does while nothing changes.

    Statuses, events and echoes of what went before are let drain first.

    Raises:
        TimeoutError: It does not come to rest.
    """
    before = await at_rest(world)
    await asyncio.sleep(seconds)
    after = await world.operator.usage()
    spent = after.at - before.at
    return {
        "seconds": spent,
        "rss_bytes": after.rss,
        "cpu_percent_of_a_core": 100 * (after.cpu - before.cpu) / spent,
        "polls_a_second": (after.polls - before.polls) / spent,
        "api_requests": after.requests - before.requests,
        "api_writes": after.writes - before.writes,
    }


async def restart(world: World, models: int) -> Figures:
    """End the operator and start it again; consistent is when each model was reconciled."""
    await world.operator.stop()
    began = await world.operator.start()
    usage = await world.operator.usage()
    while not _is_consistent(usage, models):
        if usage.at - began > READY_SECONDS:
            raise TimeoutError("the restarted operator does not come to rest")
        await asyncio.sleep(0.5)
        usage = await world.operator.usage()
    await asyncio.sleep(QUIET_SECONDS)
    settled = await world.operator.usage()
    return {
        "models": models,
        "consistent_seconds": usage.at - began,
        "operator_cpu_seconds": usage.cpu,
        "rss_bytes": settled.rss,
        "api_requests": settled.requests,
        "api_writes": settled.writes,
        "api_requests_by_kind": settled.requests_by_kind(),
    }


async def changes(world: World, names: Sequence[str], seconds: float, *, a_second: int) -> Figures:
    """Flip the readiness of one-replica models at a steady rate, and end with each Ready."""
    before = await world.operator.usage()
    found = await flips(world, names, seconds, a_second=a_second)
    after = await world.operator.usage()
    spent = 1000 * (after.cpu - before.cpu) / found["changes"]
    return {**found, "operator_cpu_milliseconds_a_change": spent}


async def flips(world: World, names: Sequence[str], seconds: float, *, a_second: int) -> Figures:
    """Flip pods' readiness, each back in the end; how long until the models' statuses said so."""
    began = time.monotonic()
    turns = {name: asyncio.Lock() for name in names}
    planned = [
        (names[number % len(names)], (number // len(names)) % 2 == 1)
        for number in range(int(seconds * a_second))
    ]
    acts = [
        partial(_flip_in_turn, world, name, turns[name], ready=ready) for name, ready in planned
    ]
    rate = await at_rate(a_second, acts)
    for name in (name for name, ready in dict(planned).items() if not ready):
        await _flip(world, name, ready=True)
    await until("all are Ready", lambda: world.models.ready.issuperset(names), READY_SECONDS)
    found: list[float] = []
    missed = 0
    for name in names:
        for pod in world.pods.of_model[name]:
            times, passed = latencies(world.pods.verdicts[pod], world.models.verdicts[name], began)
            found += times
            missed += passed
    return {
        "changes": len(acts),
        "changes_a_second": rate,
        "coalesced": missed,
        **_spread("change_to_status", found),
    }


async def crashes(world: World, names: Sequence[str]) -> Figures:
    """End each model's container; how long until the status says so."""
    began = time.monotonic()
    await at_rate(CRASHES_A_SECOND, [partial(_crash, world, name) for name in names])
    await until(
        "every crash is in a status",
        lambda: all(_told(world, name, began) for name in names),
        READY_SECONDS,
    )
    found = [
        _told(world, name, began)[0] - world.pods.verdicts[pod][-1].at
        for name in names
        for pod in world.pods.of_model[name]
    ]
    return {"crashes": len(names), **_spread("crash_to_reason", found)}


async def beside_a_large_one(world: World, small: int) -> Figures:
    """Small models become Ready, first by themselves, then beside one with many replicas."""
    alone = await grow(world, "alone", small)
    names = ["large"]
    large = objects.model("large", replicas=LARGE_REPLICAS, number=0)
    before = await world.operator.usage()
    await world.create(kinds.INFERENCE_MODELS, [large])
    beside = await grow(world, "beside", small)
    await until("the large model is Ready", lambda: "large" in world.models.ready, READY_SECONDS)
    after = await world.operator.usage()
    return {
        "small_models": small,
        "large_replicas": LARGE_REPLICAS,
        "alone": {key: value for key, value in alone.items() if "ready" in key},
        "beside": {key: value for key, value in beside.items() if "ready" in key},
        "operator_cpu_seconds": after.cpu - before.cpu,
        "large_ready_seconds": ready_latencies(world, names)[0],
    }


async def beside_hung_ones(world: World, hung: Sequence[str], small: int) -> Figures:
    """Models become Ready while the servers of others accept and never answer."""
    for name in hung:
        for pod in world.pods.of_model[name]:
            await _ail(world.pods.bodies[pod]["status"]["podIP"])
    # The kubelet's probes fail too, so the operator asks each at once and again and again.
    await at_rate(CRASHES_A_SECOND, [partial(_flip, world, name, ready=False) for name in hung])
    beside = await grow(world, "well", small)
    return {
        "hung_models": len(hung),
        "small_models": small,
        "beside": {key: value for key, value in beside.items() if "ready" in key},
    }


async def bystanders(world: World, count: int, seconds: float) -> Figures:
    """What pods that are nobody's cost the operator, coming and being there."""
    before = await idle(world, seconds)
    was = await world.operator.usage()
    spent = await world.create(ALL_PODS, (objects.bystander(n) for n in range(count)))
    now = await world.operator.usage()
    return {
        "pods": count,
        "before": before,
        "while_made_cpu_percent_of_a_core": 100 * (now.cpu - was.cpu) / spent,
        "after": await idle(world, seconds),
    }


async def at_rest(world: World) -> Usage:
    """What the operator had used when no pass had begun and nothing was written for a while.

    Raises:
        TimeoutError: It does not come to rest.
    """
    began = time.monotonic()
    before = await world.operator.usage()
    while time.monotonic() - began < READY_SECONDS:
        await asyncio.sleep(QUIET_SECONDS)
        usage = await world.operator.usage()
        if (usage.passes, usage.writes) == (before.passes, before.writes):
            return usage
        before = usage
    raise TimeoutError("the operator does not come to rest")


async def _flip(world: World, name: str, *, ready: bool) -> None:
    for pod in world.pods.of_model[name]:
        body = world.pods.bodies[pod]
        await world.report_pod(lambda now, b=body: objects.pod_readiness(b, ready=ready, now=now))


async def _flip_in_turn(world: World, name: str, turn: asyncio.Lock, *, ready: bool) -> None:
    """Flip once the model's flip before is through: a kubelet does not overtake itself either."""
    async with turn:
        await _flip(world, name, ready=ready)


async def _crash(world: World, name: str) -> None:
    for pod in world.pods.of_model[name]:
        body = world.pods.bodies[pod]
        await world.report_pod(lambda now, b=body: objects.pod_crash(b, now))


async def _ail(address: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", objects.PORT)
    writer.write(f"PUT /silent/{address} HTTP/1.1\r\nHost: answers\r\n\r\n".encode())
    await reader.readline()
    writer.close()


def _is_consistent(usage: Usage, models: int) -> bool:
    return (
        usage.passes >= models
        and usage.total("moorage_queue_depth") == 0
        and usage.total("moorage_models") == models
    )


def _told(world: World, name: str, since: float) -> list[float]:
    return [
        verdict.at
        for verdict in world.models.verdicts[name]
        if verdict.at >= since and verdict.reason == "CrashLoopBackOff"
    ]


def _spread(name: str, seconds: Sequence[float]) -> Figures:
    return {
        f"{name}_p50_seconds": figures.median(seconds),
        f"{name}_p99_seconds": figures.percentile(seconds, 99),
        f"{name}_max_seconds": max(seconds),
    }
