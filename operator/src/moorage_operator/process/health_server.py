"""Serves /livez, /readyz and /metrics over HTTP.

/livez fails only if a restart would help. /readyz fails until the operator has read the cluster
and serves models. Both answer 200 `ok`, or 503 with one reason per line.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

Reasons = Callable[[], Sequence[str]]
Handler = Callable[[web.Request], Awaitable[web.Response]]

ALL = "::"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class HealthServer:
    """Serves health and metrics as an async context.

    Args:
        host: The address to listen on. "::" is all addresses, only those of IPv4 on a machine
            without IPv6.
        port: The port; 0 selects a free one.
        live: Returns problems of the process; none if it is live.
        ready: Returns why the process is not ready; nothing if it is ready.
        metrics: Returns the metrics in the text format.

    Attributes:
        port: The actual port, once entered.
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
        # An idle connection of a kubelet or Prometheus must not delay the shutdown.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=0.5
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site: web.BaseSite = web.TCPSite(self._runner, self._host, self.port)
        if self._host == ALL:  # the event loop would serve IPv6 only
            site = web.SockSite(self._runner, _all_addresses(self.port))
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


def _all_addresses(port: int) -> socket.socket:
    """Return a socket for a port on all addresses of IPv6 and IPv4."""
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("0.0.0.0", port))
    return socket.create_server((ALL, port), family=socket.AF_INET6, dualstack_ipv6=True)


def _verdict(reasons: Reasons) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        found = reasons()
        return web.Response(text="\n".join(found) or "ok", status=503 if found else 200)

    return answer


def _exposition(metrics: Callable[[], bytes]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": EXPOSITION})

    return answer
