"""The queries of one poll and their order.

The model's readiness comes first: usually it is ready and nothing else is needed. If it is not,
the state of the server is queried. If the server does not answer as declared, its protocol is
detected. If the model has just become ready, its metadata is queried. The poller decides when to
poll.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from moorage_operator.probe.driver import Described, Driver
from moorage_operator.values.answers import (
    ANSWERED,
    BARRED,
    NOT_ASKED,
    Answer,
    AnswerReason,
    ProbeResult,
    Spoken,
)
from moorage_operator.values.plan import ProbeTarget, Way

from .detection import AUTO, Drivers, detect

PATIENCE_SECONDS = 0.2
"""How long the first positive answer waits for the metadata, so that one status has both."""

YES = Answer(verdict=True, reason=AnswerReason.READY)

_SILENCE = (AnswerReason.REFUSED, AnswerReason.TIMED_OUT)
_FOREIGN = (AnswerReason.WRONG_PROTOCOL, AnswerReason.MALFORMED)


async def interrogate(
    drivers: Drivers,
    target: ProbeTarget,
    previous: ProbeResult | None,
    *,
    describe: bool,
) -> AsyncIterator[ProbeResult]:
    """Yield one result, or two if the metadata is slow: first without it, then with it.

    Args:
        drivers: A driver for each (protocol, transport).
        target: The server to query.
        previous: The last result of the same container.
        describe: Whether the metadata is due.
    """
    before = previous or ProbeResult(target.pod_uid, target.container_id)
    declared = target.way.protocol != AUTO
    if not declared:
        found = await _find_out(drivers, target, before.spoken)
        if found.way is None:
            result = replace(before, model_ready=found.answer, spoken=found.spoken)
            yield _counted(result, before)
            return
        target, before = target.by(found.way), replace(before, spoken=found.spoken)
    driver = drivers[target.way.protocol, target.way.transport]
    result = await _ask_model(driver, target, before)
    if result.model_ready.verdict is not True:
        result = await _look_into(drivers, target, result, declared=declared)
        yield _counted(result, before)
        return
    # A server that answers for its model is live.
    result = replace(_counted(result, before), live=YES, spoken=_as_asked(target, before))
    # Some protocols have no query for the server's readiness.
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
    """The result of detection: a way to query, or an answer that says why there is none."""

    spoken: Spoken | None
    way: Way | None = None
    answer: Answer = NOT_ASKED


async def _find_out(drivers: Drivers, target: ProbeTarget, known: Spoken | None) -> _Found:
    """Return how to query a target of `Auto`; a detected protocol is kept until it fails."""
    spoken = known
    if known is None or known.transport != target.way.transport:
        found = await detect(drivers, target)
        if isinstance(found, Answer):
            return _Found(None, answer=found)
        spoken = found
    if spoken and spoken.transport == target.way.transport and (way := _way_of(target, spoken)):
        return _Found(spoken, way)
    message = f"queried port {target.way.port} over {target.way.transport}"
    return _Found(spoken, answer=Answer(None, AnswerReason.WRONG_PROTOCOL, message))


def as_spoken(target: ProbeTarget, spoken: Spoken | None) -> ProbeTarget | None:
    """Return the target with its detected protocol; None for `Auto` before detection."""
    if target.way.protocol != AUTO:
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
        # Only once for each container: a later change to offline is intentional.
        brought_online = await driver.bring_online(target)
        answer = await driver.model_ready(target) if brought_online else answer
    return replace(before, model_ready=answer, brought_online=brought_online)


async def _look_into(
    drivers: Drivers, target: ProbeTarget, result: ProbeResult, *, declared: bool
) -> ProbeResult:
    """Complete the result with the reason why the model is not ready."""
    answer = result.model_ready
    if answer.reason in _SILENCE:
        # Further queries to the same address would fail too.
        return replace(result, live=answer, ready=NOT_ASKED)
    if answer.reason in BARRED:
        # Nor would they tell more of the model.
        answers = answer.reason is AnswerReason.UNAUTHORIZED
        return replace(result, live=YES if answers else answer, ready=NOT_ASKED)
    driver = drivers[target.way.protocol, target.way.transport]
    live, ready = await asyncio.gather(driver.live(target), driver.ready(target))
    result = replace(result, live=live, ready=ready)
    foreign = answer.reason in _FOREIGN
    if foreign and not declared:
        return replace(result, spoken=None)  # the next poll detects the protocol again
    all_failed = live.verdict is not True and ready.verdict is not True
    if not foreign and declared and all_failed:
        # A server of another protocol may answer any status for an unknown path.
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
    """Return the answer, or a more informative one of the same server in another protocol."""
    way = target.explained_by
    if way is None or answer.reason is not AnswerReason.NOT_READY:
        return answer
    other = await drivers[way.protocol, way.transport].model_ready(target.by(way))
    return other if other.verdict is False else answer


async def _complete(driver: Driver, target: ProbeTarget, result: ProbeResult) -> ProbeResult:
    ready, described = await asyncio.gather(driver.ready(target), driver.describe(target))
    return replace(
        result,
        ready=ready,
        spoken=await _with_evidence(driver, target, result, described),
        described=True,
        unauthorized=described.unauthorized,
        # Keep known metadata: a failed query does not mean that it has changed.
        server=described.server or result.server,
        model=described.model or result.model,
    )


async def _with_evidence(
    driver: Driver, target: ProbeTarget, result: ProbeResult, described: Described
) -> Spoken | None:
    spoken = result.spoken
    if spoken and spoken.evidence != ANSWERED:
        return spoken
    evidence = described.evidence
    if not evidence:
        answer = await driver.speaks(target)
        if answer.verdict is not True:
            return spoken
        evidence = answer.message
    return Spoken(target.way.protocol, target.way.transport, target.way.port, evidence)


def _as_asked(target: ProbeTarget, before: ProbeResult) -> Spoken | None:
    """Return the protocol of the answers with its evidence; None if it is not proved yet."""
    spoken = before.spoken
    if spoken and (spoken.protocol, spoken.transport) == (
        target.way.protocol,
        target.way.transport,
    ):
        return spoken
    if target.own_path:
        return None
    return Spoken(target.way.protocol, target.way.transport, target.way.port, ANSWERED)


def _counted(result: ProbeResult, before: ProbeResult) -> ProbeResult:
    unknown = result.model_ready.verdict is None
    return replace(
        result,
        consecutive_unknown=before.consecutive_unknown + 1 if unknown else 0,
    )
