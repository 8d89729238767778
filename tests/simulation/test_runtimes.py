"""An InferenceRuntime is edited while operators are killed: who restarts, and how many at once.

The seeds run in this process, so that a failure shows the history.
"""

import random
from typing import Any

import pytest

from moorage_operator.api.conditions import find_condition
from simulation.properties import write_model
from simulation.servers import SERVING
from simulation.stored import Write
from simulation.world import NAMESPACE, USER, World

MODELS = ("iris", "rose", "tulip", "violet")
RUNTIME = "server"
SETTLE_SECONDS = 600.0
SEEDS = 12

# In these, the runtime is edited again while models follow, or an operator restarts meanwhile.
LIMITED = (*range(SEEDS), 14, 16, 21, 23, 26, 39, 58, 59)


def spec(image: str, **parts: Any) -> dict[str, Any]:
    return {"image": image, "health": {"periodSeconds": 1, "failureThreshold": 1}, **parts}


def create_runtime(world: World, **parts: Any) -> None:
    body = {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceRuntime",
        "metadata": {"name": RUNTIME, "namespace": ""},
        "spec": spec(SERVING[0], **parts),
    }
    world.api.create("inferenceruntimes", body, USER)


def edit_runtime(world: World, image: str, **parts: Any) -> None:
    edited = spec(image, **parts)
    change = lambda body: body.update(spec=edited)  # noqa: E731 -- passed on
    world.api.edit("inferenceruntimes", ("", RUNTIME), change, USER)


def images(world: World) -> set[str]:
    deployments = world.api.all("deployments", NAMESPACE)
    return {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in deployments
        if each["spec"]["replicas"]
    }


def outdated(world: World) -> int:
    """The number of models that are not up to date, or that the operator has not seen."""
    models = world.api.all("inferencemodels", NAMESPACE)
    return sum(
        find_condition(each.get("status") or {}, "UpToDate").get("status") != "True"
        for each in models
    )


def pending(world: World) -> int:
    models = world.api.all("inferencemodels", NAMESPACE)
    return sum(
        bool(find_condition(each.get("status") or {}, "RuntimeUpdatePending")) for each in models
    )


def settle(world: World, is_settled: Any) -> None:
    deadline = world.loop.time() + SETTLE_SECONDS
    while not is_settled():
        assert world.loop.time() < deadline, "\n".join(world.history[-80:])
        world.run(1.0)


def started(seed: int, **parts: Any) -> World:
    """A world in which all models serve."""
    world = World(seed, has_runtimes=True)
    create_runtime(world, **parts)
    for name in MODELS:
        write_model(world, name, {"runtime": {"name": RUNTIME}, "replicas": 1})
    settle(world, lambda: outdated(world) == 0)
    assert images(world) == {SERVING[0]}
    return world


def disturb(world: World, chance: random.Random) -> None:
    """Run for a while, and perhaps kill the operator in between."""
    world.run(chance.choice((0.02, 0.3, 1.0, 3.0)) * (0.5 + chance.random()))
    if chance.random() < 0.6:
        world.kill(0, 0.2 + 2 * chance.random())


@pytest.mark.parametrize("seed", LIMITED)
def test_no_more_models_than_may_follow_an_edit_at_a_time(seed: int) -> None:
    chance = random.Random(f"runtimes {seed}")
    limit = chance.choice((1, 2))
    policy = {"updatePolicy": "Automatic", "maxConcurrentRollouts": limit}
    world = started(seed, **policy)
    most = [0]

    def follow(write: Write) -> None:
        if write.plural == "inferencemodels":
            most[0] = max(most[0], outdated(world))

    try:
        world.api.followers.append(follow)
        world.weather.requests = chance.choice((0.0, 0.05))
        for image in (SERVING[1], SERVING[0], SERVING[1]):
            edit_runtime(world, image, **policy)
            for _ in range(chance.randrange(1, 5)):
                disturb(world, chance)
        world.clear()
        settle(world, lambda: images(world) == {SERVING[1]} and not outdated(world))

        assert 0 < most[0] <= limit, "\n".join(world.history)
        settle(world, lambda: pending(world) == 0)
        (runtime,) = world.api.all("inferenceruntimes")
        counted = {"models": len(MODELS), "outdatedModels": 0}
        settle(world, lambda: counted.items() <= counts(world).items())
        assert runtime["metadata"]["name"] == RUNTIME
        assert world.troubles == []
    finally:
        world.close()


