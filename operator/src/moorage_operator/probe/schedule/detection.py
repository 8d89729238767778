"""Detects the protocol of a server by querying it in each.

Every driver has a query that only a server of its protocol answers in the expected form. The
interrogation decides when detection is needed.
"""

import asyncio
from collections.abc import Iterable, Mapping

from moorage_operator.probe.driver import Driver
from moorage_operator.values.answers import BARRED, Answer, AnswerReason, Spoken
from moorage_operator.values.plan import ProbeTarget

AUTO = "Auto"

# A missing server says nothing about the protocol.
_SILENCE = (AnswerReason.REFUSED, AnswerReason.TIMED_OUT)

Drivers = Mapping[tuple[str, str], Driver]


async def detect(drivers: Drivers, target: ProbeTarget) -> Spoken | Answer:
    """Return the first of the target's other ways in which the server answers.

    If there is none, return the most informative answer: the server is secured, no server listens
    at the port of the target's transport, or the server speaks no known protocol.
    """
    ways = target.others
    answers = await asyncio.gather(
        *(drivers[way.protocol, way.transport].speaks(target.by(way)) for way in ways)
    )
    for way, answer in zip(ways, answers, strict=True):
        if answer.verdict is True:
            return Spoken(way.protocol, way.transport, way.port, answer.message)
    own = [
        answer
        for way, answer in zip(ways, answers, strict=True)
        if way.transport == target.way.transport
    ]
    return (
        _barred(own)
        or _silence(own)
        or Answer(
            None,
            AnswerReason.WRONG_PROTOCOL,
            f"queried port {target.way.port} for " + ", ".join(_asked_for(target)),
        )
    )


def _barred(answers: Iterable[Answer]) -> Answer | None:
    """Return the first answer of a secured server; it explains why no protocol was found."""
    return next((answer for answer in answers if answer.reason in BARRED), None)


def _silence(answers: Iterable[Answer]) -> Answer | None:
    found = list(answers)
    silent = [answer for answer in found if answer.reason in _SILENCE]
    return silent[0] if len(silent) == len(found) and silent else None


def _asked_for(target: ProbeTarget) -> Iterable[str]:
    return (way.protocol for way in target.others if way.transport == target.way.transport)
