"""Slots are shared so that no tenant can take all of them."""

import random
from collections import Counter

import pytest

from moorage_operator.probe.schedule.fair_slots import FairSlots, Turn
from moorage_operator.values.observed import ObjectKey


def turn(namespace: str, name: str = "one", uid: str = "pod", *, silent: bool = False) -> Turn:
    return Turn(ObjectKey(namespace, name), uid, silent)


def taken(slots: FairSlots) -> list[Turn]:
    found: list[Turn] = []
    while each := slots.take():
        found.append(each)
    return found


@pytest.mark.parametrize(("namespaces", "most"), [(1, 512), (10, 94), (100, 11)])
def test_a_namespace_holds_at_most_as_many_slots_as_are_free(namespaces: int, most: int) -> None:
    slots = FairSlots(1024, starting=1 << 20)
    for number in range(2000):
        for namespace in range(namespaces):
            slots.put(turn(f"n{namespace}", f"m{number}"))

    held = Counter(each.key.namespace for each in taken(slots))

    assert len(held) == namespaces
    assert max(held.values()) <= most
    assert min(held.values()) >= most - 2
    slots.put(turn("good"))
    assert taken(slots)[0].key.namespace == "good"


def test_a_model_holds_at_most_half_as_many_slots_as_are_free() -> None:
    slots = FairSlots(90, starting=1 << 20)
    for number in range(100):
        slots.put(turn("n", "greedy", str(number)))

    assert len(taken(slots)) == 30
    slots.put(turn("n", "good"))
    assert [each.key.name for each in taken(slots)] == ["good"]


def test_silent_replicas_leave_slots_to_others_of_their_namespace() -> None:
    slots = FairSlots(90, starting=1 << 20)
    for number in range(100):
        slots.put(turn("n", f"m{number}", silent=True))

    assert len(taken(slots)) == 30
    slots.put(turn("n", "good"))
    assert [each.key.name for each in taken(slots)] == ["good"]


def test_slots_are_assigned_round_robin() -> None:
    slots = FairSlots(1024, starting=1024)
    for uid in "ab":
        for name in ("one", "two"):
            slots.put(turn("n", name, uid))
    slots.put(turn("other"))

    found = [(each.key.namespace, each.key.name, each.uid) for each in taken(slots)]

    assert found == [
        ("n", "one", "a"),
        ("other", "one", "pod"),
        ("n", "two", "a"),
        ("n", "one", "b"),
        ("n", "two", "b"),
    ]


def test_a_started_turn_releases_its_starting_slot() -> None:
    slots = FairSlots(1024, starting=4)
    for number in range(10):
        slots.put(turn("n", f"m{number}"))
    first = taken(slots)
    assert len(first) == 2

    for each in first:
        slots.started(each)

    assert len(taken(slots)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_all_slots_are_returned(seed: int) -> None:
    numbers = random.Random(seed)
    slots = FairSlots(16, starting=8)
    held: list[Turn] = []
    for number in range(2000):
        silent = numbers.random() < 0.3
        slots.put(turn(f"n{number % 3}", f"m{number % 7}", silent=silent))
        while each := slots.take():
            held.append(each)
            assert len(held) < 16
        numbers.shuffle(held)
        if held and numbers.random() < 0.5:
            slots.started(held[-1])
        if held:
            slots.give(held.pop())
    while held or slots:
        while each := slots.take():
            held.append(each)
        slots.give(held.pop())

    assert (slots._all._free, slots._starting._free) == (16, 8)
    assert not slots._all._held
    assert not slots._begun
