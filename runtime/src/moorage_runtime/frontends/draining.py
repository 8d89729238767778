"""How long the ports stay open after a server has reported that it is not ready.

    signal -> not ready -> (this) -> ports closed -> running requests finish

A node or load balancer that is slow to follow still opens connections to a server that is about
to close its ports; they would be refused. So the ports stay open until clients stop connecting.
"""

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["until_clients_leave"]

_STEP_SECONDS: Final = 0.1
# A probe or a scrape once a second leaves pauses of this length.
_QUIET_STEPS: Final = 5


async def until_clients_leave(
    arrivals: Callable[[], int], least_seconds: float, most_seconds: float
) -> None:
    """Wait for the given time, and then until no client has connected for half a second.

    The time is counted in short sleeps. If the whole machine is paused, its routes do not change
    either, so a pause must not count.

    Args:
        arrivals: The number of connections that clients have opened so far.
        least_seconds: The time to wait if nobody connects.
        most_seconds: The longest wait, even if clients still connect.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + most_seconds
    known, steps, quiet = arrivals(), 0, 0
    while steps * _STEP_SECONDS < least_seconds or quiet < _QUIET_STEPS:
        if loop.time() >= end:
            return
        await asyncio.sleep(_STEP_SECONDS)
        steps += 1
        before, known = known, arrivals()
        quiet = quiet + 1 if known == before else 0
