"""The failures of the Kubernetes API as sentences."""

import json
from collections.abc import Generator
from contextlib import contextmanager

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["Conflict", "Expired", "Missing", "failures_of"]


class Conflict(Failure):
    """The model has changed since it was read."""


class NoCluster(Failure):
    """There is no kubeconfig."""


class Missing(Failure):
    """The object does not exist."""


class Expired(Exception):
    """The start of the watch has expired (HTTP 410)."""


@contextmanager
def failures_of(what: str) -> Generator[None]:
    """Turn the client's exceptions into sentences."""
    try:
        yield
    except ApiException as error:
        if error.status == 410:
            raise Expired from error
        if error.status == 409:
            raise Conflict(f"{what}: {_sentence(error)}") from error
        if error.status == 404:
            raise Missing(f"{what}: {_sentence(error)}") from error
        raise Failure(f"{what}: {_sentence(error)}") from error
    except (HTTPError, OSError) as error:
        raise Failure(f"{what}: the API server does not answer: {reason_of(error)}") from error


def _sentence(error: ApiException) -> str:
    """The API server's own message."""
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        # A refused WebSocket has its headers behind this mark.
        message = str(error.reason).partition(" -+-+- ")[0]
    if error.status == 404 and "not found" not in str(message):
        return f"{message} (is it installed in this cluster?)"
    return str(message)
