from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.execution.batching.policy import RunCost, obstacle, take
from moorage_runtime.values.tensors import Datatype, TensorSpec

BATCH = TensorSpec("x", Datatype.FP32, (-1, 4))


@dataclass
class Item:
    key: str | None
    rows: int = 1


waiting = st.lists(
    st.builds(Item, st.sampled_from(["a", "b", None]), st.integers(1, 5)), min_size=1, max_size=20
)


@pytest.mark.parametrize(
    ("items", "max_rows", "expected"),
    [
        ([Item("a")], 8, [0]),
        ([Item("a"), Item("a"), Item("a")], 8, [0, 1, 2]),
        ([Item("a"), Item("a"), Item("a")], 2, [0, 1]),
        ([Item("a"), Item("b"), Item("a")], 8, [0, 2]),
        ([Item("a"), Item(None), Item("a")], 8, [0, 2]),
        ([Item(None), Item(None)], 8, [0]),
        # a smaller request does not overtake one that does not fit
        ([Item("a", 5), Item("a", 5), Item("a", 1)], 8, [0]),
        # but it may be the first
        ([Item("a", 100), Item("a", 1)], 8, [0]),
    ],
)
def test_the_next_run_is_selected_from_the_queue(items, max_rows, expected):
    assert take(items, max_rows) == expected


@given(waiting, st.integers(1, 12))
def test_the_first_runs_next_with_others_of_its_key_and_within_the_limit(items, max_rows):
    places = take(items, max_rows)

    assert places[0] == 0
    assert places == sorted(set(places))
    assert {items[place].key for place in places} == {items[0].key}
    assert len(places) == 1 or sum(items[place].rows for place in places) <= max_rows


@given(waiting, st.integers(1, 12))
def test_every_request_runs_and_equal_keys_keep_their_order(items, max_rows):
    order: list[int] = []
    left = list(range(len(items)))
    while left:
        places = take([items[number] for number in left], max_rows)
        order += [left[place] for place in places]
        left = [number for place, number in enumerate(left) if place not in places]

    assert sorted(order) == list(range(len(items)))
    for key in ("a", "b"):
        like = [number for number in order if items[number].key == key]
        assert like == sorted(like)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((-1, 4), ""),
        ((-1,), ""),
        ((1, 4), "input 'x' has shape [1, 4]"),
        ((), "input 'x' has shape []"),
    ],
)
def test_a_batch_dimension_must_be_variable(shape, expected):
    found = obstacle([TensorSpec("x", Datatype.FP32, shape)], [BATCH])

    assert bool(found) is bool(expected)
    assert expected in found


@pytest.mark.parametrize("kind", ["input", "output"])
def test_the_tensor_that_prevents_merging_is_named(kind):
    fixed = TensorSpec("y", Datatype.FP32, (1, 4))
    inputs, outputs = ([BATCH, fixed], [BATCH]) if kind == "input" else ([BATCH], [BATCH, fixed])

    assert obstacle(inputs, outputs) == (
        f"{kind} 'y' has shape [1, 4]: its first dimension must be -1"
    )


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], True),
        # without runs of different sizes, nothing is known
        ([(1, 1.0)] * 50, True),
        ([(1, 1e-3), (2, 2e-3)], True),
        # a cost that the clock cannot measure says nothing either
        ([(1, 0.0), (8, 0.0)] * 2, True),
        # the documented example: 5 ms fixed and 1 ms per row
        ([(1, 6e-3), (5, 10e-3)] * 2, True),
        ([(1, 6e-3), (5, 10e-3)] * 100, True),
        ([(1, 1e-3), (8, 8e-3)] * 2, False),
        # one row in 10 ms, ten rows in 91 ms: saving a tenth is not worth it
        ([(1, 10e-3), (10, 91e-3)] * 2, False),
        ([(1, 1e-3), (8, 1e-3)] * 2, True),
        ([(1, 1e-3), (8, 50e-3)] * 2, False),
    ],
)
def test_merging_pays_where_a_run_costs_more_than_its_rows(runs, expected):
    cost = RunCost()
    for rows, seconds in runs:
        cost.record(rows, seconds)

    assert cost.pays() is expected


def test_old_runs_lose_their_weight():
    cost = RunCost()
    for rows, seconds in [(1, 1e-3), (8, 8e-3)] * 10:
        cost.record(rows, seconds)
    assert not cost.pays()

    for _ in range(500):
        cost.record(1, 1e-3)

    assert cost.pays()
