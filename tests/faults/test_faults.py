"""A sample of `make faults`, which differs between commits and is fixed for one commit."""

import asyncio
import random
import subprocess
from pathlib import Path

import pytest

from faults.run import run
from faults.scenarios import SCENARIOS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS_SAMPLED = 4
RUNS = 24


def commit() -> str:
    """The seed of the sample, which changes with the commit."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "no commit"


def test_a_fault_affects_neither_the_end_state_nor_the_meaning_of_ready() -> None:
    seed = commit()
    names = [each.name for each in SCENARIOS]
    chosen = random.Random(seed).sample(names, SCENARIOS_SAMPLED)

    report = asyncio.run(run(chosen, RUNS, seed, at_once=6, only=""))

    print(report.summary())
    assert [f"{each.scenario}: {each.injection}" for each in report.failed] == []
    assert any(each.happened for each in report.outcomes), "no run came to its fault"
