"""A proxy between one operator and the API server that counts points and injects one fault.

    operator --> Door (one port for each operator process) --> API server
                  |  every write and every watch event is a point
                  `- the injection's point is reached --> its fault happens, once

The name of a point consists of its kind and its number among points of the same kind ("patch
Deployment main #2"). So a run with a fault has the same points as a run without one, regardless of
the order of other points.
"""

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import aiohttp
from aiohttp import web

from .api import KINDS, Endpoint

LATE_SECONDS = 2.0
"""The delay of a late answer, a held event, or the events after an old list."""


class Fault(StrEnum):
    """The fault at a point. The first eight are for writes, the others for events."""

    KILL_BEFORE = "operator killed before the write"
    KILL_AFTER = "operator killed after the write"
    ANSWER_LOST = "answer lost"
    ANSWER_LATE = "answer late"
    CONFLICT = "409"
    TOO_MANY = "429 with Retry-After"
    SERVER_ERROR = "500"
    RESET = "connection reset"
    EVENT_HELD = "events held back"
    EVENT_DROPPED = "event dropped and the watch expired"
    OLD_LIST = "operator killed and an old list served after its restart"


WRITE_FAULTS = tuple(Fault)[:8]
EVENT_FAULTS = tuple(Fault)[8:]


@dataclass(frozen=True, order=True)
class Point:
    """One write or one watch event of a scenario.

    Attributes:
        what: "write" or "event".
        name: The verb or event type, the kind, and which object of that kind it is.
        number: How many of the same name came before, and 1.
    """

    what: str
    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.what} {self.name} #{self.number}"


@dataclass(frozen=True)
class Injection:
    """One fault at one point."""

    point: Point
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault} at {self.point}"


@dataclass
class Record:
    """The observed traffic: the points in order, and whether the fault happened."""

    points: list[Point] = field(default_factory=list)
    happened: bool = False
    last_write_at: float = 0.0
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter)

    def meet(self, what: str, name: str) -> Point:
        """The point that is met now."""
        self._numbers[what, name] += 1
        point = Point(what, name, self._numbers[what, name])
        self.points.append(point)
        return point


