"""The token for Azure: of the Secret's application, otherwise of the pod's identity, or none.

A pod gets an identity by variables and a file that the cluster sets for its service account
(workload identity). The token of that file, or the secret of an application, is exchanged for a
token of the storage service, which is renewed before it expires.
Source: Microsoft identity platform, "OAuth 2.0 client credentials flow".
"""

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

from moorage_runtime.fetch.decide.answers import cleaned
from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, Denied
from moorage_runtime.fetch.decide.json_answers import number, parse_object, text
from moorage_runtime.fetch.decide.source import parse_endpoint
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Web

__all__ = ["CLIENT", "SECRET", "AzureToken"]

CLIENT, TENANT, SECRET = "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"
FILE, AUTHORITY = "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST"
PUBLIC_CLOUD = "https://login.microsoftonline.com"
SCOPE = "https://storage.azure.com/.default"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
RENEWED_BEFORE = timedelta(minutes=5)
# A longer lifetime, which the calendar may not have, counts as this.
LONGEST_SECONDS = 24 * 3600


class AzureToken:
    """A bearer token; thread-safe.

    Args:
        credentials: The model's Secret.
        environment: The process's variables.
        web: The network.

    Raises:
        BadSource: A key of the application is missing.
    """

    def __init__(self, credentials: Credentials, environment: Mapping[str, str], web: Web) -> None:
        self._web = web
        self._lock = threading.Lock()
        self._token = ""
        self._expires: datetime | None = None
        self._secret = credentials.text(SECRET)
        self._file = "" if self._secret else environment.get(FILE, "")
        values = {
            name: credentials.text(name) or environment.get(name, "") for name in (CLIENT, TENANT)
        }
        missing = [name for name, value in values.items() if not value]
        if self._secret and missing:
            raise BadSource(f"the Secret has {SECRET}, but no key {' and '.join(missing)}")
        self._client, self._tenant = values[CLIENT], values[TENANT]
        self.given = bool((self._secret or self._file) and not missing)
        host = credentials.text(AUTHORITY) or environment.get(AUTHORITY, "") or PUBLIC_CLOUD
        self._authority = parse_endpoint(host, AUTHORITY)

    def headers(self, now: datetime) -> dict[str, str]:
        """The Authorization header, empty without an identity.

        Raises:
            Denied: The identity gets no token.
            Unreachable: The token service does not answer.
        """
        if not self.given:
            return {}
        with self._lock:
            if self._expires is None or self._expires - now < RENEWED_BEFORE:
                self._token, seconds = self._exchange()
                self._expires = now + timedelta(seconds=seconds)
            return {"Authorization": f"Bearer {self._token}"}

    def _exchange(self) -> tuple[str, int]:
        """A token, and how long it is valid."""
        form = {"grant_type": "client_credentials", "client_id": self._client, "scope": SCOPE}
        if self._secret:
            form["client_secret"] = self._secret
        else:
            form |= {
                "client_assertion_type": ASSERTION_TYPE,
                "client_assertion": self._assertion(),
            }
        url = f"{self._authority}/{quote(self._tenant, safe='')}/oauth2/v2.0/token"
        what = f"a token for the Azure client {self._client}"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(form).encode()
        with self._web.send(url, headers, "POST", body) as answer:
            if answer.status == 200:
                found = parse_object(answer.body(), what)
                token, seconds = text(found, "access_token"), number(found, "expires_in")
                if not token or seconds is None:
                    raise Corrupt(f"{what}: the response contains no token")
                return token, min(seconds, LONGEST_SECONDS)
            if answer.status >= 500 or answer.status == 429:
                raise plain_failure(answer, what, told=True)
            said = parse_object(answer.error_text().encode(), what)
        why = cleaned(text(said, "error_description") or text(said, "error"))
        raise Denied(f"Azure refuses {what} (status {answer.status}): {why}")

    def _assertion(self) -> str:
        try:
            return Path(self._file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Denied(
                f"the token of the pod's Azure identity cannot be read: {error.strerror}"
            ) from error
