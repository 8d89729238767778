"""Computes when a replica is polled next; pure.

    settling   2 % of the elapsed time, between 0.1 s and 1 s: fast enough for a model that becomes
               ready, cheap for one that loads for ten minutes. A server that times out is polled
               after 1, 2, 4 .. 15 s, and the replicas of one model at most 100 times per second
    stable     the user's interval, or longer if it would exceed the budget of polls; the kubelet's
               probes and the pod watch see changes earlier. A negative answer is confirmed after
               1, 2, 4 s instead of a whole interval
    failing    1, 2, 4 .. 60 s

A replica that is ready is stable, even if its model is not. Polls that are not urgent are aligned
to common times: a poll that wakes up the process costs three times as much as one that follows
another.
"""

import math
from dataclasses import dataclass

from moorage_operator.values.plan import PollPace

SETTLING_FRACTION = 0.02
SETTLING_FIRST_SECONDS = 0.1
SETTLING_LAST_SECONDS = 1.0
SETTLING_POLLS_A_SECOND = 100
"""The limit per model, so that a model with many replicas does not crowd out others."""

SILENT_FIRST_SECONDS = 1.0
SILENT_LAST_SECONDS = 15.0
FAILING_FIRST_SECONDS = 1.0
FAILING_LAST_SECONDS = 60.0

MOMENT_SECONDS = 0.25
CALM_SECONDS = 5.0
"""Polls that are at least this far away are aligned."""

DESCRIBE_SECONDS = 600.0
"""The interval of metadata queries. Metadata of a running container rarely changes; this finds
models that were reloaded."""

DESCRIBE_POLLS = 10
"""The smallest number of polls per metadata query, which costs as much as several polls."""

DESCRIBE_RETRY_SECONDS = 30.0
"""The delay before incomplete metadata is queried again."""

DESCRIBE_RETRIES = 3
"""The number of such retries, regardless of the budget. A busy server answers by then, and a
server without metadata does not cost more."""


@dataclass(frozen=True, slots=True)
class PollState:
    """The state of a replica that determines its next poll.

    Attributes:
        waited: Seconds since its last change.
        failures: Consecutive polls without a positive answer.
        silent: Consecutive polls that timed out.
        ready: Whether its last answer was positive.
        mates: The number of replicas of its model.
    """

    waited: float = 0.0
    failures: int = 0
    silent: int = 0
    ready: bool = False
    mates: int = 1


def delay_seconds(pace: PollPace, interval: float, state: PollState) -> float:
    """Return the seconds until the next poll, before jitter.

    After 20 s of settling: 0.4 s. After the third failure: 4 s.
    """
    if pace is PollPace.SETTLING:
        return interval if state.ready else _settling_seconds(state)
    again = _doubled(FAILING_FIRST_SECONDS, state.failures, FAILING_LAST_SECONDS)
    if pace is PollPace.FAILING:
        return again
    return min(interval, again) if state.failures else interval


def stretched_seconds(interval: float, replicas: int, polls_a_second: float) -> float:
    """Return the interval with which all replicas stay within the budget.

    With 20,000 replicas and 50 polls per second it is at least 400 s.
    """
    return max(interval, replicas / polls_a_second)


def due_at(now: float, delay: float) -> float:
    """Return when a poll is due after a delay, which includes jitter.

    At 1000.1 s, with a delay of 10 s: 1010.25 s; with a delay of 0.4 s: 1000.5 s.
    """
    due = now + delay
    return math.ceil(due / MOMENT_SECONDS) * MOMENT_SECONDS if delay >= CALM_SECONDS else due


def describe_seconds(undescribed: int, least_interval: float) -> float:
    """Return the seconds until the next metadata query.

    Args:
        undescribed: The number of consecutive incomplete answers.
        least_interval: The shortest poll interval within the budget.
    """
    if describes_soon(undescribed):
        return DESCRIBE_RETRY_SECONDS
    often = DESCRIBE_RETRY_SECONDS if undescribed else DESCRIBE_SECONDS
    return max(often, DESCRIBE_POLLS * least_interval)


def describes_soon(undescribed: int) -> bool:
    """Whether the next metadata query brings the next poll forward."""
    return 0 < undescribed <= DESCRIBE_RETRIES


def _settling_seconds(state: PollState) -> float:
    proportional = SETTLING_FRACTION * state.waited
    delay = min(max(proportional, SETTLING_FIRST_SECONDS), SETTLING_LAST_SECONDS)
    if state.silent:
        delay = _doubled(SILENT_FIRST_SECONDS, state.silent, SILENT_LAST_SECONDS)
    return max(delay, state.mates / SETTLING_POLLS_A_SECOND)


def _doubled(first: float, times: int, last: float) -> float:
    # 2**10 times the first delay exceeds the last one; the cap keeps the number small.
    return min(first * 2 ** min(max(times - 1, 0), 10), last)
