"""When a watch counts as broken, with a simulated clock."""

import pytest

from moorage_operator.kube.liveness import BROKEN_SECONDS, FAILING_SECONDS, Liveness


class Clock:
    def __init__(self) -> None:
        self.at = 50.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def liveness(clock: Clock) -> Liveness:
    return Liveness("pods", "team-a", clock)


def test_a_watch_that_answers_reconnects_is_never_broken(clock: Clock, liveness: Liveness) -> None:
    for _ in range(60):
        clock.at += BROKEN_SECONDS - 1
        liveness.beat()

    assert liveness.trouble() == ""


def test_a_watch_without_a_sign_of_life_is_broken_after_two_minutes(
    clock: Clock, liveness: Liveness
) -> None:
    clock.at += BROKEN_SECONDS
    assert liveness.trouble() == ""

    clock.at += 1

    trouble = liveness.trouble()
    assert "pods in namespace team-a" in trouble
    assert "121 s: the API server sends nothing" in trouble


def test_a_watch_whose_requests_fail_is_broken_sooner_and_names_the_last_cause(
    clock: Clock, liveness: Liveness
) -> None:
    liveness.fail("connection refused")
    clock.at += FAILING_SECONDS + 1
    liveness.fail("connection reset")

    assert "connection reset" in liveness.trouble()
    assert liveness.failure == "connection reset"
    liveness.beat()
    assert liveness.trouble() == ""
    assert liveness.failure == ""


def test_a_watch_of_all_namespaces_names_none(clock: Clock) -> None:
    liveness = Liveness("nodes", "", clock)
    assert liveness.failure == ""

    clock.at += BROKEN_SECONDS + 1

    assert liveness.trouble().startswith("the watch of nodes has been broken for 121 s: ")


def test_a_refusal_counts_from_the_first_one_until_another_result(
    clock: Clock, liveness: Liveness
) -> None:
    liveness.fail("forbidden", refused=True)
    clock.at += 3
    liveness.fail("forbidden", refused=True)
    assert liveness.refused_seconds() == 3

    liveness.fail("connection refused")
    assert liveness.refused_seconds() == 0
    liveness.fail("forbidden", refused=True)
    liveness.beat()
    clock.at += 3
    assert liveness.refused_seconds() == 0
