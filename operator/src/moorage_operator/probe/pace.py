"""How long until a replica is asked again, and when that is; pure.

    settling   2 % of the time that has been waited, within 0.1 s and 1 s: near enough to follow
               a model that becomes ready, cheap for one that loads for ten minutes; a server that
               lets questions time out is asked after 1, 2, 4 .. 15 s, and the replicas of one
               model together at most 100 times a second
    stable     the user's interval, or longer where more replicas serve than the budget of polls
               can ask within it; the kubelet's probes and the pod watch see changes first; an
               answer that is not yes is confirmed after 1, 2, 4 s, and not an interval later
    failing    1, 2, 4 .. 60 s

A replica that has said yes is stable, whatever its model still waits for. Polls that have time
are asked at common moments: one that a process wakes up for costs three times as much as one that
follows another.
"""

import math
from dataclasses import dataclass

from moorage_operator.planned import PollPace

SETTLING_FRACTION = 0.02
SETTLING_FIRST_SECONDS = 0.1
SETTLING_LAST_SECONDS = 1.0
SETTLING_POLLS_A_SECOND = 100
"""Of one model: a hundred times as many replicas must not crowd out the other models."""

SILENT_FIRST_SECONDS = 1.0
SILENT_LAST_SECONDS = 15.0
FAILING_FIRST_SECONDS = 1.0
FAILING_LAST_SECONDS = 60.0

MOMENT_SECONDS = 0.25
CALM_SECONDS = 5.0
"""Polls that are as far away have time to wait for the next moment."""

DESCRIBE_SECONDS = 600.0
"""Metadata of a running container hardly changes; this finds a model that was reloaded."""

DESCRIBE_POLLS = 10
"""Metadata costs as much as several polls, so it is asked for at most in one of so many."""

DESCRIBE_RETRY_SECONDS = 30.0
"""Until a server that left something open is asked for its metadata again."""

DESCRIBE_RETRIES = 3
"""So often it is asked that soon, however many replicas share the budget: a server that was too
busy in a crowd tells everything by then, and one without metadata costs no more than that."""

USUAL_WEIGHT = 1 / 16


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a replica when its next poll is planned.

    Attributes:
        waited: Seconds since something last happened to it.
        failures: Polls in a row that were not answered with yes.
        silent: Polls in a row that timed out.
        ready: Whether its last answer was yes.
        mates: Replicas of its model, itself included.
    """

    waited: float = 0.0
    failures: int = 0
    silent: int = 0
    ready: bool = False
    mates: int = 1


def delay_seconds(pace: PollPace, interval: float, standing: Standing) -> float:
    """Seconds until the next poll, before jitter.

    After 20 s of settling: 0.4 s. After the third failure: 4 s.
    """
    if pace is PollPace.SETTLING:
        return interval if standing.ready else _settling_seconds(standing)
    again = _doubled(FAILING_FIRST_SECONDS, standing.failures, FAILING_LAST_SECONDS)
    if pace is PollPace.FAILING:
        return again
    return min(interval, again) if standing.failures else interval


def stretched_seconds(interval: float, replicas: int, polls_a_second: float) -> float:
    """The interval at which so many replicas stay within the budget.

    20,000 replicas and 50 polls a second: 400 s, whatever shorter interval was wished.
    """
    return max(interval, replicas / polls_a_second)


def due_at(now: float, delay: float) -> float:
    """When a poll is due that is to come after so many seconds, jitter included.

    At 1000.1 s, after 10 s: 1010.25 s; after 0.4 s: 1000.5 s.
    """
    due = now + delay
    return math.ceil(due / MOMENT_SECONDS) * MOMENT_SECONDS if delay >= CALM_SECONDS else due


def describe_seconds(undescribed: int, least_interval: float) -> float:
    """Seconds until the metadata is asked for again.

    Args:
        undescribed: So many answers in a row have left something open.
        least_interval: At which the budget lets each replica be asked.
    """
    if describes_soon(undescribed):
        return DESCRIBE_RETRY_SECONDS
    often = DESCRIBE_RETRY_SECONDS if undescribed else DESCRIBE_SECONDS
    return max(often, DESCRIBE_POLLS * least_interval)


def describes_soon(undescribed: int) -> bool:
    """Whether the next poll is to come no later than the next question for the metadata."""
    return 0 < undescribed <= DESCRIBE_RETRIES


def _settling_seconds(standing: Standing) -> float:
    proportional = SETTLING_FRACTION * standing.waited
    delay = min(max(proportional, SETTLING_FIRST_SECONDS), SETTLING_LAST_SECONDS)
    if standing.silent:
        delay = _doubled(SILENT_FIRST_SECONDS, standing.silent, SILENT_LAST_SECONDS)
    return max(delay, standing.mates / SETTLING_POLLS_A_SECOND)


def _doubled(first: float, times: int, last: float) -> float:
    # 2**10 times the first is beyond the last already; the cap keeps the number small.
    return min(first * 2 ** min(max(times - 1, 0), 10), last)


class Usual:
    """How long an answer takes nowadays: a moving average over some dozen of them.

    Attributes:
        seconds: The average; 0 before the first.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def took(self, seconds: float) -> None:
        """One more answer came after so long."""
        self.seconds += (seconds - self.seconds) * USUAL_WEIGHT