def counts(world: World) -> dict[str, Any]:
    (runtime,) = world.api.all("inferenceruntimes")
    return runtime.get("status") or {}


BROKEN = "example/bad:1"


def held(world: World) -> str:
    """The message of the condition UpdateHeld of the runtime, "" without it."""
    return str(find_condition(counts(world), "UpdateHeld").get("message", ""))


def servers_of(world: World) -> dict[str, str]:
    """The image that serves, by model."""
    return {
        each["metadata"]["labels"]["moorage.dev/model"]: each["spec"]["containers"][0]["image"]
        for each in world.api.all("pods", NAMESPACE)
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_broken_edit_stops_at_the_first_model_until_it_is_corrected_or_paused(seed: int) -> None:
    chance = random.Random(f"held {seed}")
    policy = {"updatePolicy": "Automatic"}
    world = started(seed, **policy)
    try:
        edit_runtime(world, BROKEN, **policy)
        settle(world, lambda: held(world))
        disturb(world, chance)
        world.run(120.0)

        (first,) = [name for name in MODELS if f"{NAMESPACE}/{name} failed" in held(world)]
        assert outdated(world) == 1
        assert pending(world) == len(MODELS) - 1
        assert set(servers_of(world).values()) == {SERVING[0]}
        for name in set(MODELS) - {first}:
            status = world.api.get("inferencemodels", (NAMESPACE, name))["status"]
            said = find_condition(status, "RuntimeUpdatePending")["message"]
            assert f"update held: model {NAMESPACE}/{first} failed with RolledBack" in said

        if seed % 2:
            edit_runtime(world, SERVING[1], **policy)
            settle(world, lambda: images(world) == {SERVING[1]} and not outdated(world))
        else:
            own = {"runtime": {"name": RUNTIME}, "replicas": 1, "paused": True}
            write_model(world, first, own)
            settle(world, lambda: held(world) and f"{NAMESPACE}/{first} " not in held(world))
            assert pending(world) == len(MODELS) - 2
            edit_runtime(world, SERVING[1], **policy)
            settle(world, lambda: pending(world) == 1 and outdated(world) == 1)
            write_model(world, first, {**own, "paused": False})
            settle(world, lambda: images(world) == {SERVING[1]} and not outdated(world))
        settle(world, lambda: not held(world))
        assert world.troubles == []
    finally:
        world.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_edited_or_deleted_runtime_restarts_nothing(seed: int) -> None:
    chance = random.Random(f"edits {seed}")
    world = started(seed)
    replaced: list[str] = []

    def follow(write: Write) -> None:
        if write.plural == "pods" and write.verb == "create":
            replaced.append(write.key[1])

    try:
        world.api.followers.append(follow)
        world.weather.requests = chance.choice((0.0, 0.05))
        for image in (SERVING[1], SERVING[2], SERVING[1]):
            edit_runtime(world, image)
            disturb(world, chance)
        if chance.random() < 0.5:
            world.api.delete("inferenceruntimes", ("", RUNTIME), {}, USER)
            disturb(world, chance)
        world.clear()
        settle(world, lambda: pending(world) == len(MODELS))
        world.run(60.0)

        assert replaced == [], "\n".join(world.history)
        assert images(world) == {SERVING[0]}
        assert outdated(world) == 0
        assert world.troubles == []
    finally:
        world.close()
