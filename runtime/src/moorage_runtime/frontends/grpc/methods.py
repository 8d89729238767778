"""gRPC services as tables of methods from bytes to bytes, independent of the transport.

A service frontend decodes and encodes its own messages. A transport (``nghttp2`` or ``grpcio``)
only transfers bytes and status codes, so the two are interchangeable. A method ends its call with
a status other than OK by raising an error of ``errors``, or :class:`GrpcFault` if none fits.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

# A serialized message as received; a large one is a view of its buffer.
Message = bytes | memoryview
# One message in, one out. A method that has its response at hand returns it directly: a task would
# cost as much as a small model.
UnaryMethod = Callable[[Message], bytes | Awaitable[bytes]]
# One message in, any number out.
StreamMethod = Callable[[Message], AsyncIterator[bytes]]
# Any number in, any number out. The next message is read on demand.
DuplexMethod = Callable[[AsyncIterator[Message]], AsyncIterator[bytes]]

# From the full method name ("/package.Service/Method") and the call's metadata (lower-case keys)
# to whether the call is allowed.
Authorize = Callable[[str, Mapping[str, str]], bool]


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
NO_DUPLEXES: Final[Mapping[str, DuplexMethod]] = MappingProxyType({})


class GrpcService(msgspec.Struct, frozen=True):
    """A service: its full name ("inference.GRPCInferenceService") and methods by short name."""

    name: str
    unary: Mapping[str, UnaryMethod]
    streams: Mapping[str, StreamMethod] = NO_STREAMS
    duplexes: Mapping[str, DuplexMethod] = NO_DUPLEXES
