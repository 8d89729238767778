"""Asks an HTTP server at times that were drawn beforehand, whether it keeps up or not.

A closed loop waits for a slow answer before it asks again and so leaves out the requests that
would have waited behind it. Here a request has its time, and its latency counts from then, also
when no connection is free: a server that stops for 50 ms is seen by all that arrives meanwhile.
"""

import random
import time
from collections import deque
from collections.abc import Sequence

from moorage_benchmarks.http_load import PATIENCE_SECONDS, Connections, is_whole, receive
from moorage_benchmarks.programs import BenchmarkError

# The kernel's wait is counted in milliseconds; the rest of a pause is spent looking.
_TICK_SECONDS = 0.001


def schedule(rate: float, seconds: float, seed: int) -> Sequence[float]:
    """Seconds from the start at which requests arrive, with exponential pauses as between those of
    many clients that know nothing of each other. Pure.

    Args:
        rate: Requests a second, on average.
        seconds: The last arrives before then.
        seed: The same seed gives the same pauses, scaled by the rate.

    Raises:
        ValueError: The rate is not positive.
    """
    if rate <= 0:
        raise ValueError(f"rate is {rate}, and it must be more than 0")
    draw = random.Random(seed)
    times: list[float] = []
    at = draw.expovariate(rate)
    while at < seconds:
        times.append(at)
        at += draw.expovariate(rate)
    return times


class HttpArrivals(Connections):
    """Connections over which each request is sent at its own time."""

    def run(self, times: Sequence[float]) -> Sequence[float]:
        """The latencies in seconds, in the order of the answers, each from the request's time.

        Args:
            times: Seconds from now, in order.

        Raises:
            BenchmarkError: The server hung up, does not answer, or not with 200.
        """
        waiting = deque(times)
        free = list(self._sockets)
        under_way: dict[int, tuple[float, bytes]] = {}
        latencies: list[float] = []
        start = heard = time.monotonic()
        while waiting or under_way:
            now = time.monotonic()
            while waiting and free and start + waiting[0] <= now:
                heard = heard if under_way else now
                number = free.pop()
                under_way[number] = (start + waiting.popleft(), b"")
                self._sockets[number].sendall(next(self._requests))
            pause = start + waiting[0] - now if waiting and free else PATIENCE_SECONDS
            for number, _ in self._poll.poll(max(0.0, pause - _TICK_SECONDS)):
                arrived, part = under_way.pop(number)
                data = part + receive(self._sockets[number])
                heard = time.monotonic()
                if is_whole(data):
                    latencies.append(heard - arrived)
                    free.append(number)
                else:
                    under_way[number] = (arrived, data)
            if under_way and now - heard > PATIENCE_SECONDS:
                raise BenchmarkError(f"the server did not answer for {PATIENCE_SECONDS} s")
        return latencies
