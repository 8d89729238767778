"""The token for Google: the Secret's key file, otherwise the pod's identity, or none."""

import json
import threading
from typing import Any, cast

import google.auth
import urllib3
from google.auth.credentials import Credentials as GoogleCredentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.urllib3 import Request

from moorage_runtime.fetch.decide.answers import cleaned
from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.failures import BadSource, Denied

__all__ = ["KEY_FILE", "GoogleToken"]

KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS_JSON"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"


class GoogleToken:
    """A bearer token that is renewed before it expires; thread-safe.

    Args:
        credentials: The model's Secret; its key file may belong to a service account or to
            workload identity federation.

    Raises:
        BadSource: The key file is invalid.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._lock = threading.Lock()
        self._request = Request(urllib3.PoolManager())
        self._credentials = _of_key(credentials.text(KEY_FILE)) or _of_pod()

    @property
    def given(self) -> bool:
        """Whether requests have a token."""
        return self._credentials is not None

    def headers(self) -> dict[str, str]:
        """The Authorization header, empty without a token.

        Raises:
            Denied: Google refuses a token.
        """
        if self._credentials is None:
            return {}
        # the library's methods are not annotated
        credentials = cast("Any", self._credentials)
        with self._lock:
            try:
                if not credentials.valid:
                    credentials.refresh(self._request)
            except GoogleAuthError as error:
                why = cleaned(str(error))
                raise Denied(f"Google refuses a token for {KEY_FILE}: {why}") from error
            return {"Authorization": f"Bearer {credentials.token}"}


def _of_key(text: str) -> GoogleCredentials | None:
    if not text:
        return None
    load = cast("Any", google.auth.load_credentials_from_dict)
    try:
        credentials, _ = load(json.loads(text), scopes=[SCOPE])
    except (ValueError, TypeError, GoogleAuthError) as error:
        raise BadSource(
            f"the key {KEY_FILE} of the Secret is not a Google key file in JSON"
        ) from error
    return credentials


def _of_pod() -> GoogleCredentials | None:
    try:
        credentials, _ = cast("Any", google.auth.default)(scopes=[SCOPE])
    except DefaultCredentialsError:
        return None
    return credentials
