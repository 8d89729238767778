"""The questions of one poll, and in which order.

The model first, because nearly always it answers yes and then nothing else is needed. A model that
is not ready makes the server's own state interesting; a server that does not answer as declared,
what it speaks instead; a model that has just become ready, the metadata. Stands between the
poller, which knows when, and the drivers, which know how.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime

from moorage_operator.answers import (
    ANSWERED,
    NOT_ASKED,
    Answer,
    AnswerReason,
    ProbeResult,
    Spoken,
)
from moorage_operator.planned import ProbeTarget, Way

from .detection import AUTO, Drivers, detect
from .driver import Driver

PATIENCE_SECONDS = 0.2
"""How long a model's first yes waits for its metadata, so that one status carries both."""

YES = Answer(verdict=True, reason=AnswerReason.READY)

_SILENCE = (AnswerReason.REFUSED, AnswerReason.TIMED_OUT)
_FOREIGN = (AnswerReason.WRONG_PROTOCOL, AnswerReason.MALFORMED)


async def interrogate(
    drivers: Drivers,
    target: ProbeTarget,
    previous: ProbeResult | None,
    *,
    describe: bool,
    now: Callable[[], datetime],
) -> AsyncIterator[ProbeResult]:
    """One result, or two where metadata is slow: first without it, then with it.

    Args:
        drivers: A driver for each (protocol, transport).
        target: Whom to ask.
        previous: The last result of the same container.
        describe: Whether the metadata is due.
        now: The time in UTC.
    """
    before = previous or ProbeResult(target.pod_uid, target.container_id, now())
    declared = target.protocol != AUTO
    if not declared:
        found = await _find_out(drivers, target, before.spoken)
        if found.way is None:
            result = replace(before, model_ready=found.answer, spoken=found.spoken)
            yield _counted(result, before, now())
            return
        target, before = target.by(found.way), replace(before, spoken=found.spoken)
    driver = drivers[target.protocol, target.transport]
    result = await _ask_model(driver, target, before)
    if result.model_ready.verdict is not True:
        result = await _look_into(drivers, target, result, declared=declared)
        yield _counted(result, before, now())
        return
    # A server that answers for its model lives.
    result = replace(_counted(result, before, now()), live=YES, spoken=_as_asked(target, before))
    # A protocol without a question for the server's readiness leaves it unasked.
    settled = before.ready.verdict is True or (before.described and before.ready == NOT_ASKED)
    if settled and not describe:
        yield result
        return
    more = asyncio.ensure_future(_complete(driver, target, result))
    try:
        await asyncio.wait({more}, timeout=PATIENCE_SECONDS)
        if not more.done():
            yield result
        yield await more
    finally:
        more.cancel()


@dataclass(frozen=True, slots=True)
class _Found:
    """What detection came to: a way to ask, or an answer that says why there is none."""

    spoken: Spoken | None
    way: Way | None = None
    answer: Answer = NOT_ASKED


async def _find_out(drivers: Drivers, target: ProbeTarget, known: Spoken | None) -> _Found:
    """The way in which a target of `Auto` is asked; what is known holds until it fails."""
    spoken = known
    if known is None or known.transport != target.transport:
        found = await detect(drivers, target)
        if isinstance(found, Answer):
            return _Found(None, answer=found)
        spoken = found
    if spoken and spoken.transport == target.transport and (way := _way_of(target, spoken)):
        return _Found(spoken, way)
    told = f"asked on port {target.port} over {target.transport}"
    return _Found(spoken, answer=Answer(None, AnswerReason.WRONG_PROTOCOL, told))


def as_spoken(target: ProbeTarget, spoken: Spoken | None) -> ProbeTarget | None:
    """The target as its server is asked; None of `Auto` while nobody knows in which protocol."""
    if target.protocol != AUTO:
        return target
    way = _way_of(target, spoken) if spoken else None
    return target.by(way) if way else None


