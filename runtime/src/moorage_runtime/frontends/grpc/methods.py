"""gRPC services as tables of methods from bytes to bytes, independent of the transport.

A service frontend decodes and encodes its own messages; the transport (grpcio today) only moves
bytes and status codes. So the transport can be replaced. A method ends its call with another
status than OK by raising an error of ``errors``, or :class:`GrpcFault` where none fits.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

UnaryMethod = Callable[[bytes], Awaitable[bytes]]
StreamMethod = Callable[[bytes], AsyncIterator[bytes]]


class GrpcFault(Exception):
    """Ends a call with a status other than OK.

    Attributes:
        code: gRPC status name, for example "INVALID_ARGUMENT".
        message: Text for the client.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


NO_STREAMS: Final[Mapping[str, StreamMethod]] = MappingProxyType({})


class GrpcService(msgspec.Struct, frozen=True):
    """One service: full name ("inference.GRPCInferenceService") and its methods by short name."""

    name: str
    unary: Mapping[str, UnaryMethod]
    streams: Mapping[str, StreamMethod] = NO_STREAMS
