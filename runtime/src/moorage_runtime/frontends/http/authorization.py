"""Checks bearer tokens, before a body is read.

Source: RFC 6750, 2.1 and 3.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import Final

from moorage_runtime.frontends.http.received import Refusal

_CHALLENGE: Final = ((b"WWW-Authenticate", b"Bearer"),)


class BearerToken:
    """Allows requests that have one of the tokens or an exempt path.

    Attributes:
        tokens: Accepted tokens; more than one during a rotation.
        is_exempt: Whether a method and path need no token, such as probes.
    """

    def __init__(self, tokens: Sequence[str], is_exempt: Callable[[str, str], bool]) -> None:
        self._is_exempt = is_exempt
        self.replace(tokens)

    def replace(self, tokens: Sequence[str]) -> None:
        """Replace the accepted tokens."""
        self._tokens = [token.encode() for token in tokens]

    def knows(self, token: str) -> bool:
        """Whether this is one of the tokens."""
        given = token.encode("utf-8", "surrogateescape")
        # every token is compared in full, so the time reveals nothing
        matches = [hmac.compare_digest(given, known) for known in self._tokens]
        return any(matches)

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> Refusal | None:
        """None if the request is allowed, otherwise the refusal."""
        if self._is_exempt(method, path):
            return None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(token.strip()):
            return None
        return Refusal(401, "a valid bearer token is required", path, _CHALLENGE)
