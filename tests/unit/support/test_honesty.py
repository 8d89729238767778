"""The oracle of Ready=True: what it takes for a lie, and that no look ends without a verdict."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from support.api_server import serving
from support.testbed import honesty as module
from support.testbed.honesty import LOOKS, Honesty

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Serving",
    "message": "it serves",
    "observedGeneration": 1,
}
MODEL = {
    "metadata": {"name": "iris", "generation": 1, "uid": "u"},
    "spec": {},
    "status": {"conditions": [READY]},
}


class FakeApi:
    """An API server with one model, its Service and its pods, which writes one status.

    Attributes:
        model: The model.
        retracts_after: The number of reads of the model after which its status changes.
        error: Raised by each list of pods.
        breaks: Whether the watch of models fails.
    """

    def __init__(self, port: int = 0) -> None:
        self.model: dict[str, Any] = dict(MODEL)
        self.pods = [ready_pod(port)] if port else []
        self.reads = 0
        self.retracts_after = 1000
        self.error: Exception | None = None
        self.breaks = False

    async def watch(self, *_: Any) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        if self.breaks:
            raise ConnectionResetError("the watch broke")
        yield "ADDED", self.model
        await asyncio.Event().wait()

    async def get(self, kind: str, *_: Any) -> dict[str, Any]:
        if kind == "Service":
            return {"spec": {"selector": {"a": "b"}, "ports": [{"targetPort": "http"}]}}
        self.reads += 1
        if self.reads > self.retracts_after:
            return {**self.model, "status": {"conditions": []}}
        return self.model

    async def list(self, *_: Any) -> list[dict[str, Any]]:
        if self.error:
            raise self.error
        return self.pods


def ready_pod(port: int) -> dict[str, Any]:
    ports = [{"name": "http", "containerPort": port}]
    conditions = [{"type": "Ready", "status": "True"}]
    return {"spec": {"containers": [{"ports": ports}]}, "status": {"conditions": conditions}}


async def judged(api: FakeApi) -> Honesty:
    """The oracle once it has judged the status."""
    async with Honesty(api, "ns") as honesty:  # type: ignore[arg-type]
        while not honesty.seen and not honesty.lies:  # noqa: ASYNC110 -- the oracle has no event
            await asyncio.sleep(0)
    return honesty


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)


async def judged_with(answer: Any, **model: Any) -> Honesty:
    async with serving(answer) as server:
        api = FakeApi(int(server.rpartition(":")[2]))
        api.model |= model
        return await judged(api)


async def yes(_: web.Request) -> web.Response:
    return web.Response()


@pytest.mark.parametrize("status", [404, 503])
async def test_a_refusal_is_a_lie(status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    assert (await judged_with(answer)).lies == ["iris: Serving: it serves"]


async def test_a_late_answer_is_not_a_lie() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(0.3)  # longer than all looks with refusals
        return web.Response()

    assert (await judged_with(answer)).lies == []


async def test_a_model_without_a_pod_is_a_lie_unless_its_status_changes_meanwhile() -> None:
    lying, slow = FakeApi(), FakeApi()
    slow.retracts_after = LOOKS  # each look reads the model twice

    assert (await judged(lying)).lies == ["iris: Serving: it serves"]
    assert (await judged(slow)).lies == []


async def test_a_model_without_a_spec_is_judged() -> None:
    async with serving(yes) as server:
        api = FakeApi(int(server.rpartition(":")[2]))
        del api.model["spec"]
        assert (await judged(api)).lies == []
        api.pods = []
        assert (await judged(api)).lies == ["iris: Serving: it serves"]


async def test_a_look_that_fails_is_reported() -> None:
    api = FakeApi()
    api.error = KeyError("spec")

    assert (await judged(api)).lies == ["a look at iris failed: KeyError: 'spec'"]


async def test_a_watch_that_fails_is_reported() -> None:
    api = FakeApi()
    api.breaks = True

    (lie,) = (await judged(api)).lies
    assert lie == "the watch of models failed: ConnectionResetError: the watch broke"
