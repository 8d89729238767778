from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.batching.policy import RunCost, Trials, obstacle, suits, take
from moorage_runtime.tensors import Datatype, TensorSpec

ALL = frozenset[str]()
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
        # one that does not fit is not overtaken by a smaller one
        ([Item("a", 5), Item("a", 5), Item("a", 1)], 8, [0]),
        # but it may be the first
        ([Item("a", 100), Item("a", 1)], 8, [0]),
    ],
)
def test_what_runs_next(items, max_rows, expected):
    assert take(items, max_rows) == expected


@given(waiting, st.integers(1, 12))
def test_the_first_runs_next_with_others_of_its_key_and_within_the_limit(items, max_rows):
    places = take(items, max_rows)

    assert places[0] == 0
    assert places == sorted(set(places))
    assert {items[place].key for place in places} == {items[0].key}
    assert len(places) == 1 or sum(items[place].rows for place in places) <= max_rows


@given(waiting, st.integers(1, 12))
def test_everything_runs_and_like_requests_in_their_order(items, max_rows):
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
        ((1, 4), "input 'x' has shape [1, 4], expected -1 as the first dimension"),
        ((), "input 'x' has shape [], expected -1 as the first dimension"),
    ],
)
def test_a_batch_has_to_be_variable(shape, expected):
    assert obstacle([TensorSpec("x", Datatype.FP32, shape)], [BATCH]) == expected


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ([BATCH], [BATCH], True),
        ([BATCH], [TensorSpec("y", Datatype.FP32, (3, 4))], False),
        ([BATCH], [TensorSpec("y", Datatype.FP32, ())], False),
        # one variable dimension may as well be a length
        ([TensorSpec("x", Datatype.FP32, (-1,))], [BATCH], False),
        ([TensorSpec("x", Datatype.BYTES, (-1, 1))], [BATCH], False),
        ([], [], False),
    ],
)
def test_merging_is_tried_unasked_where_batches_of_numbers_lead(inputs, outputs, expected):
    assert suits(inputs, outputs) is expected


def test_some_merged_runs_are_trials_and_the_others_are_believed():
    trials = Trials(is_tried=True)

    due = 0
    while trials.is_due(ALL):
        due += 1
        trials.agreed(ALL)

    assert due == 3
    assert trials.may_merge(ALL)


def test_each_set_of_outputs_has_trials_of_its_own():
    trials = Trials(is_tried=True)
    for _ in range(3):
        trials.agreed(ALL)

    assert trials.is_due(frozenset({"y"}))


def test_sets_of_outputs_beyond_some_are_not_merged():
    trials = Trials(is_tried=True)
    for number in range(32):
        trials.agreed(frozenset({str(number)}))

    assert trials.may_merge(frozenset({"0"}))
    assert not trials.may_merge(frozenset({"more"}))


def test_a_refuted_model_is_never_merged():
    trials = Trials(is_tried=True)
    trials.agreed(ALL)

    trials.refute()

    assert trials.is_refuted
    assert not trials.may_merge(ALL)


def test_a_model_that_is_known_to_be_row_wise_has_no_trials():
    trials = Trials(is_tried=False)

    assert not trials.is_due(ALL)
    assert trials.may_merge(ALL)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], True),
        # without runs of different sizes nothing is known
        ([(1, 1.0)] * 50, True),
        # the documented example: 5 ms and 1 ms a row
        ([(1, 6e-3), (5, 10e-3)] * 2, True),
        ([(1, 1e-3), (8, 8e-3)] * 2, False),
        # one row of 10 ms in ten rows of 91 ms: a tenth is not worth it
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


def test_what_was_learned_of_merged_runs_fades():
    cost = RunCost()
    for rows, seconds in [(1, 1e-3), (8, 8e-3)] * 10:
        cost.record(rows, seconds)
    assert not cost.pays()

    for _ in range(500):
        cost.record(1, 1e-3)

    assert cost.pays()
