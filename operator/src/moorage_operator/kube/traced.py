"""An HTTP session for kopf that records whether its watches work.

kopf opens and reopens its watches without reporting it. Each answer to a request for the models of
a namespace is a sign of life. The API server ends each watch after the requested time, so requests
follow regularly.

kopf opens a watch again as soon as it has ended. If a proxy or a stopping API server ends each one
at once, that would be a thousand requests per second. So a watch that follows another one too soon
is delayed.
"""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import aiohttp
from yarl import URL

from . import auth
from .delays import Delays
from .kinds import Kind
from .liveness import Liveness
from .reflector import BACKOFF_FIRST_SECONDS, BACKOFF_LAST_SECONDS, WORKING_SECONDS
from .trust import Trust

__all__ = ["open_session"]


class _Pace:
    """Decides when the watch of a namespace may be opened.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._delays = Delays(BACKOFF_FIRST_SECONDS, BACKOFF_LAST_SECONDS)
        self._opened_at: float | None = None

    def wait_seconds(self) -> float:
        """Return the delay of the watch that is opened now."""
        now = self._clock()
        if self._opened_at is None or now - self._opened_at >= WORKING_SECONDS:
            self._delays.reset()
            delay = 0.0
        else:
            delay = self._delays.next_seconds()
        self._opened_at = now + delay
        return delay


def open_session(
    access: auth.Access,
    token: str | None,
    kind: Kind,
    livenesses: Mapping[str, Liveness],
    *,
    asked: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
) -> aiohttp.ClientSession:
    """Open a session in the running event loop; the caller closes it.

    Args:
        access: The API server.
        token: The bearer token, None for a client certificate.
        kind: The kind whose lists and watches are traced.
        livenesses: By namespace, "" for requests to all namespaces.
        asked: Called before each request for objects of the kind.
        clock: Returns monotonic seconds.
    """
    trust = Trust(access)
    paces = defaultdict[str, _Pace](lambda: _Pace(clock))
    path = re.compile(rf".*?(?:/namespaces/(?P<namespace>[^/]+))?/{kind.plural}")

    def liveness_of(url: URL) -> Liveness | None:
        found = path.fullmatch(url.path)
        return livenesses.get(found["namespace"] or "") if found else None

    async def starting(
        _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        if liveness_of(params.url):
            asked()
        if "watch" in params.url.query:
            await asyncio.sleep(paces[params.url.path].wait_seconds())

    async def ended(
        _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        liveness, code = liveness_of(params.url), params.response.status
        if liveness is None:
            return
        if code < 400:
            liveness.beat()
        else:
            liveness.fail(f"the API server answered {code}", refused=code == 403)

    async def failed(
        _: aiohttp.ClientSession, __: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams
    ) -> None:
        trust.review(params.exception)
        if liveness := liveness_of(params.url):
            liveness.fail(str(params.exception) or type(params.exception).__name__)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(starting)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(failed)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=trust.context or True),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        trace_configs=[trace],
        trust_env=False,
    )
