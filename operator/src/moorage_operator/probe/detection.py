"""Which protocol a server speaks, found by asking it in each.

Every protocol has a question that no other server answers in its form; it is the driver's own.
Stands between the interrogation, which knows when it matters, and the drivers, which know how.
"""

import asyncio
from collections.abc import Iterable, Mapping

from moorage_operator.answers import Answer, AnswerReason, Spoken
from moorage_operator.planned import ProbeTarget

from .driver import Driver

AUTO = "Auto"

# Nobody there is no protocol's fault.
_SILENCE = (AnswerReason.REFUSED, AnswerReason.TIMED_OUT)

Drivers = Mapping[tuple[str, str], Driver]


async def detect(drivers: Drivers, target: ProbeTarget) -> Spoken | Answer:
    """The first of the target's other ways in which the server answers.

    Where it answers in none, the answer that tells most: that nobody is there over the target's
    own transport, or that what is there speaks none of the protocols.
    """
    asked = [target.by(way) for way in target.others]
    answers = await asyncio.gather(
        *(drivers[each.protocol, each.transport].speaks(each) for each in asked)
    )
    for each, answer in zip(asked, answers, strict=True):
        if answer.verdict is True:
            return Spoken(each.protocol, each.transport, each.port, answer.message)
    own = [
        answer
        for each, answer in zip(asked, answers, strict=True)
        if each.transport == target.transport
    ]
    return _silence(own) or Answer(
        None,
        AnswerReason.WRONG_PROTOCOL,
        f"asked on port {target.port} for " + ", ".join(_asked_for(target)),
    )


def _silence(answers: Iterable[Answer]) -> Answer | None:
    found = list(answers)
    silent = [answer for answer in found if answer.reason in _SILENCE]
    return silent[0] if len(silent) == len(found) and silent else None


def _asked_for(target: ProbeTarget) -> Iterable[str]:
    return (way.protocol for way in target.others if way.transport == target.transport)
