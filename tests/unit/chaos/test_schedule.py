"""Schedules of faults."""

import itertools

import pytest

from chaos.schedule import OF_MODELS, PARTS, Fault, schedule

MODELS = ["one", "two"]
SEEDS = [str(number) for number in range(20)]


def test_a_seed_always_makes_the_same_schedule():
    assert schedule("7", 600, MODELS) == schedule("7", 600, MODELS)
    assert schedule("7", 600, MODELS) != schedule("8", 600, MODELS)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_fault_happens_within_ten_minutes(seed):
    steps = schedule(seed, 600, MODELS)

    assert {step.fault for step in steps} == set(Fault)
    assert all(step.at < 600 for step in steps)
    assert {step.model for step in steps if step.fault in OF_MODELS} == set(MODELS)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_part_of_the_node_is_away_at_a_time(seed):
    parts = [step for step in schedule(seed, 600, MODELS) if step.fault in PARTS]

    for before, after in itertools.pairwise(parts):
        assert after.at > before.at + before.lasts


def test_a_step_reads_as_one_line():
    step = next(each for each in schedule("7", 600, MODELS) if each.fault is Fault.EDIT)

    assert str(step).endswith(f"s  model edited: {step.model}")
