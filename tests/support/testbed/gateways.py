"""A gateway controller that accepts every route, as a canary requires."""

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Self

import aiohttp

from .api import Api, Object, Refused


class Gateways:
    """Accepts the HTTPRoutes of all namespaces, as an async context."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(Refused, aiohttp.ClientError, TimeoutError):
                async with contextlib.aclosing(self._api.watch("HTTPRoute")) as events:
                    async for type_, route in events:
                        if type_ != "DELETED" and not _is_accepted(route):
                            await self._accept(route)
            await asyncio.sleep(0.2)

    async def _accept(self, route: Object) -> None:
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
                "HTTPRoute",
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
