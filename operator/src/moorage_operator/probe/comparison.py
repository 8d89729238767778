"""A replica's answers and its target, compared with what was known and what is wanted; pure.

The poller goes by it: what is new is delivered, what is missing is asked for again, other smoke
tests are run.
"""

from dataclasses import replace

from moorage_operator.answers import ANSWERED, ProbeResult
from moorage_operator.planned import ProbeTarget

WITHOUT_SERVER_METADATA = frozenset({"TensorFlowServing"})
"""Protocols in which a server tells nothing of itself."""


def is_described(result: ProbeResult) -> bool:
    """Whether the server has told all metadata that its protocol has, and what shows that."""
    spoken = result.spoken
    if result.model is None or (spoken and spoken.evidence == ANSWERED):
        return False
    return bool(result.server or (spoken and spoken.protocol in WITHOUT_SERVER_METADATA))


def has_new_tests(before: ProbeTarget, after: ProbeTarget) -> bool:
    """Whether the replica is to be put to other smoke tests."""
    wanted, known = after.smoke, before.smoke
    return wanted is not None and (known is None or known.digest != wanted.digest)


def says_the_same(before: ProbeResult, after: ProbeResult) -> bool:
    """Whether nothing is new but the time."""
    return replace(before, asked_at=after.asked_at) == after
