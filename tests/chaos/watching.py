"""What a run saw: requests, endpoints, statuses and restarts, all by one clock.

Traffic goes to the Service's address, from a connection of its own for each request. Every status
that is written with Ready=True is held against an inference.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

import aiohttp

from support.digits_client import Address, DigitsClient
from support.testbed.api import Api, Object, Refused

from . import routes
from .explain import ROUTES_SECONDS, Failure, Span
from .models import MODELS, Model

NAMESPACE = "chaos"
SYSTEM = "moorage-system"
OPERATORS = "app.kubernetes.io/name=moorage"
PAUSE_SECONDS = 0.1
REQUEST_SECONDS = 5.0
LOOK_SECONDS = 2.0
ROUTES_LOOK_SECONDS = 0.25
AWAY = (Refused, aiohttp.ClientError, TimeoutError, ValueError, OSError)
"""What a request to an API server that is away comes to."""

T = TypeVar("T")


class Watching:
    """Everything that was seen of the six models.

    Attributes:
        requests: How many were sent, by model.
        failures: Those without the right answer.
        ready: Changes of the number of ready endpoints, by model.
        offered: Changes of the addresses that its EndpointSlices offer, by model.
        routed: Changes of the addresses that the node's rules send to, by model.
        alive: Changes of the addresses of pods whose containers have not ended, by model.
        story: What else changed, by model: conditions of the model and of its pods.
        checks: How many written Ready=True were held against an inference.
        claims: Those that no inference confirmed within the propagation allowance.
        restarts: The most restarts seen of each container, by namespace, pod and container.
        pods: The last successful list of pods, by namespace.
    """

    def __init__(self, api: Api) -> None:
        self.requests: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.ready: dict[str, list[tuple[float, int]]] = {name: [] for name in MODELS}
        self.offered: dict[str, list[tuple[float, frozenset[str]]]] = {name: [] for name in MODELS}
        self.routed: dict[str, list[tuple[float, frozenset[str]]]] = {name: [] for name in MODELS}
        self.alive: dict[str, list[tuple[float, frozenset[str]]]] = {name: [] for name in MODELS}
        self.story: dict[str, list[tuple[float, str]]] = {name: [] for name in MODELS}
        self.checks = 0
        self.claims: list[Failure] = []
        self.restarts: dict[tuple[str, str, str], int] = {}
        self.pods: dict[str, list[Object]] = {SYSTEM: [], NAMESPACE: []}
        self._api = api
        self._began = time.monotonic()
        self._last: dict[str, object] = {}
        self._slices: dict[str, Object] = {}
        self._pod_addresses: dict[str, dict[str, str]] = {name: {} for name in MODELS}
        self._told: dict[tuple[str, str], str] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._addresses: dict[str, Address] = {}

    def changes_of(self, model: str, span: Span) -> list[str]:
        """Return what changed around a model in a span, for the reader of a report."""
        lines = list(self.story[model])
        for what, seen in (("offered", self.offered[model]), ("routed", self.routed[model])):
            lines += [(at, f"{what}: {' '.join(sorted(where))}") for at, where in seen]
        within = (each for each in sorted(lines) if span.began <= each[0] <= span.ended)
        return [f"{at:7.1f} s  {said}" for at, said in within]

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Traffic and watches, from the start of the block to its end."""
        for name in MODELS:
            service = await self._api.get("Service", NAMESPACE, name)
            self._addresses[name] = Address(service["spec"]["clusterIP"])
        async with DigitsClient(timeout=REQUEST_SECONDS) as client:
            tasks = [
                asyncio.create_task(each)
                for each in (
                    *(self._ask(client, model) for model in MODELS.values() for _ in range(2)),
                    self._follow("EndpointSlice", self._see_slice),
                    self._follow("Pod", self._see_pod),
                    self._look_at_routes(),
                    self._follow(
                        "InferenceModel", lambda type_, body: self._see_model(client, type_, body)
                    ),
                )
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.gather(*self._looks)
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    async def _ask(self, client: DigitsClient, model: Model) -> None:
        while True:
            began = self.now()
            said = await client.ask(model.asked, model.name, self._addresses[model.name])
            self.requests[model.name] += 1
            if said:
                self.failures.append(Failure(model.name, Span(began, self.now()), said))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self, kind: str, see: Callable[[str, Object], None]) -> None:
        while True:
            with contextlib.suppress(*AWAY):
                async with contextlib.aclosing(self._api.watch(kind, NAMESPACE)) as events:
                    async for type_, body in events:
                        see(type_, body)
            await asyncio.sleep(0.2)

    def _see_slice(self, type_: str, body: Object) -> None:
        self._slices[body["metadata"]["name"]] = {} if type_ == "DELETED" else body
        for name in MODELS:
            endpoints = [
                (endpoint.get("conditions") or {}, frozenset(endpoint["addresses"]))
                for each in self._slices.values()
                if each and each["metadata"]["labels"].get("kubernetes.io/service-name") == name
                for endpoint in each["endpoints"] or []
            ]
            ready = _all_of(where for says, where in endpoints if says.get("ready"))
            ending = _all_of(where for says, where in endpoints if says.get("serving"))
            _note(self.ready[name], self.now(), len(ready))
            _note(self.offered[name], self.now(), ready or ending)

    def _see_pod(self, type_: str, body: Object) -> None:
        name = body["metadata"].get("labels", {}).get("moorage.dev/model")
        if name not in MODELS:
            return
        status = body.get("status") or {}
        true = [
            each["type"] for each in status.get("conditions") or [] if each["status"] == "True"
        ]
        is_ending = "deletionTimestamp" in body["metadata"]
        has_ended = type_ == "DELETED" or (is_ending and "ContainersReady" not in true)
        addresses = self._pod_addresses[name]
        addresses[body["metadata"]["uid"]] = "" if has_ended else status.get("podIP", "")
        _note(self.alive[name], self.now(), frozenset(addresses.values()) - {""})
        ending = " ending" if is_ending else ""
        said = f"{type_}{ending} {status.get('podIP', '')} {' '.join(sorted(true))}"
        self._tell(name, f"pod {body['metadata']['name']}", said)

    def _tell(self, model: str, about: str, said: str) -> None:
        if self._told.get((model, about)) != said:
            self._told[model, about] = said
            self.story[model].append((self.now(), f"{about}: {said}"))

    async def _look_at_routes(self) -> None:
        while True:
            found = await routes.read(NAMESPACE)
            for name, seen in self.routed.items():
                if found is not None:
                    _note(seen, self.now(), found.get(name, frozenset()))
            await asyncio.sleep(ROUTES_LOOK_SECONDS)

    def _see_model(self, client: DigitsClient, type_: str, body: Object) -> None:
        name, status = body["metadata"]["name"], body.get("status") or {}
        is_new, self._last[name] = self._last.get(name) != status, status
        if name in MODELS:
            conditions = status.get("conditions") or []
            said = (f"{each['type']}={each['status']}/{each['reason']}" for each in conditions)
            self._tell(name, "model", " ".join(said))
        if type_ != "DELETED" and is_new and says(body, "Ready") and name in MODELS:
            self.checks += 1
            task = asyncio.create_task(self._hold(client, MODELS[name], status))
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)

    async def _hold(self, client: DigitsClient, model: Model, status: object) -> None:
        """Hold a status against an inference, again within the allowance for routes."""
        began = self.now()
        while said := await client.ask(model.asked, model.name, self._addresses[model.name]):
            if self._last[model.name] != status:
                return  # it says something else already
            if self.now() > began + ROUTES_SECONDS:
                self.claims.append(Failure(model.name, Span(began, self.now()), said))
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def look_at_pods(self) -> None:
        """Note the pods and the restarts of their containers, unless the API server is away."""
        with contextlib.suppress(*AWAY):
            await asyncio.wait_for(self._look_at_pods(), LOOK_SECONDS)

    async def _look_at_pods(self) -> None:
        for namespace, selector in ((SYSTEM, OPERATORS), (NAMESPACE, "")):
            self.pods[namespace] = await self._api.list("Pod", namespace, selector)
            for pod in self.pods[namespace]:
                for each in pod.get("status", {}).get("containerStatuses") or []:
                    key = namespace, pod["metadata"]["name"], each["name"]
                    self.restarts[key] = max(each["restartCount"], self.restarts.get(key, 0))


def _note(seen: list[tuple[float, T]], at: float, new: T) -> None:
    if not seen or seen[-1][1] != new:
        seen.append((at, new))


def _all_of(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def says(body: Object, type_: str) -> bool:
    """Whether a condition of an object is True."""
    conditions = (body.get("status") or {}).get("conditions") or []
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)


def serves(body: Object) -> bool:
    """Whether a model is Ready and UpToDate for its newest generation."""
    generation = body.get("metadata", {}).get("generation")
    conditions = (body.get("status") or {}).get("conditions") or []
    fresh = {each["type"] for each in conditions if each["observedGeneration"] == generation}
    return {"Ready", "UpToDate"} <= fresh and says(body, "Ready") and says(body, "UpToDate")
