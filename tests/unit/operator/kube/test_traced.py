"""Signs of life of watches, recorded by a session for kopf."""

import asyncio
import random

import pytest
from aiohttp import ClientConnectionError, ClientTimeout, web

from moorage_operator.kube import kinds, traced
from moorage_operator.kube.auth import Access
from moorage_operator.kube.liveness import Liveness
from support.api_server import serving

PATH = "/apis/moorage.dev/v1alpha1/namespaces/{}/inferencemodels"


async def test_answers_for_a_namespace_are_signs_of_life_of_its_watch() -> None:
    at = 0.0
    livenesses = {name: Liveness("inferencemodels", name, lambda: at) for name in ("a", "b", "c")}
    codes = {PATH.format("a"): 200, PATH.format("b"): 403, PATH.format("c"): 400}

    async def answer(request: web.Request) -> web.Response:
        if request.path == PATH.format("a") and at > 1000:
            assert request.transport
            request.transport.abort()
        return web.Response(status=codes.get(request.path, 200))

    asked: list[None] = []
    async with (
        serving(answer) as server,
        traced.open_session(
            Access(server),
            "token",
            kinds.INFERENCE_MODELS,
            livenesses,
            asked=lambda: asked.append(None),
        ) as session,
    ):
        await (await session.get(server + "/apis")).read()
        assert not asked
        at = 1000.0
        for path in (*codes, "/apis", PATH.format("other"), PATH.format("a") + "/iris"):
            await (await session.get(server + path)).read()
        assert len(asked) == len(codes)
        assert livenesses["a"].trouble() == ""
        assert "403" in livenesses["b"].failure
        assert "400" in livenesses["c"].failure
        at = 1001.0
        assert (livenesses["a"].refused_seconds(), livenesses["b"].refused_seconds()) == (0, 1)

        with pytest.raises(ClientConnectionError):
            await session.get(server + PATH.format("a"))
        assert livenesses["a"].failure == "Server disconnected"
        with pytest.raises(TimeoutError):  # an error without a text
            await session.get(server + PATH.format("c"), timeout=ClientTimeout(total=0.0001))
        assert livenesses["c"].failure == "TimeoutError"


async def test_a_watch_of_all_namespaces_has_one_liveness() -> None:
    at = 0.0
    every = Liveness("inferencemodels", "", lambda: at)

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async with (
        serving(answer) as server,
        traced.open_session(Access(server), None, kinds.INFERENCE_MODELS, {"": every}) as session,
    ):
        at = 1000.0
        assert every.trouble() != ""
        await (await session.get(f"{server}{PATH.replace('/namespaces/{}', '')}")).read()
        assert every.trouble() == ""


@pytest.mark.parametrize(("token", "sent"), [("secret", "Bearer secret"), (None, None)])
async def test_requests_have_the_token_and_no_limit(token: str | None, sent: str | None) -> None:
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response()

    async with (
        serving(answer) as server,
        traced.open_session(Access(server), token, kinds.INFERENCE_MODELS, {}) as session,
    ):
        await (await session.get(server)).read()
        assert session.connector is not None
        assert session.connector.limit == 0  # one watch for each namespace
        assert not session.trust_env
    assert seen == [sent]


async def test_watches_that_end_at_once_are_opened_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, sleep = 1000.0, asyncio.sleep
    delays: list[float] = []

    async def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds
        if seconds:
            delays.append(round(seconds, 3))
        await sleep(0)

    async def answer(request: web.Request) -> web.Response:
        del request
        return web.Response()

    monkeypatch.setattr(asyncio, "sleep", pass_time)
    monkeypatch.setattr(random, "uniform", max)
    models = kinds.INFERENCE_MODELS
    async with (
        serving(answer) as server,
        traced.open_session(Access(server), None, models, {}, clock=lambda: now) as session,
    ):

        async def watch(namespace: str, lasting: float = 0.0) -> None:
            nonlocal now
            await (await session.get(server + PATH.format(namespace) + "?watch=true")).read()
            now += lasting

        for _ in range(10):
            await watch("a")
            await (await session.get(server + PATH.format("a"))).read()  # a list is not delayed
        assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]

        await watch("b", lasting=0.9)
        assert len(delays) == 9
        await watch("b", lasting=1.0)
        await watch("b", lasting=0.9)
        await watch("b")
        assert delays[9:] == [0.1, 0.1]
