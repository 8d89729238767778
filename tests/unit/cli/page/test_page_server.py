"""The server of the page: its files, its headers, and what a page gets that follows the models."""

import json
import re
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import httpx
import pytest

from moorage_cli.page.feed import Change, Feed
from moorage_cli.page.server import Actions, PageServer
from moorage_cli.printing.failures import Failure

SECONDS = 20
IRIS = {"metadata": {"namespace": "models", "name": "iris"}}
ROSE = {"metadata": {"namespace": "models", "name": "rose"}}


class Watch:
    """Changes that a test supplies; a Failure ends the watch."""

    def __init__(self) -> None:
        self.put: SimpleQueue[Change | Failure] = SimpleQueue()

    def changes(self) -> Iterator[Change]:
        while True:
            found = self.put.get()
            if isinstance(found, Failure):
                raise found
            yield found


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def server(watch: Watch) -> Iterator[PageServer]:
    feed = Feed(watch.changes)
    actions = Actions(lambda _, name: {"name": name}, lambda *_: iter(()), lambda *_: {})
    made = PageServer(0, feed, actions)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    feed.close()
    watch.put.put(Failure("over"))
    made.shutdown()
    made.server_close()
    thread.join()


def get(server: PageServer, path: str) -> httpx.Response:
    base = server.url.partition("/#")[0]
    return httpx.get(base + path, headers={"X-Moorage-Token": server.token}, timeout=SECONDS)


def test_every_file_is_served_with_its_type_and_the_policy(server: PageServer) -> None:
    assert {"/", "/page.js", "/page.css"} <= set(server.files)
    for path in server.files:
        answer = get(server, path)
        kind = answer.headers["content-type"].partition(";")[0]
        suffix = path.rpartition(".")[2] if "." in path else "html"
        assert kind == {"html": "text/html", "js": "text/javascript", "css": "text/css"}[suffix]
        policy = dict(each.split(" ", 1) for each in policy_of(answer))
        assert policy["default-src"] == "'none'"
        assert {policy[each] for each in ("script-src", "style-src", "connect-src")} == {"'self'"}
        assert policy["require-trusted-types-for"] == "'script'"
        assert {policy[each] for each in ("frame-ancestors", "base-uri")} == {"'none'"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def policy_of(answer: httpx.Response) -> list[str]:
    return answer.headers["content-security-policy"].split("; ")


def test_the_page_refers_to_its_own_files_only(server: PageServer) -> None:
    for path, (content, _) in server.files.items():
        text = content.decode()
        names = re.findall(r'(?:from|src=|href=) ?"(?!#|data:)\.?(/[^"]*)"', text)
        assert set(names) <= set(server.files), path
        assert set(re.findall(r"https?://[^\"'` ]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_a_page_follows_the_models_through_a_lost_connection(
    server: PageServer, watch: Watch
) -> None:
    page = server.feed.follow()

    def following() -> dict[str, Any]:
        found = page.get(timeout=SECONDS)
        assert found is not None
        return json.loads(json.dumps(found))

    watch.put.put(("ALL", [IRIS]))
    assert [each["name"] for each in following()["all"]] == ["iris"]
    watch.put.put(("PUT", ROSE))
    assert following()["put"]["name"] == "rose"
    watch.put.put(Failure("the API server does not answer"))
    assert following() == {"lost": "the API server does not answer"}
    late = server.feed.follow()
    assert {*late.get(timeout=SECONDS)} == {"all"}
    assert late.get(timeout=SECONDS) == {"lost": "the API server does not answer"}
    watch.put.put(("ALL", [ROSE]))
    assert [each["name"] for each in following()["all"]] == ["rose"]
    watch.put.put(("DELETED", ROSE))
    assert following() == {"deleted": "models/rose"}


def test_a_request_for_something_unknown_is_refused_with_a_sentence(server: PageServer) -> None:
    assert get(server, "/api/model?namespace=models&name=iris").json() == {"name": "iris"}
    answer = get(server, "/api/model?namespace=models")
    assert (answer.status_code, answer.json()["error"]) == (400, "the query has no name")
    assert get(server, "/elsewhere").status_code == 404
