import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.kube import errors, kinds
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import Call, KubeClient
from support.api_server import event, item, listed, serving


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.Gone),
        (418, errors.ApiError),
        (422, errors.Invalid),
        (429, errors.Throttled),
        (500, errors.ServerError),
        (503, errors.ServerError),
    ],
)
async def test_an_error_status_raises_its_class_with_the_servers_message(
    code: int, kind: type[errors.ApiError]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        status = {"message": "because", "reason": "Why"}
        return web.json_response(status, status=code, headers={"Retry-After": "7"})

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        with pytest.raises(kind) as caught:
            await client.get(kinds.PODS, "ns", "name")

    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason, caught.value.message) == (
        code,
        "Why",
        "because",
    )
    assert caught.value.retry_after_seconds == 7


async def test_an_html_page_of_a_proxy_is_an_error() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html>", status=502)

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        with pytest.raises(errors.ServerError, match="502"):
            await client.get(kinds.PODS, "ns", "name")


async def test_a_body_that_is_not_a_json_object_is_a_server_error() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="[1]")

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        with pytest.raises(errors.ServerError):
            await client.get(kinds.PODS, "ns", "name")


async def test_no_answer_is_unreachable_and_counted_with_code_0() -> None:
    calls: list[Call] = []

    async with KubeClient(Access("http://127.0.0.1:1"), observe=calls.append) as client:
        with pytest.raises(errors.Unreachable):
            await client.get(kinds.PODS, "ns", "name")

    assert [(call.verb, call.resource, call.code) for call in calls] == [("get", "pods", 0)]


async def test_apply_sends_the_object_with_manager_and_force() -> None:
    seen: list[tuple[str, str, dict[str, str], str, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        kind = request.headers["Content-Type"]
        body = await request.read()
        seen.append((request.method, request.path, dict(request.query), kind, body))
        return web.json_response(item("iris"))

    body = {"metadata": {"namespace": "ns", "name": "iris"}, "status": {}}
    async with serving(answer) as server, KubeClient(Access(server)) as client:
        written = await client.apply(
            kinds.INFERENCE_MODEL_STATUS, body, field_manager="moorage-status"
        )

    assert written["metadata"]["name"] == "iris"
    path = "/apis/moorage.dev/v1alpha1/namespaces/ns/inferencemodels/iris/status"
    query = {"fieldManager": "moorage-status", "force": "true", "fieldValidation": "Ignore"}
    assert seen == [
        (
            "PATCH",
            path,
            query,
            "application/apply-patch+yaml",
            json.dumps(body, separators=(",", ":")).encode(),
        )
    ]


async def test_an_object_is_found_by_its_name_and_labels() -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, dict(request.query)))
        items = [{"metadata": {"name": "iris"}}] if request.query.get("labelSelector") else []
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        kind = kinds.SERVICES
        found = await client.page(kind, "ns", name="iris", selector="team=a")
        assert list(found.items) == [{"metadata": {"name": "iris"}}]
        assert not list((await client.page(kind, "ns", name="iris")).items)

    path, query = "/api/v1/namespaces/ns/services", {"fieldSelector": "metadata.name=iris"}
    query["limit"] = "250"
    assert asked == [(path, {**query, "labelSelector": "team=a"}), (path, query)]


async def test_delete_only_deletes_the_known_version() -> None:
    seen: list[tuple[str, str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, await request.json()))
        return web.json_response({"kind": "Status", "status": "Success"})

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        await client.delete(kinds.SERVICES, "ns", "iris", uid="u", resource_version="7")
        client.write_seconds = lambda: 0
        with pytest.raises(errors.NotLeading):
            await client.delete(kinds.SERVICES, "ns", "iris", uid="u", resource_version="7")

    ((method, path, options),) = seen
    assert (method, path) == ("DELETE", "/api/v1/namespaces/ns/services/iris")
    assert options["preconditions"] == {"uid": "u", "resourceVersion": "7"}


async def test_events_of_any_size_are_reassembled() -> None:
    large = item("large", note="x" * 300_000)
    data = event("ADDED", large) + event("DELETED", item("small")) + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(data), 70_001):
            await response.write(data[start : start + 70_001])
        return response

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        changes = [
            each async for each in client.watch(kinds.PODS, resource_version="1", seconds=60)
        ]

    assert [(each.type, each.object["metadata"]["name"]) for each in changes] == [
        ("ADDED", "large"),
        ("DELETED", "small"),
    ]
    assert changes[0].object == large


@pytest.mark.parametrize(
    ("code", "kind"), [(410, errors.Gone), (500, errors.ServerError), (None, errors.ServerError)]
)
async def test_an_error_event_is_raised(code: int | None, kind: type[errors.ApiError]) -> None:
    async def answer(_: web.Request) -> web.Response:
        status = {"kind": "Status", "message": "too old"} | ({"code": code} if code else {})
        return web.Response(body=event("ERROR", status))

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        with pytest.raises(kind, match="too old"):
            async for _ in client.watch(kinds.PODS, resource_version="1", seconds=60):
                pass


