"""What an HTTP/2 connection needs of its server.

The native server is an Owner; it makes every Connection with itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from moorage_runtime.frontends.grpc.methods import Authorize
from moorage_runtime.frontends.grpc.native.call import Call, Wire
from moorage_runtime.frontends.grpc.native.head import CallHead
from moorage_runtime.frontends.grpc.native.limits import Limits

if TYPE_CHECKING:
    from moorage_runtime.frontends.grpc.native.connection import Connection

# From a call's connection, stream, head and time of arrival to the call.
MakeCall = Callable[[Wire, int, CallHead, float], Call]


class Owner(Protocol):
    """What a connection needs of its server."""

    methods: Mapping[bytes, MakeCall]
    authorize: Authorize | None
    limits: Limits
    # Memory that all connections read into; used up within each read.
    scratch: memoryview
    # Refreshed at every tick.
    now: float

    def opened(self, connection: "Connection") -> bool:
        """Count the connection; False when there are too many."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Forget the connection."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it, and keep it from being collected."""
        ...
