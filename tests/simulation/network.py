"""The operator's client for the simulated API server, with a network that fails randomly.

KubeClient is unchanged except for `_request` and `watch`, which would open connections.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import msgspec

from moorage_operator.kube import auth, bodies, errors
from moorage_operator.kube.client import REQUEST_TIMEOUT_SECONDS, KubeClient
from moorage_operator.kube.kinds import Kind
from simulation.api_server import ApiServer, parse
from simulation.stored import Answer, seen_as

ACCESS = auth.Access(server="http://simulated")

REFUSALS = {
    403: ("Forbidden", "a policy refuses it"),
    409: ("Conflict", "the object has been modified"),
    429: ("TooManyRequests", "try again later"),
    500: ("InternalError", "etcdserver: request timed out"),
}


@dataclass
class Weather:
    """The faults and their frequency; `clear` ends them.

    Attributes:
        requests: The share of requests with a fault.
        events: The share of watch events that break the watch or are held back.
        old_lists: Whether a restarted process first receives outdated lists.
        ambush: An action that happens during a later write.
        admission: The status of every write of a kind of children.
        slow: The seconds that every write of a kind takes.
        lags: Returns how far a watch that is opened now is behind; None if none is.
    """

    requests: float = 0.0
    events: float = 0.0
    old_lists: bool = False
    ambush: "Ambush | None" = None
    admission: dict[str, int] = field(default_factory=dict[str, int])
    slow: dict[str, float] = field(default_factory=dict[str, float])
    lags: Callable[[], float] | None = None

    def clear(self) -> None:
        """End all faults."""
        self.requests = self.events = 0.0
        self.old_lists = False
        self.ambush = self.lags = None
        self.admission.clear()
        self.slow.clear()

    def strike(self, moment: str) -> None:
        """Run the action that is due at this moment of a write."""
        ambush = self.ambush
        if ambush is None or ambush.moment != moment:
            return
        ambush.writes -= 1
        if ambush.writes == 0:
            self.ambush = None
            Context().run(ambush.happen)  # it belongs to no process


@dataclass
class Ambush:
    """An action in the middle of an operator's write.

    Attributes:
        writes: The number of writes until it happens.
        moment: BEFORE the write arrives, or AFTER it but before its response arrives.
        happen: The action.
    """

    writes: int
    moment: str
    happen: Callable[[], None]


BEFORE, AFTER = "before", "after"

LATE_SECONDS = 4.0
"""The largest delay until a request reaches the API server."""

HELD_SECONDS = 5.0
"""The largest delay of an event."""


class Network:
    """The network connection of one process.

    Args:
        api: The API server.
        weather: The faults.
        chance: The seed's random numbers.
        who: The name of the process.
        note: Receives a line of the history.

    Attributes:
        resets: The number of times that all connections were reset.
    """

    def __init__(
        self,
        api: ApiServer,
        weather: Weather,
        chance: random.Random,
        who: str,
        note: Callable[[str], None],
    ) -> None:
        self.api = api
        self.who = who
        self.weather = weather
        self.began: float = 0.0
        self._chance = chance
        self._note = note
        self._open = asyncio.Event()
        self._open.set()
        self._born_at = api.version
        self.resets = 0
        self._losses = 0

    def cut(self) -> None:
        """Block all traffic."""
        self._open.clear()

    def mend(self, *, reset: bool = False) -> None:
        """Restore traffic, over the same connections or new ones."""
        self.resets += reset
        self._losses += reset
        self._open.set()

    def lose(self) -> None:
        """Drop requests that have not arrived; responses and watches continue."""
        self._losses += 1

    def connected(self) -> Awaitable[Any]:
        """Wait for a connection."""
        return self._open.wait()

    async def carry(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> Answer | None:
        """Return the response to a request, None if it is lost."""
        fault, losses = self._fault(method, path, query), self._losses
        is_write = method != "GET" and "/leases" not in path and "/events" not in path
        await asyncio.sleep(self._delay(LATE_SECONDS if fault == "late" else 0.0))
        if is_write:
            self.weather.strike(BEFORE)
            await asyncio.sleep(0)  # the process may have been killed, frozen or cut off
        if not self._open.is_set():
            await self._open.wait()
        if fault == "reset" or self._losses != losses:
            return None
        if fault.isdigit() or fault == "old":
            return self._old_list(path, query) if fault == "old" else _refusal(int(fault))
        if is_write and (seconds := self.weather.slow.get(parse(path)[0])):
            await asyncio.sleep(seconds)
        handle = self.api.handle
        answer = Context().run(handle, method, path, query, body, self.who, content_type)
        if is_write:
            self.weather.strike(AFTER)
            await asyncio.sleep(0)
        if not self._open.is_set():
            await self._open.wait()
        if fault == "hangs":
            await asyncio.sleep(2 * REQUEST_TIMEOUT_SECONDS)
        if self._losses == losses:  # otherwise the response waited for the process
            await asyncio.sleep(self._delay())
        return None if fault == "answer lost" else answer

    def _old_list(self, path: str, query: Mapping[str, str]) -> Answer:
        """Return a list from before the start of the process."""
        plural, namespace, *_ = parse(path)
        at = max(self.api.compacted, self._born_at - self._chance.randrange(1, 40))
        return Answer(200, self.api.listed(plural, namespace, query, at))

    def _fault(self, method: str, path: str, query: Mapping[str, str]) -> str:
        weather = self.weather
        if method != "GET" and (code := weather.admission.get(parse(path)[0])):
            return str(code)
        if (
            weather.old_lists
            and method == "GET"
            and parse(path)[0]
            and parse(path)[2] == ""
            and "fieldSelector" not in query  # as current as a read of the object
            and "replicasets" not in path
        ):
            return "old"
        if not weather.requests or self._chance.random() >= weather.requests:
            return ""
        kinds = ["late", "reset", "429", "500"]
        if method != "GET":
            kinds += ["answer lost", "409", "hangs"]
        fault = self._chance.choice(kinds)
        self._note(f"{self.who}: fault {fault!r} at {method} {path}")
        return fault

    def _delay(self, late: float = 0.0) -> float:
        return 0.001 + 0.01 * self._chance.random() + late * self._chance.random()

    def hold(self) -> str:
        """Return the fault of an event: none, "drop", "gone" or "hold"."""
        if not self.weather.events or self._chance.random() >= self.weather.events:
            return ""
        return self._chance.choice(["drop", "gone", "hold", "hold"])

    def event_delay(self, held: str) -> float:
        """Return the delay of an event."""
        return self._delay(HELD_SECONDS if held == "hold" else 0.0)


class SimulatedClient(KubeClient):
    """A KubeClient without connections."""

    def __init__(self, network: Network, clock: Callable[[], float]) -> None:
        super().__init__(ACCESS, clock=clock)
        self._network = network

    async def _request(
        self,
        verb: str,
        kind: Kind,  # noqa: ARG002 -- for the metrics of the real one
        path: str,
        *,
        method: str = "GET",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
    ) -> bytes:
        sent = msgspec.json.encode(body) if body is not None else b""
        try:
            async with asyncio.timeout(timeout_seconds or REQUEST_TIMEOUT_SECONDS):
                content_type = (headers or {}).get("Content-Type", "")
                answer = await self._network.carry(method, path, query or {}, sent, content_type)
        except TimeoutError as error:
            raise errors.Unreachable(f"{verb} {path}: no answer in time") from error
        if answer is None:
            raise errors.Unreachable(f"{verb} {path}: the connection was reset")
        if answer.code >= 400:
            status = msgspec.json.decode(answer.body)
            raise errors.from_status(answer.code, status, retry_after=answer.retry_after)
        return answer.body

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selector: str = "",
        resource_version: str,
        seconds: int,
        began: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[bodies.Change]:
        network, api = self._network, self._network.api
        version = int(resource_version)
        await network.connected()
        resets = network.resets
        _check_watch(api, kind.plural, version)
        began()
        loop = asyncio.get_running_loop()
        lag = network.weather.lags() if network.weather.lags else 0.0
        ends = loop.time() + seconds
        news = asyncio.Event()
        follow = _Follower(kind.plural, news)
        api.followers.append(follow)
        try:
            while True:
                for event in api.events(kind.plural, version):
                    version = event.version
                    type_ = seen_as(event, namespace, selector)
                    if not type_:
                        continue
                    held = network.hold()
                    due = event.at + network.event_delay(held)
                    due += lag if network.weather.lags else 0.0
                    await asyncio.sleep(max(0.0, due - loop.time()))
                    await network.connected()
                    if held == "drop" or network.resets != resets:
                        raise errors.Unreachable(f"watch {kind.rbac_name}: connection reset")
                    if held == "gone":
                        raise errors.Gone("too old resource version", code=410)
                    yield bodies.read_change(_line(type_, event.raw))
                news.clear()
                if kind.plural in api.removed:
                    return
                if api.events(kind.plural, version):
                    continue
                try:
                    async with asyncio.timeout_at(ends):
                        await news.wait()
                except TimeoutError:
                    break
            await network.connected()
            yield bodies.read_change(_line("BOOKMARK", _bookmark(version)))
        finally:
            api.followers.remove(follow)


def _check_watch(api: ApiServer, plural: str, version: int) -> None:
    if plural in api.removed:
        raise errors.NotFound("the server could not find the requested resource", code=404)
    if version < api.compacted:
        raise errors.Gone("too old resource version", code=410)


class _Follower:
    def __init__(self, plural: str, news: asyncio.Event) -> None:
        self._plural = plural
        self._news = news

    def __call__(self, write: Any) -> None:
        if write.plural == self._plural:
            self._news.set()


def _line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + raw + b"}"


def _bookmark(version: int) -> bytes:
    return b'{"metadata":{"resourceVersion":"' + str(version).encode() + b'"}}'


def _refusal(code: int) -> Answer:
    reason, message = REFUSALS[code]
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return Answer(code, msgspec.json.encode(body), retry_after="1" if code == 429 else "")