def _with(server: str, token: Path) -> Access:
    return Access(server, token_path=token)


async def test_the_token_file_is_read_again_after_a_401(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        if seen[-1] == "Bearer old":
            return web.json_response({"message": "expired"}, status=401)
        return web.json_response(listed([]))

    async with serving(answer) as server, KubeClient(_with(server, token)) as client:
        with pytest.raises(errors.Unauthorized):
            await client.page(kinds.PODS)
        token.write_text("new\n")
        await client.page(kinds.PODS)

    assert seen == ["Bearer old", "Bearer new"]


async def test_a_kind_is_served_when_discovery_lists_it() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/apis/moorage.dev/v1alpha1":
            return web.json_response({"resources": [{"name": "inferencemodels"}]})
        return web.json_response({}, status=404)

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        assert await client.serves(kinds.INFERENCE_MODELS)
        assert not await client.serves(kinds.EVENTS)


async def test_a_silent_server_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage_operator.kube.client.REQUEST_TIMEOUT_SECONDS", 0.05)

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(10)
        return web.Response()

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        with pytest.raises(errors.Unreachable):
            await client.page(kinds.PODS)


@pytest.fixture
def _watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage_operator.kube.client.LEADING_LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("_watchful")
async def test_a_write_is_cancelled_when_leadership_is_lost() -> None:
    left = [5.0]
    began = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        began.set()
        await asyncio.Event().wait()
        return web.Response()

    body = {"metadata": {"namespace": "ns", "name": "iris"}}
    async with serving(answer) as server, KubeClient(Access(server)) as client:
        client.write_seconds = lambda: left[0]
        writing = asyncio.create_task(client.apply(kinds.SERVICES, body, field_manager="m"))
        await asyncio.wait_for(began.wait(), 5)
        left[0] = 0

        with pytest.raises(errors.NotLeading):
            await asyncio.wait_for(writing, 5)


@pytest.mark.usefixtures("_watchful")
async def test_a_slow_write_continues_while_the_lease_is_renewed() -> None:
    looks = itertools.count()
    enough = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await enough.wait()
        return web.json_response(item("iris"))

    def left() -> float:
        if next(looks) > 20:
            enough.set()
        return 0.01

    body = {"metadata": {"namespace": "ns", "name": "iris"}}
    async with serving(answer) as server, KubeClient(Access(server)) as client:
        client.write_seconds = left

        written = await asyncio.wait_for(client.apply(kinds.SERVICES, body, field_manager="m"), 5)

    assert written["metadata"]["name"] == "iris"


async def test_watches_do_not_exhaust_the_connections_of_requests() -> None:
    opened = 0
    all_open = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal opened
        if "watch" not in request.query:
            return web.json_response(item("iris"))
        response = web.StreamResponse()
        await response.prepare(request)
        opened += 1
        if opened == 270:
            all_open.set()
        await asyncio.Event().wait()
        return response

    async def watch(client: KubeClient) -> None:
        async for _ in client.watch(kinds.PODS, resource_version="1", seconds=60):
            pass

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        watches = [asyncio.create_task(watch(client)) for _ in range(270)]
        await asyncio.wait_for(all_open.wait(), 20)

        await asyncio.wait_for(client.get(kinds.SERVICES, "ns", "iris"), 5)

        for each in watches:
            each.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def test_hanging_requests_do_not_delay_the_lease() -> None:
    hanging, release = asyncio.Semaphore(0), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/leases/moorage"):
            return web.json_response(item("moorage"))
        hanging.release()
        await release.wait()
        return web.json_response(item("iris"))

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        others = [
            asyncio.create_task(client.get(kinds.SERVICES, "ns", "iris")) for _ in range(200)
        ]
        for _ in range(128):
            await hanging.acquire()

        await client.get(kinds.LEASES, "ns", "moorage", timeout_seconds=5)

        release.set()
        await asyncio.gather(*others)


def test_paths_follow_the_api_conventions() -> None:
    assert kinds.PODS.path() == "/api/v1/pods"
    assert kinds.SERVICES.path("ns") == "/api/v1/namespaces/ns/services"
    assert kinds.DEPLOYMENTS.path("ns", "a/b") == "/apis/apps/v1/namespaces/ns/deployments/a%2Fb"
    assert kinds.INFERENCE_MODEL_STATUS.rbac_name == "inferencemodels/status"


async def test_a_json_patch_is_sent_as_one() -> None:
    seen: list[tuple[str, str, bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.headers["Content-Type"], await request.read()))
        return web.json_response(item("iris"))

    operations = [{"op": "replace", "path": "/a", "value": 1}]
    async with serving(answer) as server, KubeClient(Access(server)) as client:
        await client.patch(kinds.SERVICES, "ns", "iris", operations)
        client.write_seconds = lambda: 0.0
        with pytest.raises(errors.NotLeading):
            await client.patch(kinds.SERVICES, "ns", "iris", operations)

    sent = json.dumps(operations, separators=(",", ":")).encode()
    assert seen == [("PATCH", "application/json-patch+json", sent)]
