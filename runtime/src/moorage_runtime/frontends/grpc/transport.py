"""Selects the gRPC transport by the setting: libnghttp2 or grpcio.

Both serve the same tables of methods. docs/decisions/grpc-transport.md compares them.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec

from moorage_runtime.frontends.credentials import Certificate
from moorage_runtime.frontends.grpc.methods import Authorize, GrpcService
from moorage_runtime.settings import GrpcTransport
from moorage_runtime.values.budget import ByteBudget

log = logging.getLogger(__name__)


class GrpcListener(Protocol):
    """A gRPC server in the running event loop."""

    @property
    def arrivals(self) -> int:
        """How many connections clients have opened, if the transport knows."""
        ...

    async def start(self) -> int:
        """Listen and return the bound port.

        Raises:
            OSError: The address cannot be bound.
        """
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Accept no new calls, let current ones finish within the grace period, then stop."""
        ...


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a listener, independent of the transport.

    Attributes:
        host: Address to listen on.
        port: Port, or 0 for any free one.
        max_message_bytes: Maximum size of a request message, also after decompression; a larger
            one is RESOURCE_EXHAUSTED. Responses are not limited.
        certificate: Certificate for TLS.
        authorize: Called before the message of each call is decoded; None allows all calls.
        reuse_port: Other processes of this server listen on the same port.
        budget: Limits the bytes of all messages that are arriving; grpcio does not count them.
    """

    host: str
    port: int
    max_message_bytes: int
    certificate: Certificate | None = None
    authorize: Authorize | None = None
    reuse_port: bool = False
    budget: ByteBudget = msgspec.field(default_factory=ByteBudget)


def make_listener(
    transport: GrpcTransport, services: Sequence[GrpcService], listening: Listening
) -> GrpcListener:
    """The listener; grpcio is the fallback if the package ngh2 is not installed.

    Only the selected transport is imported: grpcio takes about 15 MiB and 0.1 s to import.
    """
    if transport == "native":
        try:
            return _nghttp2(services, listening)
        except ModuleNotFoundError as error:
            if error.name != "ngh2":
                raise
            log.warning(
                "grpc_transport is native, but the package ngh2 is not installed: falling back "
                "to grpcio, which needs several times the CPU time; install ngh2"
            )
    return _grpcio(services, listening)


def _nghttp2(services: Sequence[GrpcService], listening: Listening) -> GrpcListener:
    from moorage_runtime.frontends.grpc.nghttp2.limits import Limits  # noqa: PLC0415 - see above
    from moorage_runtime.frontends.grpc.nghttp2.server import Nghttp2Server  # noqa: PLC0415

    certificate = listening.certificate
    return Nghttp2Server(
        services,
        listening.host,
        listening.port,
        limits=Limits(message_bytes=listening.max_message_bytes),
        tls=None if certificate is None else certificate.http2_context,
        authorize=listening.authorize,
        reuse_port=listening.reuse_port,
        budget=listening.budget,
    )


def _grpcio(services: Sequence[GrpcService], listening: Listening) -> GrpcListener:
    from moorage_runtime.frontends.grpc.grpcio_server import GrpcioServer  # noqa: PLC0415

    certificate = listening.certificate
    return GrpcioServer(
        services,
        listening.host,
        listening.port,
        tls=None if certificate is None else certificate.grpcio_credentials(),
        authorize=listening.authorize,
        reuse_port=listening.reuse_port,
        max_message_bytes=listening.max_message_bytes,
    )
