"""Which transport serves gRPC: ours on libnghttp2, or grpcio's; one setting takes either.

Both serve the same tables of methods. What each is good for, and what it risks, is in
docs/decisions/grpc-transport.md.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec

from moorage_runtime.frontends.credentials import Certificate
from moorage_runtime.frontends.grpc.methods import Authorize, GrpcService
from moorage_runtime.settings import GrpcTransport

log = logging.getLogger(__name__)


class GrpcListener(Protocol):
    """A gRPC server in the running event loop."""

    async def start(self) -> int:
        """Listen; the bound port.

        Raises:
            OSError: The address cannot be bound.
        """
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Take no new calls, let those that run finish for at most the grace time, then end."""
        ...


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve, whatever by.

    Attributes:
        host: Address to listen on.
        port: Port, or 0 for any free one.
        max_message_bytes: Largest request message, also after decompression; a larger one is
            RESOURCE_EXHAUSTED. Answers have no limit of their own.
        certificate: Serve TLS with it.
        authorize: Decides for each call before its message is decoded; None admits all.
        reuse_port: Other processes of this server listen on the port too.
    """

    host: str
    port: int
    max_message_bytes: int
    certificate: Certificate | None = None
    authorize: Authorize | None = None
    reuse_port: bool = False


def make_listener(
    transport: GrpcTransport, services: Sequence[GrpcService], listening: Listening
) -> GrpcListener:
    """The server; by grpcio also where the native transport's library is not installed.

    Only the one that is used is imported: grpcio alone takes some 15 MiB and a tenth of a second.
    """
    if transport == "native":
        try:
            return _native(services, listening)
        except ModuleNotFoundError as error:
            if error.name != "ngh2":
                raise
            log.warning(
                "grpc_transport is native, but the package ngh2 is not installed: gRPC is served "
                "by grpcio, which takes several times the processor time"
            )
    return _grpcio(services, listening)


def _native(services: Sequence[GrpcService], listening: Listening) -> GrpcListener:
    from moorage_runtime.frontends.grpc.native.limits import Limits  # noqa: PLC0415 - see above
    from moorage_runtime.frontends.grpc.native.server import NativeServer  # noqa: PLC0415

    certificate = listening.certificate
    return NativeServer(
        services,
        listening.host,
        listening.port,
        limits=Limits(message_bytes=listening.max_message_bytes),
        tls=None if certificate is None else certificate.http2_context,
        authorize=listening.authorize,
        reuse_port=listening.reuse_port,
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
