"""Sentences about the number of replicas, also where admission changed it."""

import pytest

from moorage_operator.decide.status.replica_counts import counted, size_sentence
from moorage_operator.values.objects import DeploymentObserved

CHANGED = 'admission changed spec.replicas of the Deployment "iris" from 3 to 5'


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 of 2 replicas"), (2, "2 of 2 replicas"), (3, "3 replicas (2 wanted)")],
)
def test_more_replicas_than_wanted_are_told_apart(count: int, text: str) -> None:
    assert counted(count, 2) == text


def test_what_replicas_do_comes_before_the_number_that_is_wanted() -> None:
    assert counted(1, 2, "run") == "1 of 2 replicas run"
    assert counted(3, 2, "run") == "3 replicas run (2 wanted)"


def deployment(size: int | None) -> DeploymentObserved:
    return DeploymentObserved("uid", 2, applied_hash="h", size=size)


@pytest.mark.parametrize(
    ("found", "hashes", "sentence"),
    [
        (deployment(5), ["other", "h"], CHANGED),
        (deployment(3), ["h"], ""),
        (deployment(None), ["h"], ""),  # somebody else's, which the operator undoes
        (deployment(5), ["other"], ""),  # an earlier plan wanted it
        (None, ["h"], ""),
    ],
)
def test_a_size_that_admission_changed_is_named(
    found: DeploymentObserved | None, hashes: list[str], sentence: str
) -> None:
    assert size_sentence(found, "iris", 3, hashes) == sentence
