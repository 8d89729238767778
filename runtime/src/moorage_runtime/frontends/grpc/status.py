"""From the runtime's errors to gRPC status codes, the same for every gRPC service.

Source: gRPC's status codes; OIP, gRPC: errors travel as the call's status.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from moorage_runtime import errors
from moorage_runtime.frontends.grpc.methods import GrpcFault

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
        errors.QueueFull: "UNAVAILABLE",
        errors.ShuttingDown: "UNAVAILABLE",
        errors.DeadlineExceeded: "DEADLINE_EXCEEDED",
        errors.InvalidConfig: "INTERNAL",
        errors.ModelFailed: "INTERNAL",
    }
)


def fault_of(error: errors.RuntimeFault) -> GrpcFault:
    """The end of the call under the code of the error's class, or of its nearest base."""
    code = errors.nearest(CODES, error)
    return GrpcFault(code, error.message)
