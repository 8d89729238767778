"""The failures of the Kubernetes API as sentences."""

import http.client
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import DecodeError, HTTPError, IncompleteRead, InvalidChunkLength

from moorage_cli.ask.access import Trust, why_no_tls
from moorage_cli.printing.failures import Failure, causes_of, reason_of

__all__ = [
    "Conflict",
    "Expired",
    "Forbidden",
    "MalformedAnswer",
    "Missing",
    "NoCluster",
    "NotServed",
    "Unauthenticated",
    "Unavailable",
    "failures_of",
    "raise_status",
]


class Conflict(Failure):
    """The model has changed since it was read, or others own fields of an apply.

    Args:
        sentence: The API server's own message.
        owned: The fields of an apply that others own, each with the name of its manager.
    """

    def __init__(self, sentence: str, owned: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(sentence)
        self.owned = owned


class NoCluster(Failure):
    """No kubeconfig exists."""


class Missing(Failure):
    """The object does not exist."""


class NotServed(Missing):
    """The API server does not know the kind of the object, which is one of Moorage's."""


class Unauthenticated(Failure):
    """The API server does not accept the credentials (HTTP 401)."""


class Forbidden(Failure):
    """The user lacks the right (HTTP 403)."""


class Unavailable(Failure):
    """The API server does not answer, or cannot at present (HTTP 429 and 5xx)."""


class Expired(Exception):
    """The start of the watch has expired (HTTP 410)."""


class MalformedAnswer(Exception):
    """A response that does not have the form of the Kubernetes API, and why."""


CHECK_SERVER = "check the server of the kubeconfig"
CREDENTIALS = (
    "the API server does not accept your credentials, which may have expired: log in to the "
    "cluster again, or choose another --context"
)
INSTALL = (
    "install it with the chart charts/moorage, as docs/how-to/install.md shows, or choose another "
    "--context"
)
MOORAGE_KINDS = ("inferencemodel", "inferenceruntime")
TRUST = Trust(
    named="the CAs of the kubeconfig",
    fix="set certificate-authority-data of its cluster",
)
CLOSED = (http.client.RemoteDisconnected, http.client.IncompleteRead, IncompleteRead)
KINDS: dict[int, type[Failure]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: Missing,
}
MANAGER = re.compile(r'conflict with "(?P<name>[^"]*)"')


@contextmanager
def failures_of(what: str) -> Generator[None]:
    """Turn the client's exceptions into sentences."""
    try:
        yield
    except ApiException as error:
        if error.status == 410:
            raise Expired from error
        if error.status == 409:
            raise Conflict(f"{what}: {_sentence(error)}", _owned(error)) from error
        sentence = _sentence(error)
        if error.status == 404 and "not found" not in sentence:
            raise _not_served(what, sentence) from error
        is_busy = error.status == 429 or (error.status or 0) >= 500
        kind = Unavailable if is_busy else KINDS.get(error.status or 0, Failure)
        raise kind(f"{what}: {sentence}") from error
    except MalformedAnswer as error:
        raise Failure(
            f"{what}: the response is not one of a Kubernetes API server: {error}: {CHECK_SERVER}"
        ) from error
    except (HTTPError, OSError) as error:
        where = _address(error)
        raise Unavailable(
            f"{what}: the API server does not answer: {_unanswered(error)}{where}"
        ) from error


def raise_status(status: Mapping[str, Any]) -> NoReturn:
    """Raise the error that a watch reports as an event, a Status object."""
    code = status.get("code")
    raise ApiException(code if isinstance(code, int) else 500, body=json.dumps(dict(status)))


def _address(error: BaseException) -> str:
    """The address of the server in parentheses, if the error of a connection has it."""
    for each in causes_of(error):
        pool: Any = getattr(each, "pool", None)
        if getattr(pool, "host", None):
            host = f"[{pool.host}]" if ":" in pool.host else pool.host
            return f" ({pool.scheme}://{host}:{pool.port})"
    return ""


def _unanswered(error: BaseException) -> str:
    """Return why the response is missing or incomplete."""
    for each in causes_of(error):
        if isinstance(each, CLOSED):
            return "it closed the connection before the end of its response"
        if isinstance(each, http.client.HTTPException | InvalidChunkLength):
            return f"its response is not HTTP: {CHECK_SERVER}"
        if isinstance(each, DecodeError):
            return "its response cannot be decompressed"
    return why_no_tls(error, TRUST) or reason_of(error)


def _sentence(error: ApiException) -> str:
    """The API server's own message, or the status of a response without one."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        message = _of_web_socket(str(error.reason or ""))
    if not isinstance(message, str) or not message or message == error.reason:
        message = f"HTTP {error.status} {error.reason or ''}".rstrip()
    if error.status == 401:
        return f"{message}: {CREDENTIALS}"
    if 300 <= (error.status or 0) < 400:
        return f"{message}: a redirect is not followed: {CHECK_SERVER}"
    return message


def _not_served(what: str, sentence: str) -> Missing:
    """A 404 that is not about one object: the API server does not know its kind."""
    for kind in MOORAGE_KINDS:
        if what.lower().startswith(kind):
            return NotServed(
                f"{what}: {sentence}: Moorage's CustomResourceDefinition {kind}s.moorage.dev is "
                f"not installed in this cluster: {INSTALL}"
            )
    return Missing(f"{what}: {sentence} (is it installed in this cluster?)")


def _owned(error: ApiException) -> tuple[tuple[str, str], ...]:
    """The fields that others own and their managers; empty if it is another conflict."""
    try:
        listed = [
            (str(cause["field"]), MANAGER.match(str(cause["message"])))
            for cause in json.loads(error.body or "")["details"]["causes"]
            if cause["reason"] == "FieldManagerConflict"
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
    return tuple((field, found["name"] if found else "") for field, found in listed)


def _of_web_socket(reason: str) -> str:
    """The message of a refused WebSocket, whose headers and body are behind marks."""
    first, _, rest = reason.partition(" -+-+- ")
    try:
        return json.loads(rest.rpartition(" -+-+- ")[2])["message"]
    except (ValueError, TypeError, KeyError):
        return first
