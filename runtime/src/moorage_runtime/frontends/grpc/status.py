"""From the runtime's errors to gRPC statuses, the same for every gRPC service and transport.

Source: gRPC's status codes; OIP, gRPC: errors travel as the call's status.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from moorage_runtime import errors
from moorage_runtime.frontends.grpc.methods import GrpcFault

log = logging.getLogger(__name__)

CODES: Final[Mapping[type[errors.RuntimeFault], str]] = MappingProxyType(
    {
        errors.RuntimeFault: "INTERNAL",
        errors.InvalidRequest: "INVALID_ARGUMENT",
        errors.PayloadTooLarge: "RESOURCE_EXHAUSTED",
        errors.UnsupportedEncoding: "UNIMPLEMENTED",
        errors.UnsupportedDatatype: "INVALID_ARGUMENT",
        errors.NotFound: "NOT_FOUND",
        errors.ModelNotFound: "NOT_FOUND",
        errors.VersionNotFound: "NOT_FOUND",
        errors.Unavailable: "UNAVAILABLE",
        errors.ModelNotReady: "UNAVAILABLE",
        errors.RepositoryUnread: "UNAVAILABLE",
        errors.QueueFull: "UNAVAILABLE",
        errors.ShuttingDown: "UNAVAILABLE",
        errors.DeadlineExceeded: "DEADLINE_EXCEEDED",
        errors.InvalidConfig: "INTERNAL",
        errors.ModelFailed: "INTERNAL",
    }
)
UNAUTHENTICATED: Final = "a valid bearer token is required"
# Statuses travel in headers, of which peers take 8 KiB in all, percent-encoded.
_MESSAGE_CHARACTERS: Final = 1000


def fault_of(error: Exception, path: str) -> GrpcFault:
    """The end of the call that an error of its method means.

    What is no error of ours ends the call as INTERNAL without a detail; that goes to the log.

    Args:
        error: What the method raised.
        path: The full method name, for the log.
    """
    if isinstance(error, GrpcFault):
        return error
    if isinstance(error, errors.RuntimeFault):
        return GrpcFault(errors.nearest(CODES, error), error.message)
    log.error("a gRPC method raised", exc_info=error, extra={"path": path})
    return GrpcFault("INTERNAL", "internal error")


def shortened(message: str) -> str:
    """The text as a status can carry it: not too long, and Unicode throughout."""
    return message[:_MESSAGE_CHARACTERS].encode(errors="backslashreplace").decode()
