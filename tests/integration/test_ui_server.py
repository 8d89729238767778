"""`moorage ui-server` and a real API server: each user sees and does what their account may."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.operator_cluster import Api, eventually, model
from support.ui_server import Accounts, UiServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

SECONDS = 30


@pytest.fixture(scope="module")
def server(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    with UiServer(kubeconfig, tmp_path_factory.mktemp("ui-server")) as made:
        yield made


@pytest.fixture
def accounts(api: Api) -> Accounts:
    api.apply(model("iris"))
    return Accounts(api)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def details(server: UiServer, api: Api, token: str) -> httpx.Response:
    query = {"namespace": api.namespace, "name": "iris"}
    url = f"{server.url}/api/model"
    return httpx.get(url, params=query, headers=bearer(token), timeout=SECONDS)


def pause(server: UiServer, api: Api, token: str) -> httpx.Response:
    body = {"command": "pause", "namespace": api.namespace, "name": "iris"}
    url = f"{server.url}/api/do"
    return httpx.post(url, json=body, headers=bearer(token), timeout=SECONDS)


def wall(server: UiServer, token: str, namespace: str = "") -> httpx.Response:
    """The status of the wall; a stream that begins is not read."""
    url = f"{server.url}/api/models"
    query = {"namespace": namespace} if namespace else {}
    with httpx.stream("GET", url, params=query, headers=bearer(token), timeout=SECONDS) as answer:
        if answer.is_error:
            answer.read()
        return answer


def messages(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    return (found for line in answer.iter_lines() if (found := json.loads(line)))


def test_an_editor_sees_and_edits_the_models_of_their_namespace_only(
    server: UiServer, api: Api, accounts: Accounts
) -> None:
    token = accounts.create("editor")

    assert details(server, api, token).json()["name"] == "iris"
    assert pause(server, api, token).json()["ok"] is True
    assert api.get("InferenceModel", "iris")["spec"]["paused"] is True
    for namespace, where in (("", "at the cluster scope"), ("default", '"default"')):
        refused = wall(server, token, namespace)
        assert refused.status_code == 403
        assert f'User "system:serviceaccount:{api.namespace}:editor"' in refused.json()["error"]
        assert where in refused.json()["error"]


def test_a_viewer_sees_but_edits_nothing(server: UiServer, api: Api, accounts: Accounts) -> None:
    token = accounts.create("viewer", ["get", "list", "watch"])

    assert wall(server, token, api.namespace).status_code == 200
    refused = pause(server, api, token)
    assert refused.status_code == 403
    assert 'cannot patch resource "inferencemodels"' in refused.json()["error"]
    assert api.get("InferenceModel", "iris")["spec"]["paused"] is False


def test_a_stranger_gets_the_message_of_the_api_server(
    server: UiServer, api: Api, accounts: Accounts
) -> None:
    token = accounts.create("stranger", [])

    for refused in (
        wall(server, token, api.namespace),
        details(server, api, token),
        pause(server, api, token),
    ):
        assert refused.status_code == 403
        assert ":stranger" in refused.json()["error"]
        assert 'resource "inferencemodels"' in refused.json()["error"]


@pytest.mark.parametrize("kind", ["expired", "garbage"])
def test_a_token_that_is_not_valid_is_refused_everywhere(
    server: UiServer, api: Api, accounts: Accounts, kind: str
) -> None:
    valid = accounts.signed_again(accounts.create("editor"))
    assert details(server, api, valid).status_code == 200
    ended = int(time.time()) - 3600
    times = {"exp": ended, "iat": ended - 3600, "nbf": ended - 3600}
    token = accounts.signed_again(valid, **times) if kind == "expired" else "garbage"

    for refused in (
        wall(server, token),
        wall(server, token, api.namespace),
        details(server, api, token),
        pause(server, api, token),
    ):
        assert refused.status_code == 401
        assert "may have expired" in refused.json()["error"]
    assert api.get("InferenceModel", "iris")["spec"]["paused"] is False


def test_without_a_token_there_are_only_files_and_health(server: UiServer) -> None:
    for path in ("/api/models", "/api/model", "/api/logs"):
        answer = httpx.get(server.url + path, timeout=SECONDS)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert httpx.post(f"{server.url}/api/do", json={}, timeout=SECONDS).status_code == 401
    assert httpx.get(f"{server.url}/healthz", timeout=SECONDS).text == "ok\n"
    assert httpx.get(server.url, timeout=SECONDS).status_code == 200


def test_the_wall_of_a_namespace_follows_it_and_ends_with_its_last_page(
    server: UiServer, api: Api, accounts: Accounts
) -> None:
    token = accounts.create("viewer", ["get", "list", "watch"])
    port = server.api_server_port
    eventually("nothing is followed", lambda: server.connections(port) == 0, seconds=SECONDS)
    url, query = f"{server.url}/api/models", {"namespace": api.namespace}
    words: Any = {"params": query, "headers": bearer(token), "timeout": SECONDS}
    with httpx.stream("GET", url, **words) as first, httpx.stream("GET", url, **words) as second:
        streams = messages(first), messages(second)
        for each in streams:
            assert [row["name"] for row in next(each)["all"]] == ["iris"]
        eventually("one watch for both", lambda: server.connections(port) == 1)
        api.apply(model("second"))
        put = next(each for each in streams[0] if "put" in each)
        assert put["put"]["name"] == "second"
    eventually("the watch has ended", lambda: server.connections(port) == 0, seconds=SECONDS)


def test_a_right_that_is_withdrawn_refuses_the_next_page(
    server: UiServer, api: Api, accounts: Accounts
) -> None:
    token = accounts.create("leaver")
    assert wall(server, token, api.namespace).status_code == 200

    accounts.withdraw("leaver")
    eventually("the right is gone", lambda: wall(server, token, api.namespace).status_code == 403)
    accounts.delete("leaver")
    eventually("the token ends", lambda: wall(server, token).status_code == 401)
