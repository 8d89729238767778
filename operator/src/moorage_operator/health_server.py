"""/livez, /readyz and /metrics over HTTP.

Live: the process works, or would after waiting; a restart would not help otherwise. Ready: it has
seen the cluster and acts on it. Each answers 200 `ok`, or 503 with the reasons, one a line.
"""

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

Reasons = Callable[[], Sequence[str]]
Handler = Callable[[web.Request], Awaitable[web.Response]]

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class HealthServer:
    """Serves health and metrics as an async context.

    Args:
        host: Address to listen on.
        port: Port; 0 takes a free one.
        live: What is wrong with the process; nothing: it lives.
        ready: Why it does not act yet; nothing: it is ready.
        metrics: The exposition text.

    Attributes:
        port: The port, once entered.
    """

    def __init__(
        self, host: str, port: int, *, live: Reasons, ready: Reasons, metrics: Callable[[], bytes]
    ) -> None:
        self.port = port
        self._host = host
        app = web.Application()
        app.router.add_get("/livez", _verdict(live))
        app.router.add_get("/readyz", _verdict(ready))
        app.router.add_get("/metrics", _exposition(metrics))
        # A kubelet's or a scraper's idle connection must not hold up the end of the process.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=0.5
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()


def _verdict(reasons: Reasons) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        found = reasons()
        return web.Response(text="\n".join(found) or "ok", status=503 if found else 200)

    return answer


def _exposition(metrics: Callable[[], bytes]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": EXPOSITION})

    return answer