def _way_of(target: ProbeTarget, spoken: Spoken) -> Way | None:
    for way in target.others:
        if (way.protocol, way.transport) == (spoken.protocol, spoken.transport):
            return way
    return None


async def _ask_model(driver: Driver, target: ProbeTarget, before: ProbeResult) -> ProbeResult:
    answer = await driver.model_ready(target)
    brought_online = before.brought_online
    if target.bring_online and not brought_online and answer.reason is AnswerReason.NOT_READY:
        # Once in a container's life: who takes it offline later means it.
        brought_online = await driver.bring_online(target)
        answer = await driver.model_ready(target) if brought_online else answer
    return replace(before, model_ready=answer, brought_online=brought_online)


async def _look_into(
    drivers: Drivers, target: ProbeTarget, result: ProbeResult, *, declared: bool
) -> ProbeResult:
    """The result with what else tells why the model is not ready."""
    answer = result.model_ready
    if answer.reason in _SILENCE:
        # The same address would refuse or stay silent twice more.
        return replace(result, live=answer, ready=NOT_ASKED)
    driver = drivers[target.protocol, target.transport]
    live, ready = await asyncio.gather(driver.live(target), driver.ready(target))
    result = replace(result, live=live, ready=ready)
    foreign = answer.reason in _FOREIGN
    if foreign and not declared:
        return replace(result, spoken=None)  # found out anew by the next poll
    nobody_says_yes = live.verdict is not True and ready.verdict is not True
    if not foreign and declared and nobody_says_yes:
        # A server of another protocol may have any status for a path that it does not know.
        foreign = (await driver.speaks(target)).verdict is not True
    if not foreign:
        why = await _explained(drivers, target, answer)
        return replace(result, model_ready=why, spoken=_as_asked(target, result))
    found = await detect(drivers, target)
    spoken = found if isinstance(found, Spoken) else None
    if answer.reason in _FOREIGN or spoken is None:
        return replace(result, spoken=spoken)
    wrong = Answer(None, AnswerReason.WRONG_PROTOCOL, answer.message)
    return replace(result, spoken=spoken, model_ready=wrong)


async def _explained(drivers: Drivers, target: ProbeTarget, answer: Answer) -> Answer:
    """The answer, or what the same server says in another protocol where that tells more."""
    way = target.explained_by
    if way is None or answer.reason is not AnswerReason.NOT_READY:
        return answer
    other = await drivers[way.protocol, way.transport].model_ready(target.by(way))
    return other if other.verdict is False else answer


async def _complete(driver: Driver, target: ProbeTarget, result: ProbeResult) -> ProbeResult:
    ready, described, spoken = await asyncio.gather(
        driver.ready(target), driver.describe(target), _with_evidence(driver, target, result)
    )
    return replace(
        result,
        ready=ready,
        spoken=spoken,
        described=True,
        # What was known stays known: a metadata endpoint that fails once has not changed.
        server=described.server or result.server,
        model=described.model or result.model,
    )


async def _with_evidence(
    driver: Driver, target: ProbeTarget, result: ProbeResult
) -> Spoken | None:
    spoken = result.spoken
    if spoken is None or spoken.evidence != ANSWERED:
        return spoken
    answer = await driver.speaks(target)
    return replace(spoken, evidence=answer.message) if answer.verdict is True else spoken


def _as_asked(target: ProbeTarget, before: ProbeResult) -> Spoken:
    """The protocol of the answers, with the evidence that there is already."""
    spoken = before.spoken
    if spoken and (spoken.protocol, spoken.transport) == (target.protocol, target.transport):
        return spoken
    return Spoken(target.protocol, target.transport, target.port, ANSWERED)


def _counted(result: ProbeResult, before: ProbeResult, now: datetime) -> ProbeResult:
    unknown = result.model_ready.verdict is None
    return replace(
        result,
        asked_at=now,
        consecutive_unknown=before.consecutive_unknown + 1 if unknown else 0,
    )
