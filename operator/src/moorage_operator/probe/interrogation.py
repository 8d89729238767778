"""The questions of one poll, and in which order.

The model first, because nearly always it answers yes and then nothing else is needed. A model that
is not ready makes the server's own state interesting; a model that has just become ready makes the
metadata interesting. Stands between the poller, which knows when, and a driver, which knows how.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime

from moorage_operator.state import NOT_ASKED, Answer, AnswerReason, ProbeResult, ProbeTarget

from .driver import Driver

PATIENCE_SECONDS = 0.2
"""How long a model's first yes waits for its metadata, so that one status carries both."""

YES = Answer(verdict=True, reason=AnswerReason.READY)


async def interrogate(
    driver: Driver,
    target: ProbeTarget,
    previous: ProbeResult | None,
    *,
    describe: bool,
    now: Callable[[], datetime],
) -> AsyncIterator[ProbeResult]:
    """One result, or two where metadata is slow: first without it, then with it.

    Args:
        driver: Speaks the target's protocol.
        target: Whom to ask.
        previous: The last result of the same container.
        describe: Whether the metadata is due.
        now: The time in UTC.
    """
    before = previous or ProbeResult(target.pod_uid, target.container_id, now())
    answer = await driver.model_ready(target)
    brought_online = before.brought_online
    if target.bring_online and not brought_online and answer.reason is AnswerReason.NOT_READY:
        # Once in a container's life: who takes it offline later means it.
        brought_online = await driver.bring_online(target)
        answer = await driver.model_ready(target) if brought_online else answer
    result = replace(
        before,
        asked_at=now(),
        model_ready=answer,
        brought_online=brought_online,
        consecutive_unknown=before.consecutive_unknown + 1 if answer.verdict is None else 0,
    )
    if answer.verdict is not True:
        live, ready = await _server_state(driver, target, answer)
        yield replace(result, live=live, ready=ready)
        return
    # A server that answers for its model lives.
    result = replace(result, live=YES)
    if not describe and before.ready.verdict is True:
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


async def _server_state(
    driver: Driver, target: ProbeTarget, answer: Answer
) -> tuple[Answer, Answer]:
    if answer.reason in (AnswerReason.REFUSED, AnswerReason.TIMED_OUT):
        # The same address would refuse or stay silent twice more.
        return answer, NOT_ASKED
    live, ready = await asyncio.gather(driver.live(target), driver.ready(target))
    return live, ready


async def _complete(driver: Driver, target: ProbeTarget, result: ProbeResult) -> ProbeResult:
    ready, described = await asyncio.gather(driver.ready(target), driver.describe(target))
    return replace(
        result,
        ready=ready,
        # What was known stays known: a metadata endpoint that fails once has not changed.
        server=described.server or result.server,
        model=described.model or result.model,
    )
