"""A local HTTP server with answers that a test defines, for tests of the client."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """The address of a server whose every request goes to `answer`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Script:
    """A collection of one kind: lists and watches are taken from scripts, in order.

    A list is a list of names, or a status code. A watch is a list of lines; None keeps it open,
    an exception cuts the connection. `version` is what a look at the collection's version answers.
    """

    def __init__(self, lists: list[Any], watches: list[list[Any]]) -> None:
        self.lists = lists
        self.watches = watches
        self.version = 10**6
        self.asked: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.open = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        self.paths.append(request.path)
        if "watch" in request.query:
            return await self._watch(request)
        if request.query.get("limit") == "1":  # only the collection's version is requested
            return web.json_response(listed([], self.version))
        answer = self.lists.pop(0)
        if isinstance(answer, int):
            return web.json_response({"message": f"code {answer}", "code": answer}, status=answer)
        if isinstance(answer, dict):
            return web.json_response(answer)
        return web.json_response(listed(answer))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        lines = self.watches.pop(0) if self.watches else [None]
        if isinstance(lines, int):
            return web.json_response({"message": "no"}, status=lines)
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            if line is None:
                self.open.set()
                await asyncio.Event().wait()
            elif line is ConnectionError:
                assert request.transport is not None
                request.transport.abort()
                return response
            else:
                await response.write(line)
        return response


def item(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return {"metadata": metadata | {"resourceVersion": str(version)}, **more}


def listed(names: list[str], version: int = 10, continue_: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version)} | ({"continue": continue_} if continue_ else {})
    return {"metadata": metadata, "items": [item(name) for name in names]}


def event(type_: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"
