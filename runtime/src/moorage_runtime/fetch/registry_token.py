"""Who asks a registry: a token of its token service, renewed before it ends.

Source: CNCF Distribution, "Token Authentication Specification".
"""

import re
import threading
import time
from urllib.parse import urlencode, urlsplit

from moorage_runtime.fetch.failures import BadSource, Denied
from moorage_runtime.fetch.json_answers import number, parse_object, text
from moorage_runtime.fetch.redirects import host_of
from moorage_runtime.fetch.store import plain_failure
from moorage_runtime.fetch.web import Web

__all__ = ["RegistryToken", "parse_challenge"]

PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
# Of a token that does not say how long it holds. Source: as above, "expires_in".
DEFAULT_SECONDS = 60
# So early is a token renewed that no request begins with one that has just ended.
RENEWED_BEFORE_SECONDS = 10


class RegistryToken:
    """The Authorization header for one repository; safe to ask from several threads.

    Args:
        base: The registry, such as https://registry.example.
        repository: What is pulled.
        basic: Who asks, as an Authorization header; empty: nobody.
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
            FetchError: The token service gives nothing.
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
        # a password goes over https alone, or to where the registry itself is
        if urlsplit(realm).scheme != "https" and not self._base.startswith("http://"):
            raise BadSource(f"the token service of {host_of(self._base)} is not reached by https")
        query = {"service": challenge.get("service", ""), "scope": self._scope}
        asked = urlencode({name: value for name, value in query.items() if value})
        headers = {"Authorization": self._basic} if self._basic else {}
        what = f"a token of {host_of(realm)}"
        with self._web.open(f"{realm}?{asked}", headers) as answer:
            if answer.status != 200:
                raise plain_failure(answer, what, told=bool(self._basic))
            found = parse_object(answer.body(), what)
        token = text(found, "token") or text(found, "access_token")
        if not token:
            raise Denied(f"{host_of(realm)} answers without a token")
        self._header = f"Bearer {token}"
        self._ends = time.monotonic() + (number(found, "expires_in") or DEFAULT_SECONDS)


def parse_challenge(header: str) -> dict[str, str]:
    """The parameters of a WWW-Authenticate header, and its `scheme` in lower case."""
    scheme, _, rest = header.strip().partition(" ")
    return {**dict(PARAMETER.findall(rest)), "scheme": scheme.lower()}
