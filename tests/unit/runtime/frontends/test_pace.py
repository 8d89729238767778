import pytest

from moorage_runtime.frontends.pace import Pace


@pytest.mark.parametrize(
    ("now", "received", "is_slow"),
    [(10.0, 0, False), (10.1, 99, True), (10.1, 100, False), (60.0, 0, True)],
)
def test_a_period_must_bring_its_share(now, received, is_slow):
    assert Pace(10.0, 10, now=0.0).is_too_slow(now, received) is is_slow


def test_a_quick_start_does_not_excuse_a_stall():
    pace = Pace(10.0, 10, now=0.0)

    assert not pace.is_too_slow(10.1, 1_000_000)
    assert not pace.is_too_slow(20.0, 1_000_000)
    assert pace.is_too_slow(20.2, 1_000_000)


def test_a_restart_begins_a_period():
    pace = Pace(10.0, 10, now=0.0)

    pace.restart(9.0, 500)

    assert not pace.is_too_slow(18.9, 500)
    assert pace.is_too_slow(19.1, 599)
