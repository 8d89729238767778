"""Errors of the API server as classes that callers can handle.

    ApiError                   the base; carries code, reason and the server's message
    |- Unreachable             no answer: refused, reset, timed out, not TLS
    |- Unauthorized      401   the token or certificate is not accepted
    |- Forbidden         403   RBAC or admission (quota) refuses
    |- NotFound          404   the object, its namespace or its kind does not exist
    |- Conflict          409   another writer, another uid, or a field of another manager
    |- Gone              410   the resourceVersion is too old: list again
    |- Invalid       400/422   the object is invalid; the same request will never succeed
    |- Throttled         429   retry later; `retry_after_seconds` says when
    |- ServerError       5xx   an error of the server
    `- NotLeading              no request: another process is the leader

The reconciler retries transient errors and reports Invalid and Forbidden in a condition.
Exceptions of libraries (aiohttp, ssl, OSError) are wrapped as Unreachable with their cause,
because callers handle all of them in the same way: wait and retry.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any


class ApiError(Exception):
    """The API server refused a request, or did not answer it.

    Attributes:
        code: The HTTP status code; 0 without an answer.
        reason: The machine-readable reason of the server's Status, "" if there is none.
        message: The message of the server.
        name: The name of the object in the server's Status, "" if there is none.
        retry_after_seconds: The delay that the server requests, None if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        name: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.name = name
        self.retry_after_seconds = retry_after_seconds


class Unreachable(ApiError):
    """No answer from the API server."""


class Unauthorized(ApiError):
    """401: the credentials are not accepted."""


class Forbidden(ApiError):
    """403: RBAC or an admission plugin refuses."""


class NotFound(ApiError):
    """404: the object, its namespace or its kind does not exist."""


class Conflict(ApiError):
    """409: the object has changed, or another manager owns a field."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old."""


class Invalid(ApiError):
    """400 or 422: the object itself is invalid."""


class Throttled(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the server could not serve the request."""


class NotLeading(ApiError):
    """No request was sent, because only the leader may write."""


@contextmanager
def collected(failures: list[ApiError]) -> Generator[None]:
    """Collect the error of a failed step, so that the other steps follow.

    Raises:
        NotLeading: Another process is the leader, so no other step may follow.
    """
    try:
        yield
    except NotLeading:
        raise
    except ApiError as error:
        failures.append(error)


BY_CODE: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}


# Server-side apply answers 500 for an object that does not match its schema, such as one with an
# unknown field, and for a text of a built-in kind that it cannot parse, such as the quantity
# "512 MB"; retrying does not help.
UNTYPED = ("failed to create typed patch object", "unable to convert unstructured object to")


def from_status(code: int, status: object, *, retry_after: str | None = None) -> ApiError:
    """Build the error for an HTTP answer.

    Args:
        code: The HTTP status code, 400 or greater.
        status: The decoded body, normally a Kubernetes Status.
        retry_after: The Retry-After header.
    """
    fields: Mapping[str, Any] = status if isinstance(status, dict) else {}
    details: object = fields.get("details")
    named: Mapping[str, Any] = details if isinstance(details, dict) else {}
    message = str(fields.get("message") or f"the API server answered {code}")
    kind = BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if kind is ServerError and any(each in message for each in UNTYPED):
        kind = Invalid
    return kind(
        message,
        code=code,
        reason=str(fields.get("reason") or ""),
        name=str(named.get("name") or ""),
        retry_after_seconds=_seconds(retry_after),
    )


def _seconds(text: str | None) -> float | None:
    # The API server sends whole seconds; a date, which HTTP also allows, is not supported.
    return float(text) if text and text.isdigit() else None
