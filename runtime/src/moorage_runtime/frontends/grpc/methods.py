"""gRPC services as tables of methods from bytes to bytes, independent of the transport.

A service frontend decodes and encodes its own messages; a transport (``native`` or ``grpcio``)
only moves bytes and status codes, so that one can take the other's place. A method ends its call
with another status than OK by raising an error of ``errors``, or :class:`GrpcFault` where none
fits.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

# A serialized message as it came; a large one is a view of its memory.
Message = bytes | memoryview
# One message in, one out. A method that has its answer at hand returns it; awaiting nothing would
# cost a task, which is as much as a small model costs.
UnaryMethod = Callable[[Message], bytes | Awaitable[bytes]]
# One message in, any number out.
StreamMethod = Callable[[Message], AsyncIterator[bytes]]
# Any number in, any number out. The next message is read when it is asked for.
DuplexMethod = Callable[[AsyncIterator[Message]], AsyncIterator[bytes]]

# From the full method name ("/package.Service/Method") and the call's metadata (lower-case keys)
# to whether the call may go on.
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
    """One service: full name ("inference.GRPCInferenceService") and its methods by short name."""

    name: str
    unary: Mapping[str, UnaryMethod]
    streams: Mapping[str, StreamMethod] = NO_STREAMS
    duplexes: Mapping[str, DuplexMethod] = NO_DUPLEXES
