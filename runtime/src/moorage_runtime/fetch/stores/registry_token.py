"""Tokens of a registry's token service, renewed before they expire.

Source: CNCF Distribution, "Token Authentication Specification".
"""

import re
import threading
import time
from urllib.parse import urlencode, urlsplit

from moorage_runtime.fetch.decide.failures import BadSource, Denied
from moorage_runtime.fetch.decide.json_answers import number, parse_object, text
from moorage_runtime.fetch.decide.redirects import host_of
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Web

__all__ = ["RegistryToken", "parse_challenge"]

PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
# Lifetime of a token without one. Source: as above, "expires_in".
DEFAULT_SECONDS = 60
# Tokens are renewed this long before they expire, so that no request starts with an expired one.
RENEWED_BEFORE_SECONDS = 10


class RegistryToken:
    """The Authorization header for one repository; thread-safe.

    Args:
        base: The registry, such as https://registry.example.
        repository: The repository to pull.
        basic: Credentials as an Authorization header, or "".
        web: The network.
    """

    def __init__(self, base: str, repository: str, basic: str, web: Web) -> None:
        self._base = base
        self._scope = f"repository:{repository}:pull"
        self._basic = basic
        self._web = web
        self._challenge: dict[str, str] | None = None
        self._header = ""
        self._ends = 0.0
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """What to send with a request.

        Raises:
            FetchError: The token service returns no token.
        """
        with self._lock:
            if self._challenge is None:
                with self._web.open(f"{self._base}/v2/", {}) as answer:
                    told = answer.headers.get("WWW-Authenticate", "")
                    self._challenge = parse_challenge(told) if answer.status == 401 else {}
            if "realm" not in self._challenge:
                return {}
            if self._challenge["scheme"] == "basic":
                return {"Authorization": self._basic} if self._basic else {}
            if time.monotonic() > self._ends - RENEWED_BEFORE_SECONDS:
                self._renew(self._challenge)
            return {"Authorization": self._header}

    def _renew(self, challenge: dict[str, str]) -> None:
        realm = challenge["realm"]
        # a password is sent only with https, or to the machine of the registry itself
        if urlsplit(realm).scheme != "https" and not self._base.startswith("http://"):
            raise BadSource(
                f"the token service of {host_of(self._base)} does not use https, which is required"
            )
        query = {"service": challenge.get("service", ""), "scope": self._scope}
        asked = urlencode({name: value for name, value in query.items() if value})
        headers = {"Authorization": self._basic} if self._basic else {}
        what = f"a token of {host_of(realm)}"
        # the address of a token service may have parameters of its own
        mark = "&" if "?" in realm else "?"
        with self._web.open(f"{realm}{mark}{asked}", headers) as answer:
            if answer.status != 200:
                raise plain_failure(answer, what, told=bool(self._basic))
            found = parse_object(answer.body(), what)
        token = text(found, "token") or text(found, "access_token")
        if not token:
            raise Denied(f"the response of {host_of(realm)} contains no token")
        self._header = f"Bearer {token}"
        self._ends = time.monotonic() + (number(found, "expires_in") or DEFAULT_SECONDS)


def parse_challenge(header: str) -> dict[str, str]:
    """The parameters of a WWW-Authenticate header, and its `scheme` in lower case."""
    scheme, _, rest = header.strip().partition(" ")
    return {**dict(PARAMETER.findall(rest)), "scheme": scheme.lower()}
