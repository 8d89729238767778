"""A fixed sample of `make transitions`, and the coverage of the generator."""

import asyncio
import random

import pytest

from transitions.play import Story
from transitions.run import replay, run
from transitions.steps import BASE, RUNTIMES, Generator
from transitions.values import FIXED, RUNTIME_CRD, properties, spec_schema

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SEED = "fixed"
TRANSITIONS = 200


def test_every_property_of_the_schema_is_written_and_removed() -> None:
    generator = Generator("coverage")
    steps = generator.sequence(20_000)
    written = {tuple(step["path"]) for step in steps if step["do"] == "set"}
    removed = {tuple(step["path"]) for step in steps if step["do"] == "remove"}

    everything = {path for path, _ in properties(spec_schema())} - FIXED

    assert everything - written == set()
    assert everything - removed == set()


def test_every_field_of_a_runtime_is_part_of_one() -> None:
    written = {name for each in RUNTIMES.values() for name in each}

    every = set(spec_schema(RUNTIME_CRD)["properties"])

    assert every - written == {"image", "default"}


def test_a_seed_always_yields_the_same_steps() -> None:
    seed = str(random.random())

    assert Generator(seed).sequence(50) == Generator(seed).sequence(50)


def test_random_transitions_end_where_a_fresh_model_ends() -> None:
    report = asyncio.run(run(SEED, TRANSITIONS, at_once=8, shrink=False))

    print(report.summary(SEED))
    assert report.operator_errors == []
    assert [(name, failures) for name, _, failures in report.failed] == []
    assert report.total.transitions >= TRANSITIONS


def test_a_rollout_that_is_resized_by_hand_ends_with_recreate() -> None:
    # The Deployment controller then has pods of two ReplicaSets and another size than theirs.
    steps = [{"do": "image", "value": "nobody"}, {"do": "hold"}]
    last = {**BASE, "$image": "latest", "rollout": {"strategy": "Recreate"}}

    assert asyncio.run(replay(str(Story(steps, last)))) == 0
