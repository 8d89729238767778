"""The server of the page: its files, its headers, and what a page gets that follows the models."""

import json
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any

import httpx
import pytest

from moorage_cli.page.access import Actions
from moorage_cli.page.feed import Change, Feed
from moorage_cli.page.local_access import HOST, LocalAccess
from moorage_cli.page.server import PageServer
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


def no_log(_: str, __: str) -> Iterator[str]:
    return iter(())


def do_nothing(_: str, __: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def feed(watch: Watch) -> Feed:
    return Feed(watch.changes)


@pytest.fixture
def server(feed: Feed, watch: Watch) -> Iterator[PageServer]:
    actions = Actions(lambda _, name: {"name": name}, no_log, do_nothing)
    made = PageServer(HOST, 0, LocalAccess("test", feed, actions), connection_limit=2)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    feed.close()
    watch.put.put(Failure("over"))
    made.shutdown()
    made.server_close()
    thread.join()


def get(server: PageServer, path: str) -> httpx.Response:
    return httpx.get(url(server, path), headers=headers(server), timeout=SECONDS)


def url(server: PageServer, path: str) -> str:
    return f"http://{HOST}:{server.port}{path}"


def headers(server: PageServer) -> dict[str, str]:
    assert isinstance(server.access, LocalAccess)
    return {"X-Moorage-Token": server.access.token}


def test_the_page_names_its_cluster_as_text(feed: Feed) -> None:
    actions = Actions(lambda _, name: {"name": name}, no_log, do_nothing)
    with PageServer(HOST, 0, LocalAccess('a">b, https://x', feed, actions)) as made:
        page, _ = made.files["/"]

    assert b'<html lang="en" data-cluster="a&quot;&gt;b, https://x">' in page


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
    server: PageServer, feed: Feed, watch: Watch
) -> None:
    page = feed.follow()

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
    late = feed.follow()
    assert {*(late.get(timeout=SECONDS) or ())} == {"all"}
    assert late.get(timeout=SECONDS) == {"lost": "the API server does not answer"}
    watch.put.put(("ALL", [ROSE]))
    assert [each["name"] for each in following()["all"]] == ["rose"]
    watch.put.put(("DELETED", ROSE))
    assert following() == {"deleted": "models/rose"}


def test_models_are_not_kept_as_they_were_listed() -> None:
    class Listed(list[Any]):
        """A list that can be watched."""

    listed: list[weakref.ref[Listed]] = []
    is_over = threading.Event()

    def changes() -> Iterator[Change]:
        found = Listed([IRIS])
        listed.append(weakref.ref(found))
        rest = [found]
        del found
        yield "ALL", rest.pop()
        is_over.wait(SECONDS)

    feed = Feed(changes, is_over.set)
    page = feed.follow()
    assert {*(page.get(timeout=SECONDS) or ())} == {"all"}
    assert until(lambda: listed[0]() is None)
    feed.close()


def test_a_request_for_something_unknown_is_refused_with_a_sentence(server: PageServer) -> None:
    assert get(server, "/api/model?namespace=models&name=iris").json() == {"name": "iris"}
    answer = get(server, "/api/model?namespace=models")
    assert (answer.status_code, answer.json()["error"]) == (400, "the query has no name")
    assert get(server, "/elsewhere").status_code == 404


def test_a_command_is_accepted_as_json_only_which_other_sites_cannot_send(
    server: PageServer,
) -> None:
    body = '{"command": "pause"}'
    for kind, status in (("text/plain", 415), ("application/json", 200)):
        sent = {**headers(server), "Content-Type": kind}
        answer = httpx.post(url(server, "/api/do"), content=body, headers=sent, timeout=SECONDS)
        assert answer.status_code == status


@pytest.mark.parametrize("body", [b"{", b"[" * 50_000])
def test_a_body_that_is_not_json_is_refused(server: PageServer, body: bytes) -> None:
    kind = {**headers(server), "Content-Type": "application/json"}
    answer = httpx.post(url(server, "/api/do"), content=body, headers=kind, timeout=SECONDS)
    assert (answer.status_code, answer.json()["error"]) == (400, "the body is not JSON")


@pytest.mark.parametrize(
    ("length", "status"), [(str(1 << 40), 413), ("9" * 5000, 413), ("-1", 400)]
)
def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    server: PageServer, length: str, status: int
) -> None:
    kind = {**headers(server), "Content-Type": "application/json", "Content-Length": length}
    lines = ["POST /api/do HTTP/1.1", f"Host: {HOST}:{server.port}"]
    lines += [f"{name}: {value}" for name, value in kind.items()]
    with socket.create_connection((HOST, server.port), SECONDS) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        assert client.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("GET /", "Content-Length: {size}"),
        ("GET /api/models", "Content-Length: {size}"),
        ("GET /", "Transfer-Encoding: chunked"),
        ("POST /api/do", "Content-Length: 2\r\nTransfer-Encoding: chunked"),
        ("POST /api/do", "Content-Length: 2\r\nContent-Length: {size}"),
    ],
)
def test_a_body_is_never_taken_for_another_request(
    server: PageServer, line: str, fields: str
) -> None:
    host = f"Host: {HOST}:{server.port}"
    hidden = f"{{}}GET /healthz HTTP/1.1\r\n{host}\r\n\r\n"
    lines = [f"{line} HTTP/1.1", host, "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers(server).items()]
    lines += [fields.format(size=len(hidden)), "", hidden]
    with socket.create_connection((HOST, server.port), SECONDS) as client:
        client.sendall("\r\n".join(lines).encode())
        answers = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_a_request_that_does_not_arrive_ends_its_connection(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_cli.page.server.REQUEST_SECONDS", 0.3)
    began = time.monotonic()
    with socket.create_connection((HOST, server.port), SECONDS) as client, suppress(OSError):
        while time.monotonic() - began < SECONDS:  # each byte in time, the request never
            client.sendall(b"G")
            client.settimeout(0.05)
            with suppress(TimeoutError):
                if not client.recv(1):
                    break
    assert time.monotonic() - began < SECONDS


def test_too_many_connections_are_closed(server: PageServer) -> None:
    address = HOST, server.port
    with ExitStack() as stack:
        *_, third = [
            stack.enter_context(socket.create_connection(address, SECONDS)) for _ in range(3)
        ]
        assert third.recv(1) == b""
    assert until(lambda: get(server, "/").status_code == 200)


def until(probe: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if probe():
                return True
    return False


@pytest.mark.parametrize(
    ("has_ipv6", "reached"), [(True, ["127.0.0.1", "::1"]), (False, ["127.0.0.1"])]
)
def test_all_addresses_are_those_of_both_families(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, has_ipv6: bool, reached: list[str]
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: has_ipv6)
    actions = Actions(lambda _, name: {"name": name}, no_log, do_nothing)
    found: list[str] = []
    with PageServer("::", 0, LocalAccess("test", feed, actions)) as made:
        for address in ("127.0.0.1", "::1"):
            with suppress(OSError):
                socket.create_connection((address, made.port), timeout=SECONDS).close()
                found.append(address)

    assert found == reached
