"""gRPC services behind either transport, and a channel to them."""

import contextlib
from collections.abc import AsyncIterator

import grpc

from moorage_runtime.frontends.grpc.methods import GrpcService
from moorage_runtime.frontends.grpc.transport import GrpcListener, Listening, make_listener

TRANSPORTS = ("native", "grpcio")
MESSAGE_BYTES = 64 * 1024 * 1024
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def listener(transport: str, *services: GrpcService, port: int = 0, **options) -> GrpcListener:
    """A server on loopback that does not listen yet."""
    options = {"max_message_bytes": MESSAGE_BYTES, **options}
    return make_listener(transport, services, Listening(host="127.0.0.1", port=port, **options))


@contextlib.asynccontextmanager
async def serving(
    transport: str, *services: GrpcService, **options
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server of these services."""
    server = listener(transport, *services, **options)
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=UNLIMITED) as channel:
        yield channel
    await server.stop(0)
