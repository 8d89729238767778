"""Decides what of a poll result or target is missing or new; pure.

The poller uses this to query missing metadata again and to run edited smoke tests.
"""

from moorage_operator.values.answers import ANSWERED, ProbeResult
from moorage_operator.values.plan import ProbeTarget

WITHOUT_SERVER_METADATA = frozenset({"TensorFlowServing", "OpenAI"})
"""Protocols without server metadata."""

WITHOUT_METADATA = frozenset({"None"})
"""Protocols without any metadata, and without evidence."""


def is_described(result: ProbeResult) -> bool:
    """Whether all metadata of the protocol, and the evidence for the protocol, are known."""
    spoken = result.spoken
    if spoken and spoken.protocol in WITHOUT_METADATA:
        return True
    if result.model is None or (spoken and spoken.evidence == ANSWERED):
        return False
    return bool(result.server or (spoken and spoken.protocol in WITHOUT_SERVER_METADATA))


def has_new_tests(before: ProbeTarget, after: ProbeTarget) -> bool:
    """Whether the smoke tests have changed."""
    wanted, known = after.smoke, before.smoke
    return wanted is not None and (known is None or known.digest != wanted.digest)
