import asyncio

import pytest

from moorage_operator.write.turns import Turns


class Creations:
    """Creations of children, and the order in which they began."""

    def __init__(self, places: int) -> None:
        self.turns = Turns(places)
        self.began: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def start(self, kind: str, name: str) -> asyncio.Task[None]:
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._create(kind, name))

    async def _create(self, kind: str, name: str) -> None:
        async with self.turns.turn(kind):
            self.began.append(name)
            await self.ends[name].wait()

    async def settle(self) -> list[str]:
        for _ in range(10):
            await asyncio.sleep(0)
        return self.began


async def test_deployments_are_created_after_services_and_network_policies_first() -> None:
    creations = Creations(1)
    creations.start("Service", "first")
    await creations.settle()
    order = [
        ("Deployment", "e"),
        ("HorizontalPodAutoscaler", "f"),
        ("Service", "b"),
        ("PodDisruptionBudget", "c"),
        ("ScaledObject", "g"),
        ("HTTPRoute", "d"),
        ("NetworkPolicy", "a"),
    ]
    for kind, name in order:
        creations.start(kind, name)
    await creations.settle()

    for name in ("first", *"abcdefg"):
        creations.ends[name].set()
        await creations.settle()

    assert creations.began == ["first", *"abcdefg"]


async def test_concurrent_creations_are_limited() -> None:
    creations = Creations(2)
    for name in "abc":
        creations.start("Service", name)

    assert await creations.settle() == ["a", "b"]
    creations.ends["a"].set()
    assert await creations.settle() == ["a", "b", "c"]


async def test_places_that_were_given_back_are_free_again() -> None:
    creations = Creations(2)
    for name in "ab":
        creations.start("Service", name)
        creations.ends[name].set()
    await creations.settle()

    for name in "cde":
        creations.start("Service", name)

    assert await creations.settle() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("who", ["b", "c"])
async def test_a_cancelled_creation_passes_its_place_on(who: str) -> None:
    creations = Creations(1)
    waiting = {name: creations.start("Service", name) for name in "abcd"}
    await creations.settle()

    if who == "b":  # at the same time as it gets the place
        creations.ends["a"].set()
        await asyncio.sleep(0)
    waiting[who].cancel()
    for name in "abcd":
        creations.ends[name].set()
        await creations.settle()

    assert creations.began == [name for name in "abcd" if name != who]
    assert creations.turns._free == 1
