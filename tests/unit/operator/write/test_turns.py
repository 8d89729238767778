import asyncio

import pytest

from moorage_operator.write.turns import Turns


class Writes:
    """Writes of children, and the order in which they began."""

    def __init__(self, places: int) -> None:
        self.turns = Turns(places)
        self.began: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}

    def start(
        self, kind: str, name: str, namespace: str = "ns", *, is_new: bool = True
    ) -> asyncio.Task[None]:
        self.ends[name] = asyncio.Event()
        return asyncio.create_task(self._write(kind, name, namespace, is_new=is_new))

    async def _write(self, kind: str, name: str, namespace: str, *, is_new: bool) -> None:
        async with self.turns.turn(namespace, kind, is_new=is_new):
            self.began.append(name)
            await self.ends[name].wait()

    async def settle(self) -> list[str]:
        for _ in range(10):
            await asyncio.sleep(0)
        return self.began


async def test_deployments_are_created_after_services_and_network_policies_first() -> None:
    writes = Writes(1)
    writes.start("Service", "first")
    await writes.settle()
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
        writes.start(kind, name)
    await writes.settle()

    for name in ("first", *"abcdefg"):
        writes.ends[name].set()
        await writes.settle()

    assert writes.began == ["first", *"abcdefg"]


async def test_concurrent_writes_of_a_namespace_are_limited() -> None:
    writes = Writes(2)
    for name in "abc":
        writes.start("Service", name)

    assert await writes.settle() == ["a", "b"]
    writes.ends["a"].set()
    assert await writes.settle() == ["a", "b", "c"]


async def test_places_that_were_given_back_are_free_again() -> None:
    writes = Writes(2)
    for name in "ab":
        writes.start("Service", name)
        writes.ends[name].set()
    await writes.settle()

    for name in "cde":
        writes.start("Service", name)

    assert await writes.settle() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("who", ["b", "c"])
async def test_a_cancelled_write_passes_its_place_on(who: str) -> None:
    writes = Writes(1)
    waiting = {name: writes.start("Service", name) for name in "abcd"}
    await writes.settle()

    if who == "b":  # at the same time as it gets the place
        writes.ends["a"].set()
        await asyncio.sleep(0)
    waiting[who].cancel()
    for name in "abcd":
        writes.ends[name].set()
        await writes.settle()

    assert writes.began == [name for name in "abcd" if name != who]
    assert (writes.turns._free, writes.turns._held) == (2, {})


async def test_changes_come_before_creations_of_all_kinds() -> None:
    writes = Writes(1)
    writes.start("NetworkPolicy", "first")
    await writes.settle()
    writes.start("NetworkPolicy", "new")
    writes.start("Deployment", "changed", is_new=False)
    await writes.settle()

    writes.ends["first"].set()

    assert await writes.settle() == ["first", "changed"]


async def test_a_namespace_whose_writes_hang_leaves_places_for_others() -> None:
    writes = Writes(32)
    for number in range(100):
        writes.start("Service", f"hanging-{number}", "hanging")
    await writes.settle()
    assert len(writes.began) == 32

    for number in range(100):
        writes.start("Deployment", f"other-{number}", "other")
    await writes.settle()

    # As many places are free as the second namespace holds.
    assert len(writes.began) == 48
    writes.ends["other-0"].set()
    assert (await writes.settle())[-1] == "other-16"


async def test_a_place_is_left_if_many_namespaces_hang() -> None:
    writes = Writes(8)
    for number in range(14):
        writes.start("Service", f"hanging-{number}", f"hanging-{number}")
    await writes.settle()

    writes.start("Service", "a", "other")

    assert (await writes.settle())[-1] == "a"


async def test_namespaces_take_turns() -> None:
    writes = Writes(1)
    for name in ("first", "second"):
        writes.start("Service", name, name)
    await writes.settle()
    for name in ("a1", "a2", "b1"):
        writes.start("Service", name, name[0])
    await writes.settle()

    for name in ("first", "a1"):
        writes.ends[name].set()
        await writes.settle()

    assert writes.began == ["first", "second", "a1", "b1"]
