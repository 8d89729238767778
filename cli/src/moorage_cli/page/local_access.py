"""Access to the page of `moorage ui`: for the user of this machine only.

Other programs and web sites on this machine must not act with the user's rights. Each call
therefore needs a token that only the opened URL has, in a header that a web site cannot send, and
a Host of loopback, so a site cannot rebind its own name to this address.
"""

import hmac
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus

from moorage_cli.page.access import Actions, Headers, Refused, Rows, Visit
from moorage_cli.page.feed import Feed

__all__ = ["HOST", "LocalAccess"]

HOST = "127.0.0.1"


class LocalAccess:
    """One feed and one set of actions, for whoever has the URL.

    Args:
        place: The cluster, as the page shows it.
        feed: The models.
        actions: What the page can ask for.
    """

    has_sign_in = False
    body_limit = 32 << 20

    def __init__(self, place: str, feed: Feed, actions: Actions) -> None:
        self.place = place
        self.token = secrets.token_urlsafe(24)
        self._feed = feed
        self._actions = actions

    def url(self, port: int) -> str:
        """The address with the token, which a browser does not send to any server."""
        return f"http://{HOST}:{port}/#{self.token}"

    def check_host(self, headers: Headers, port: int) -> None:
        """Refuse a Host header that is not an address of loopback."""
        if headers.get("Host", "") not in {f"{HOST}:{port}", f"localhost:{port}"}:
            sentence = (
                f"the page is at {HOST}:{port} and localhost:{port} only: forward the same port"
            )
            raise Refused(HTTPStatus.FORBIDDEN, sentence)

    def admit(self, headers: Headers) -> Visit:
        """Admit whoever has the token."""
        given = headers.get("X-Moorage-Token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            sentence = "the token is missing: open the URL that moorage ui printed"
            raise Refused(HTTPStatus.UNAUTHORIZED, sentence)
        return Visit(self._actions, self._follow)

    @contextmanager
    def _follow(self, _: str) -> Generator[Rows]:
        page = self._feed.follow()
        try:
            yield page
        finally:
            self._feed.leave(page)
