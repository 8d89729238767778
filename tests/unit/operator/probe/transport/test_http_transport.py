"""A cancelled poll leaves no exception that is never retrieved and no connection."""

import asyncio
import gc
from typing import Any

import pytest

from moorage_operator.probe.transport import http_transport
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.answers import Answer, AnswerReason
from support.probe_targets import byte_server, target


async def test_a_cancelled_request_leaves_no_task_or_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context))
    http = HttpClient()

    async with byte_server(b"HTTP/1.1 200 OK\r\n", hold=True) as server:
        of = target(server, timeout_seconds=0.05)
        # Cancels at each point, from before the connection is established to after it.
        for microseconds in range(0, 4000, 200):
            monkeypatch.setattr(http_transport, "CONNECT_TIMEOUT_SECONDS", microseconds / 1e6)
            answers = await asyncio.gather(*(http.get(of, "/v2") for _ in range(20)))
            reasons = {a.reason for a in answers if isinstance(a, Answer)}
            assert reasons == {AnswerReason.TIMED_OUT}
    await asyncio.sleep(0)
    gc.collect()

    assert left == []