class Proxy:
    """One run's proxy, as an async context.

    Args:
        endpoint: The API server.
        injection: What goes wrong; None lets everything pass.
        kill: Called with the number of the door whose operator is to be killed.
        doors: How many operators there are.
        runtime: The InferenceRuntime of this run. It is in no namespace, so the operator sees
            those of other runs too; their events are no points.

    Attributes:
        record: What went through.
        urls: One server URL for each door.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        injection: Injection | None,
        kill: Callable[[int], None],
        doors: int = 1,
        runtime: str = "",
    ) -> None:
        self.record = Record()
        self.urls: list[str] = []
        self._endpoint = endpoint
        self._injection = injection
        self._kill = kill
        self._doors = doors
        self._runtime = runtime
        self._runners: list[web.AppRunner] = []
        self._first_lists: dict[str, bytes] = {}
        self._serve_old: set[str] = set()
        self._roles: dict[tuple[str, str], str] = {}
        self._begun = False
        self._watching: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._endpoint.context or True)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._endpoint.headers,
            timeout=timeout,
            auto_decompress=False,
        )
        for door in range(self._doors):
            app = web.Application(client_max_size=1 << 26)
            app.router.add_route("*", "/{path:.*}", self._handler(door))
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._runners.append(runner)
            self.urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self._session.close()
        for runner in self._runners:
            await runner.cleanup()

    def begin(self) -> None:
        """Count points from now on; what was written before was preparation."""
        self._begun = True

    def _handler(self, door: int) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch"):
                task = asyncio.create_task(self._watch(door, request))
                self._watching.add(task)
                task.add_done_callback(self._watching.discard)
                return await asyncio.shield(task)
            if request.method == "GET":
                return await self._read(request)
            return await self._write(door, request)

        return handle

    # ------------------------------------------------------------------ reads and lists

    async def _read(self, request: web.Request) -> web.StreamResponse:
        key = request.path_qs
        if key in self._serve_old:
            self._serve_old.discard(key)
            return web.Response(body=self._first_lists[key], content_type="application/json")
        status, headers, body = await self._forward(request, b"")
        if status == 200 and "limit=" in key:
            self._first_lists.setdefault(key, body)
        return web.Response(status=status, headers=headers, body=body)

    # ------------------------------------------------------------------ writes

    async def _write(self, door: int, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        name = self._name_of_write(request, body)
        fault = None
        if name:
            self.record.last_write_at = asyncio.get_running_loop().time()
        if name and self._begun:
            fault = self._fault_at(self.record.meet("write", name))
        if fault in REFUSALS:
            return REFUSALS[fault]()
        if fault is Fault.KILL_BEFORE:
            self._kill(door)
        if fault in {Fault.KILL_BEFORE, Fault.RESET}:
            return self._cut(request)
        status, headers, answer = await self._forward(request, body)
        if fault is Fault.KILL_AFTER:
            self._kill(door)
        if fault in {Fault.KILL_AFTER, Fault.ANSWER_LOST}:
            return self._cut(request)
        if fault is Fault.ANSWER_LATE:
            await asyncio.sleep(LATE_SECONDS)
        return web.Response(status=status, headers=headers, body=answer)

    def _name_of_write(self, request: web.Request, body: bytes) -> str:
        """The name of the point; empty for the lease, events and dry runs, which are no points."""
        found = _parsed(request.path)
        if found is None or "dryRun" in request.query:
            return ""
        kind, name, part = found
        if not name and body:
            name = json.loads(body)["metadata"].get("name", "")
        verb = request.method.lower()
        return f"{verb} {kind} {self._role(kind, name)}" + (f" {part}" if part else "")

    # ------------------------------------------------------------------ watches

    async def _watch(self, door: int, request: web.Request) -> web.StreamResponse:
        found = _parsed(request.path)
        kind = found[0] if found else ""
        answer = await self._session.get(
            self._endpoint.server + request.path_qs, headers=_passed_on(request)
        )
        made = web.StreamResponse(status=answer.status, headers=_kept(answer))
        made.enable_chunked_encoding()
        try:
            await made.prepare(request)
            if answer.status != 200 or not kind:
                await made.write(await answer.read())
                return made
            async with contextlib.aclosing(_lines(answer)) as events:
                await self._pass_events(door, kind, events, made)
        except (aiohttp.ClientError, ConnectionError):
            pass  # one of the two sides has gone
        finally:
            answer.close()
        return made

    async def _pass_events(
        self, door: int, kind: str, events: AsyncIterator[bytes], made: web.StreamResponse
    ) -> None:
        async for line in events:
            fault = self._fault_at_event(kind, line)
            if fault is Fault.EVENT_HELD:
                await asyncio.sleep(LATE_SECONDS)
            elif fault is Fault.EVENT_DROPPED:
                await made.write(EXPIRED)
                return
            elif fault is Fault.OLD_LIST:
                self._serve_old = set(self._first_lists)
                self._kill(door)
                return
            await made.write(line + b"\n")

    def _fault_at_event(self, kind: str, line: bytes) -> Fault | None:
        event = json.loads(line)
        if not self._begun or event["type"] not in {"ADDED", "MODIFIED", "DELETED"}:
            return None
        name = event["object"]["metadata"]["name"]
        if kind == "InferenceRuntime" and name != self._runtime:
            return None
        point = self.record.meet("event", f"{event['type']} {kind} {self._role(kind, name)}")
        return self._fault_at(point)

    # ------------------------------------------------------------------ both

    def _fault_at(self, point: Point) -> Fault | None:
        if self.record.happened or self._injection is None or point != self._injection.point:
            return None
        self.record.happened = True
        return self._injection.fault

    def _role(self, kind: str, name: str) -> str:
        """Which object of its kind it is: generated names differ from run to run."""
        if kind == "Pod":
            return "any"
        mine = [role for (each, _), role in self._roles.items() if each == kind]
        return self._roles.setdefault((kind, name), f"{len(mine) + 1}")

    async def _forward(
        self, request: web.Request, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        async with self._session.request(
            request.method,
            self._endpoint.server + request.path_qs,
            data=body or None,
            headers=_passed_on(request),
        ) as answer:
            return answer.status, _kept(answer), await answer.read()

    @staticmethod
    def _cut(request: web.Request) -> web.StreamResponse:
        """End the connection without an answer."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response()  # it is discarded


EXPIRED = (
    json.dumps(
        {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "message": "too old resource version",
                "reason": "Expired",
                "code": 410,
            },
        }
    ).encode()
    + b"\n"
)

_PLURALS = {plural: kind for kind, (_, plural) in KINDS.items() if kind != "Lease"}
_PATH = re.compile(
    r"/apis?/(?:[^/]+/)?v[^/]+(?:/namespaces/[^/]+)?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>[a-z]+))?"
)


def _parsed(path: str) -> tuple[str, str, str] | None:
    """Kind, name and subresource of a path; None for what the suite does not follow."""
    found = _PATH.fullmatch(path)
    if found is None or found["plural"] not in _PLURALS:
        return None
    return _PLURALS[found["plural"]], found["name"] or "", found["part"] or ""


def _passed_on(request: web.Request) -> dict[str, str]:
    kept = ("Content-Type", "Accept")
    return {name: request.headers[name] for name in kept if name in request.headers}


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    kept = ("Content-Type", "Retry-After", "Content-Encoding")
    return {name: answer.headers[name] for name in kept if name in answer.headers}


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    buffer = b""
    async for part in answer.content.iter_any():
        *whole, buffer = (buffer + part).split(b"\n")
        for line in whole:
            if line:
                yield line


def _refused(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    with contextlib.suppress(KeyError):
        document["details"] = {"retryAfterSeconds": int((headers or {})["Retry-After"])}
    return web.json_response(document, status=code, headers=headers)


REFUSALS: dict[Fault | None, Callable[[], web.Response]] = {
    Fault.CONFLICT: lambda: _refused(409, "Conflict", "the object has been modified"),
    Fault.TOO_MANY: lambda: _refused(
        429, "TooManyRequests", "try again later", {"Retry-After": "1"}
    ),
    Fault.SERVER_ERROR: lambda: _refused(500, "InternalError", "etcdserver: request timed out"),
}
