"""How long the ports stay open, with a clock that only the waiting moves."""

import pytest

from moorage_runtime.frontends import draining


class Clock:
    """Time that passes in sleeps, and clients that connect at certain times.

    Args:
        arrivals: When clients connect, in seconds from the start.
        stall: When the machine is paused, and for how many seconds.
    """

    def __init__(self, arrivals=(), stall=(0.0, 0.0)):
        self.now = 0.0
        self._arrivals = arrivals
        self._stall_at, self._stall_seconds = stall

    def time(self):
        return self.now

    async def sleep(self, seconds):
        before, self.now = self.now, self.now + seconds
        if before <= self._stall_at < self.now:
            self.now += self._stall_seconds

    def arrived(self):
        return sum(when <= self.now for when in self._arrivals)


def times(first, last, interval):
    return [first + interval * index for index in range(int((last - first) / interval) + 1)]


@pytest.fixture
def waited(monkeypatch):
    """The seconds that the ports stay open: at least 5, at most 15, in steps of 0.1 s."""

    def measure(clock, least=5.0, most=14.95):
        monkeypatch.setattr(draining.asyncio, "get_running_loop", lambda: clock)
        monkeypatch.setattr(draining.asyncio, "sleep", clock.sleep)
        waiting = draining.until_clients_leave(clock.arrived, least, most)
        with pytest.raises(StopIteration):
            waiting.send(None)
        monkeypatch.undo()
        return pytest.approx(clock.now, abs=0.01)

    return measure


def test_without_clients_the_ports_close_after_the_time_given(waited):
    assert waited(Clock()) == 5.0


def test_clients_that_left_in_time_do_not_delay_the_end(waited):
    assert waited(Clock(times(0.0, 4.0, 0.05))) == 5.0


def test_while_clients_connect_the_ports_stay_open(waited):
    assert waited(Clock(times(0.02, 6.97, 0.05))) == 7.5


def test_clients_that_never_leave_get_the_longest_time(waited):
    assert waited(Clock(times(0.0, 60.0, 0.05))) == 15.0


def test_a_probe_every_second_does_not_keep_the_ports_open(waited):
    assert waited(Clock(times(0.3, 60.0, 1.0))) == 5.0


def test_a_pause_of_the_machine_does_not_count(waited):
    assert waited(Clock(stall=(1.0, 6.0))) == 11.0


def test_a_long_pause_ends_at_the_longest_time(waited):
    assert waited(Clock(stall=(1.05, 60.0))) == 61.1


def test_a_short_time_lasts_until_half_a_second_without_clients(waited):
    assert waited(Clock(), least=0.1, most=2.0) == 0.5
    assert waited(Clock(), least=0.1, most=0.25) == 0.3
