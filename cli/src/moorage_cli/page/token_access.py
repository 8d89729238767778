"""Access to the page of `moorage ui-server`: for users with a token of the cluster.

    Authorization: Bearer -> Account of the token -> actions
                                                  -> check, then the feed of token and namespace

The page has no rights. It uses the token of each request against the API server, which decides
what its user may do. Rows are shared only between pages of the same token and namespace, and each
of these pages has listed the models itself before it gets any.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from moorage_cli.page.access import Actions, Headers, Refused, Rows, Visit
from moorage_cli.page.feed import Feed

__all__ = ["Account", "TokenAccess"]

# RFC 6750, "b64token". Anything else could break out of the header that is sent on.
TOKEN = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/-]{1,16384}=*)")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Each has a connection to the API server, a thread and all rows of its namespace in memory.
FEED_LIMIT = 64
# Of one token, so that one user with tabs of many namespaces leaves room for others.
TOKEN_FEED_LIMIT = 8


@dataclass(frozen=True, slots=True)
class Account:
    """What a token is good for; the API server decides at each call.

    Args:
        actions: What its user can ask for.
        check: Raises Failure unless the models of a namespace may be listed; None means all.
        feed: Starts to follow these models.
    """

    actions: Actions
    check: Callable[[str | None], None]
    feed: Callable[[str | None], Feed]


@dataclass(slots=True)
class _Followed:
    feed: Feed
    pages: int = 0


class TokenAccess:
    """Accounts by their token, and the feeds that their pages follow.

    Args:
        account: The account of a token.
        feed_limit: How many feeds there may be at a time.
    """

    place = ""
    has_sign_in = True
    body_limit = 4 << 20

    def __init__(self, account: Callable[[str], Account], feed_limit: int = FEED_LIMIT) -> None:
        self._account = account
        self._feed_limit = feed_limit
        self._feeds: dict[tuple[bytes, str], _Followed] = {}
        self._lock = threading.Lock()

    @property
    def feeds(self) -> int:
        """The number of feeds."""
        return len(self._feeds)

    def check_host(self, headers: Headers, port: int) -> None:
        """Accept any name: a site that rebinds its own has no token to send."""

    def admit(self, headers: Headers) -> Visit:
        """Admit whoever sends a token; whether it is valid, only the API server knows."""
        given = headers.get("Authorization", "")
        if not given:
            raise Refused(HTTPStatus.UNAUTHORIZED, "sign in with a token of this cluster")
        found = TOKEN.fullmatch(given)
        if found is None:
            sentence = "the Authorization header is not Bearer and a token"
            raise Refused(HTTPStatus.UNAUTHORIZED, sentence)
        account = self._account(found[1])
        key = hashlib.sha256(found[1].encode()).digest()
        return Visit(account.actions, partial(self._follow, key, account))

    def close(self) -> None:
        """End all feeds."""
        with self._lock:
            for each in self._feeds.values():
                each.feed.close()

    @contextmanager
    def _follow(self, token: bytes, account: Account, namespace: str) -> Generator[Rows]:
        if namespace and not NAMESPACE.fullmatch(namespace):
            sentence = (
                f"namespace: {namespace!r} is not a name: use lowercase letters, digits and '-'"
            )
            raise Refused(HTTPStatus.BAD_REQUEST, sentence)
        account.check(namespace or None)
        key = token, namespace
        with self._lock:
            followed = self._feeds.get(key)
            if followed is None:
                self._check_room(token)
                followed = self._feeds[key] = _Followed(account.feed(namespace or None))
            followed.pages += 1
        page = followed.feed.follow()
        try:
            yield page
        finally:
            followed.feed.leave(page)
            with self._lock:
                followed.pages -= 1
                if not followed.pages:
                    del self._feeds[key]
                    followed.feed.close()

    def _check_room(self, token: bytes) -> None:
        if sum(each == token for each, _ in self._feeds) >= TOKEN_FEED_LIMIT:
            sentence = (
                f"this token follows {TOKEN_FEED_LIMIT} namespaces, the most at a time: close the "
                "page of one, or choose all namespaces"
            )
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, sentence)
        if len(self._feeds) >= self._feed_limit:
            sentence = (
                f"the page follows {self._feed_limit} namespaces of its users, the most it can: "
                "try again later"
            )
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, sentence)
