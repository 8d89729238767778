"""An HTTP session for kopf that records whether its watches work.

kopf opens and reopens its watches without reporting it. Each answer to a request for the models of
a namespace is a sign of life. The API server ends each watch after the requested time, so requests
follow regularly.
"""

import re
from collections.abc import Mapping
from types import SimpleNamespace

import aiohttp
from yarl import URL

from . import auth
from .kinds import Kind
from .liveness import Liveness

__all__ = ["open_session"]


def open_session(
    access: auth.Access, token: str | None, kind: Kind, livenesses: Mapping[str, Liveness]
) -> aiohttp.ClientSession:
    """Open a session in the running event loop; the caller closes it.

    Args:
        access: The API server.
        token: The bearer token, None for a client certificate.
        kind: The kind whose lists and watches are traced.
        livenesses: By namespace, "" for requests to all namespaces.
    """
    path = re.compile(rf".*?(?:/namespaces/(?P<namespace>[^/]+))?/{kind.plural}")

    def liveness_of(url: URL) -> Liveness | None:
        found = path.fullmatch(url.path)
        return livenesses.get(found["namespace"] or "") if found else None

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
        if liveness := liveness_of(params.url):
            liveness.fail(str(params.exception) or type(params.exception).__name__)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(failed)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=auth.ssl_context(access) or True),
        headers={"Authorization": f"Bearer {token}"} if token else {},
        trace_configs=[trace],
        trust_env=False,
    )
