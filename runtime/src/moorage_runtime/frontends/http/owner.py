"""What an HTTP connection needs of its server.

HttpServer is an Owner; it makes every Connection with itself.
"""

from typing import TYPE_CHECKING, Protocol

from moorage_runtime.frontends.http.faults import FaultRenderer
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import Handler
from moorage_runtime.frontends.http.received import Admission
from moorage_runtime.frontends.http.serialization import Dated

if TYPE_CHECKING:
    from moorage_runtime.frontends.http.connection import Connection


class Owner(Protocol):
    """What a connection needs of its server."""

    handler: Handler
    fault: FaultRenderer
    admission: Admission | None
    limits: Limits
    compress_from_bytes: int | None
    # Memory that all connections read heads and small bodies into; used up within each read.
    scratch: bytearray
    # Refreshed at every tick.
    now: float
    dated: Dated
    is_leaving: bool

    def opened(self, connection: "Connection") -> bool:
        """Count the connection; False when there are too many."""
        ...

    def rested(self) -> None:
        """A connection has no request in progress any more."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Forget the connection."""
        ...
