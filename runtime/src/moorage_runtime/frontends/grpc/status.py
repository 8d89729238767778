"""Maps the runtime's errors to gRPC statuses, for every gRPC service and transport.

Source: gRPC's status codes; OIP, gRPC: errors are the call's status.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.values import errors

log = logging.getLogger(__name__)

CODES: Final[Mapping[type[errors.RuntimeFault], str]] = MappingProxyType(
    {
        errors.RuntimeFault: "INTERNAL",
        errors.InvalidRequest: "INVALID_ARGUMENT",
        errors.PayloadTooLarge: "RESOURCE_EXHAUSTED",
        errors.UnsupportedEncoding: "UNIMPLEMENTED",
        errors.UnsupportedDatatype: "INVALID_ARGUMENT",
        errors.Forbidden: "PERMISSION_DENIED",
        errors.NotFound: "NOT_FOUND",
        errors.ModelNotFound: "NOT_FOUND",
        errors.VersionNotFound: "NOT_FOUND",
        errors.Unavailable: "UNAVAILABLE",
        errors.ModelNotReady: "UNAVAILABLE",
        errors.RepositoryUnread: "UNAVAILABLE",
        errors.QueueFull: "UNAVAILABLE",
        errors.ServerBusy: "RESOURCE_EXHAUSTED",
        errors.ShuttingDown: "UNAVAILABLE",
        errors.DeadlineExceeded: "DEADLINE_EXCEEDED",
        errors.InvalidConfig: "INTERNAL",
        errors.ModelFailed: "INTERNAL",
    }
)
UNAUTHENTICATED: Final = "a valid bearer token is required"
# Statuses are headers, which are percent-encoded and which peers limit to 8 KiB in total.
_MESSAGE_CHARACTERS: Final = 1000


def fault_of(error: Exception, path: str) -> GrpcFault:
    """The gRPC status for an exception of a method.

    An unexpected exception ends the call as INTERNAL without details, which are logged.

    Args:
        error: The exception.
        path: The full method name, for the log.
    """
    if isinstance(error, GrpcFault):
        return error
    if isinstance(error, errors.RuntimeFault):
        return GrpcFault(errors.nearest(CODES, error), error.message)
    log.error("a gRPC method raised an unexpected exception", exc_info=error, extra={"path": path})
    return GrpcFault("INTERNAL", "internal error")


def shortened(message: str) -> str:
    """The text in a form that a status can contain: limited in length, and valid Unicode."""
    return message[:_MESSAGE_CHARACTERS].encode(errors="backslashreplace").decode()
