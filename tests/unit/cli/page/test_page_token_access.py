"""The page in a cluster: whom it admits, and how its feeds begin, are shared and end."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import httpx
import pytest

from moorage_cli.ask.api_failures import Forbidden, Unauthenticated
from moorage_cli.page.access import Actions, Refused
from moorage_cli.page.feed import Change, Feed
from moorage_cli.page.server import PageServer
from moorage_cli.page.token_access import TOKEN_FEED_LIMIT, Account, TokenAccess
from moorage_cli.printing.failures import Failure

SECONDS = 20
LOOPBACK = "127.0.0.1"


def no_log(_: str, __: str) -> Iterator[str]:
    return iter(())


def do_nothing(_: str, __: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


class Cluster:
    """Accounts that may list what a test says; a feed's changes are what is put."""

    def __init__(self) -> None:
        self.refusals: dict[str, Failure] = {}
        self.put: SimpleQueue[Change | Failure | None] = SimpleQueue()
        self.started: list[tuple[str, str | None]] = []
        self.ended: list[tuple[str, str | None]] = []

    def account(self, token: str) -> Account:
        def check(_: str | None) -> None:
            if token in self.refusals:
                raise self.refusals[token]

        def details(_: str, name: str) -> dict[str, Any]:
            check(None)
            return {"name": name, "token": token}

        def feed(namespace: str | None) -> Feed:
            self.started.append((token, namespace))

            def end() -> None:
                self.ended.append((token, namespace))
                self.put.put(None)

            return Feed(self.changes, end, lambda failure: isinstance(failure, Unauthenticated))

        return Account(Actions(details, no_log, do_nothing), check, feed)

    def changes(self) -> Iterator[Change]:
        while (found := self.put.get()) is not None:
            if isinstance(found, Failure):
                raise found
            yield found


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def access(cluster: Cluster) -> Iterator[TokenAccess]:
    made = TokenAccess(cluster.account, feed_limit=2)
    yield made
    made.close()


@pytest.fixture
def base(access: TokenAccess) -> Iterator[str]:
    server = PageServer(LOOPBACK, 0, access)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://{LOOPBACK}:{server.port}"
    server.shutdown()
    server.server_close()
    thread.join()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def details(base: str, headers: dict[str, str]) -> httpx.Response:
    query = {"namespace": "models", "name": "iris"}
    return httpx.get(f"{base}/api/model", params=query, headers=headers, timeout=SECONDS)


def test_each_request_uses_the_token_that_it_has(base: str) -> None:
    assert details(base, bearer("a.b-c_d~e+f/g==")).json()["token"] == "a.b-c_d~e+f/g=="
    assert details(base, bearer("other")).json()["token"] == "other"
    assert details(base, {"authorization": "bearer other"}).json()["token"] == "other"


@pytest.mark.parametrize(
    "given", ["", "Basic dXNlcjpw", "Bearer", "Bearer a b", "Bearer ü", f"Bearer {'a' * 17000}"]
)
def test_a_request_without_a_usable_token_is_told_to_have_one(base: str, given: str) -> None:
    headers = {"Authorization": given.encode("latin-1")} if given else {}
    answer = httpx.get(f"{base}/api/model", headers=headers, timeout=SECONDS)  # type: ignore[arg-type]
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "ü" not in answer.text
    assert "a" * 100 not in answer.text


def test_what_the_api_server_refuses_has_its_status_and_sentence(
    base: str, cluster: Cluster
) -> None:
    cluster.refusals = {
        "old": Unauthenticated("inferencemodels: Unauthorized"),
        "guest": Forbidden("inferencemodels is forbidden: User guest cannot list"),
    }
    for path in ("/api/models", "/api/model?namespace=models&name=iris"):
        old = httpx.get(base + path, headers=bearer("old"), timeout=SECONDS)
        assert (old.status_code, old.headers["www-authenticate"]) == (401, "Bearer")
        assert "may have expired" in old.json()["error"]
        guest = httpx.get(base + path, headers=bearer("guest"), timeout=SECONDS)
        assert (guest.status_code, "User guest" in guest.text) == (403, True)
    assert cluster.started == []


def test_files_and_health_need_no_token(base: str) -> None:
    assert httpx.get(f"{base}/healthz", headers={"Host": "page.example.com"}).text == "ok\n"
    assert "data-signs-in" in httpx.get(base, headers={"Host": "page.example.com"}).text


def test_pages_of_one_token_and_namespace_share_a_feed_that_ends_with_the_last(
    access: TokenAccess, cluster: Cluster
) -> None:
    visit = access.admit(bearer("a"))
    with visit.follow("models"):
        with access.admit(bearer("a")).follow("models"):
            assert cluster.started == [("a", "models")]
        assert cluster.ended == []
        third = access.admit(bearer("b")).follow("models")
        with (
            visit.follow(""),
            pytest.raises(Refused, match="follows 2 namespaces") as found,
            third,
        ):
            pass
        assert found.value.status == 503
        assert cluster.ended == [("a", None)]
    assert (access.feeds, cluster.ended) == (0, [("a", None), ("a", "models")])


def test_one_token_leaves_room_for_others(cluster: Cluster) -> None:
    access = TokenAccess(cluster.account)
    with ExitStack() as pages:
        for number in range(TOKEN_FEED_LIMIT):
            pages.enter_context(access.admit(bearer("a")).follow(f"team-{number}"))
        with (
            pytest.raises(Refused, match=f"this token follows {TOKEN_FEED_LIMIT}") as found,
            access.admit(bearer("a")).follow("one-more"),
        ):
            pass
        assert found.value.status == 429
        pages.enter_context(access.admit(bearer("a")).follow("team-0"))
        pages.enter_context(access.admit(bearer("b")).follow("one-more"))
    assert access.feeds == 0


def test_a_token_that_ends_ends_its_pages_and_is_checked_again(
    access: TokenAccess, cluster: Cluster
) -> None:
    with ExitStack() as pages:
        page = pages.enter_context(access.admit(bearer("a")).follow(""))
        cluster.put.put(("ALL", []))
        assert page.get(timeout=SECONDS) == {"all": []}
        cluster.put.put(Unauthenticated("Unauthorized"))
        assert page.get(timeout=SECONDS) is None
        late = pages.enter_context(access.admit(bearer("a")).follow(""))
        assert late.get(timeout=SECONDS) == {"all": []}
        assert late.get(timeout=SECONDS) is None
    cluster.refusals["a"] = Unauthenticated("Unauthorized")
    with pytest.raises(Unauthenticated), access.admit(bearer("a")).follow(""):
        pass
    assert access.feeds == 0


@pytest.mark.parametrize("name", ["..", "A", "a/b", "a" * 64, "-a"])
def test_a_namespace_that_is_no_name_is_refused(access: TokenAccess, name: str) -> None:
    with pytest.raises(Refused, match="is not a name"), access.admit(bearer("a")).follow(name):
        pass
