"""The key for requests to S3: the Secret's key pair, otherwise the pod's role, otherwise none.

A pod gets a role in two ways, both with variables that the cluster sets for its service account: a
token that Amazon's STS exchanges for keys (AWS_ROLE_ARN), or an agent on the node that provides
them (AWS_CONTAINER_CREDENTIALS_FULL_URI). The node's own role is not used, because it is not the
model's. Temporary keys are renewed before they expire.
"""

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.failures import Denied
from moorage_runtime.fetch.decide.key_answers import (
    TemporaryKey,
    parse_agent_answer,
    parse_sts_answer,
)
from moorage_runtime.fetch.decide.s3_answers import parse_error
from moorage_runtime.fetch.decide.sigv4 import AccessKey
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Web

__all__ = ["KeySource"]

# Keys are renewed this long before they expire, so that no request starts with an expired key.
RENEWED_BEFORE = timedelta(minutes=5)


class KeySource:
    """The key to sign with; thread-safe.

    Args:
        credentials: The model's Secret.
        environment: The process's variables.
        web: The network.

    Raises:
        BadSource: The Secret has only one key of the pair.
    """

    def __init__(self, credentials: Credentials, environment: Mapping[str, str], web: Web) -> None:
        self._fixed = credentials.access_key()
        self._environment = environment
        self._web = web
        self._temporary: TemporaryKey | None = None
        self._lock = threading.Lock()

    def key(self, now: datetime) -> AccessKey | None:
        """The key, or None if requests are not signed.

        Raises:
            Denied: The pod has a role, but gets no keys for it.
            Corrupt: The response of the node's agent is not JSON.
            Unreachable: The source of the keys does not answer.
        """
        roles = ("AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if self._fixed or not any(self._environment.get(name) for name in roles):
            return self._fixed
        with self._lock:
            if not self._temporary or self._temporary.expires - now < RENEWED_BEFORE:
                self._temporary = (
                    self._by_token() if self._environment.get(roles[0]) else self._by_agent()
                )
            return self._temporary.key

    def _by_token(self) -> TemporaryKey:
        environment = self._environment
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        host = f"sts.{region}.amazonaws.com" if region else "sts.amazonaws.com"
        base = environment.get("AWS_ENDPOINT_URL_STS") or f"https://{host}"
        query = urlencode(
            {
                "Action": "AssumeRoleWithWebIdentity",
                "Version": "2011-06-15",
                "RoleArn": environment["AWS_ROLE_ARN"],
                "RoleSessionName": environment.get("AWS_ROLE_SESSION_NAME") or "moorage-fetch",
                "WebIdentityToken": _read(environment.get("AWS_WEB_IDENTITY_TOKEN_FILE", "")),
            }
        )
        what = f"the role {environment['AWS_ROLE_ARN']}"
        with self._web.send(f"{base}/?{query}", {"Accept": "application/xml"}) as answer:
            if answer.status == 200:
                return parse_sts_answer(answer.body(), what)
            text = answer.error_text()
            if answer.status >= 500:
                raise plain_failure(answer, what, told=True)
            said = parse_error(text)
            raise Denied(f"STS refuses keys for {what}: status {answer.status} {said.code}")

    def _by_agent(self) -> TemporaryKey:
        environment = self._environment
        token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = _read(file)
        headers = {"Authorization": token} if token else {}
        url = environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
        what = "the keys of the pod's role"
        with self._web.send(url, headers) as answer:
            if answer.status == 200:
                return parse_agent_answer(answer.body(), what)
            raise plain_failure(answer, what, told=bool(token))


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Denied(f"the token of the pod's role cannot be read: {error.strerror}") from error
