"""A gateway controller that accepts every route, as a canary requires."""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Self

import aiohttp

from .api import Api, Object, Refused

ROUTES = ("HTTPRoute", "GRPCRoute")


class Gateways:
    """Accepts the routes of all namespaces, as an async context."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in ROUTES]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: str) -> None:
        while True:
            with contextlib.suppress(Refused, aiohttp.ClientError, TimeoutError):
                async with contextlib.aclosing(self._api.watch(kind)) as events:
                    async for type_, route in events:
                        if type_ != "DELETED" and not _is_accepted(route):
                            await self._accept(kind, route)
            await asyncio.sleep(0.2)

    async def _accept(self, kind: str, route: Object) -> None:
        metadata = route["metadata"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {
                "type": type_,
                "status": "True",
                "reason": type_,
                "message": "",
                "observedGeneration": metadata["generation"],
                "lastTransitionTime": now,
            }
            for type_ in ("Accepted", "ResolvedRefs")
        ]
        parents = [
            {
                "parentRef": each,
                "controllerName": "example.com/gateway",
                "conditions": conditions,
            }
            for each in route["spec"]["parentRefs"]
        ]
        with contextlib.suppress(Refused):
            await self._api.patch(
                kind,
                metadata["namespace"],
                metadata["name"],
                {"status": {"parents": parents}},
                part="status",
            )


def _is_accepted(route: Object) -> bool:
    parents = (route.get("status") or {}).get("parents") or []
    return bool(parents) and all(
        each["observedGeneration"] == route["metadata"]["generation"]
        for parent in parents
        for each in parent["conditions"]
    )
