"""What may go wrong between the operator and the API server, as classes that callers act on.

    ApiError                   the base; carries code, reason and the server's message
    |- Unreachable             no answer: refused, reset, timed out, not TLS
    |- Unauthorized      401   the token or certificate is not accepted
    |- Forbidden         403   RBAC or admission (quota) says no
    |- NotFound          404   the object, its namespace or its kind is not there
    |- Conflict          409   another writer, another uid, or a field of another manager
    |- Gone              410   the resourceVersion is too old: list again
    |- Invalid       400/422   the object is wrong; the same request will never succeed
    |- Throttled         429   later; `retry_after_seconds` says when
    |- ServerError       5xx   the server's own trouble
    `- NotLeading              not asked at all: another process leads

The reconciler retries the transient ones and turns Invalid and Forbidden into a condition. Foreign
exceptions (aiohttp, ssl, OSError) are wrapped as Unreachable with the cause chained, because the
caller's answer to all of them is the same: wait and try again.
"""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """The API server refused a request, or did not answer it.

    Attributes:
        code: HTTP status code; 0 when no answer came.
        reason: Machine-readable reason of the server's Status, "" when it gave none.
        message: The server's sentence.
        retry_after_seconds: How long the server asks to wait, None when it did not ask.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
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
    """409: the object is another one now, or another manager owns a field."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old."""


class Invalid(ApiError):
    """400 or 422: the object itself is wrong."""


class Throttled(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the server could not serve the request."""


class NotLeading(ApiError):
    """No request was made: only the process that holds the lease writes."""


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


# Server-side apply answers 500 for an object that does not fit its kind's schema, such as one with
# an unknown field; trying again will not help.
UNTYPED = "failed to create typed patch object"


def from_status(code: int, status: object, *, retry_after: str | None = None) -> ApiError:
    """The error of an HTTP answer.

    Args:
        code: HTTP status code, 400 or more.
        status: The decoded body; a Kubernetes Status when the server is well.
        retry_after: The Retry-After header.
    """
    fields: Mapping[str, Any] = status if isinstance(status, dict) else {}
    message = str(fields.get("message") or f"the API server answered {code}")
    kind = BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if kind is ServerError and UNTYPED in message:
        kind = Invalid
    return kind(
        message,
        code=code,
        reason=str(fields.get("reason") or ""),
        retry_after_seconds=_seconds(retry_after),
    )


def _seconds(text: str | None) -> float | None:
    # The API server sends whole seconds; a date (which HTTP also allows) is not worth a parser.
    return float(text) if text and text.isdigit() else None
