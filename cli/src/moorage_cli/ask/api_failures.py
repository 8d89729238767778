"""The failures of the Kubernetes API as sentences."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["Conflict", "Expired", "Forbidden", "Missing", "Unauthenticated", "failures_of"]


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


class Unauthenticated(Failure):
    """The API server does not accept the credentials (HTTP 401)."""


class Forbidden(Failure):
    """The user lacks the right (HTTP 403)."""


class Expired(Exception):
    """The start of the watch has expired (HTTP 410)."""


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
        kind = KINDS.get(error.status or 0, Failure)
        raise kind(f"{what}: {_sentence(error)}") from error
    except (HTTPError, OSError) as error:
        raise Failure(f"{what}: the API server does not answer: {reason_of(error)}") from error


def _sentence(error: ApiException) -> str:
    """The API server's own message."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        message = _of_web_socket(str(error.reason))
    if error.status == 404 and "not found" not in str(message):
        return f"{message} (is it installed in this cluster?)"
    return str(message)


def _owned(error: ApiException) -> tuple[tuple[str, str], ...]:
    """The fields that others own and their managers; empty if it is another conflict."""
    try:
        listed = [
            (str(cause["field"]), MANAGER.match(str(cause["message"])))
            for cause in json.loads(error.body or "")["details"]["causes"]
            if cause["reason"] == "FieldManagerConflict"
        ]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple((field, found["name"] if found else "") for field, found in listed)


def _of_web_socket(reason: str) -> str:
    """The message of a refused WebSocket, whose headers and body are behind marks."""
    first, _, rest = reason.partition(" -+-+- ")
    try:
        return json.loads(rest.rpartition(" -+-+- ")[2])["message"]
    except (ValueError, TypeError, KeyError):
        return first
