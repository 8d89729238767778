"""The gRPC listener on grpcio's asyncio server.

    grpcio -> bytes -> GrpcService method -> bytes -> grpcio

This module handles transport, authorization and the translation of errors into statuses. Only
``transport`` imports it, so grpcio is loaded only by processes that use it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.methods import (
    Authorize,
    DuplexMethod,
    GrpcFault,
    GrpcService,
    StreamMethod,
    UnaryMethod,
)

_UNLIMITED: Final = -1
# grpcio's options are 32-bit integers.
_LARGEST: Final = 2**31 - 1
# Clients may send a keepalive ping this often; with grpcio's default of five minutes, common
# client settings cause a GOAWAY.
_PING_MILLISECONDS: Final = 10_000

_Context = grpc.aio.ServicerContext[Any, Any]


class GrpcioServer:
    """A gRPC server in the running event loop.

    Args:
        services: The services; any other method is UNIMPLEMENTED.
        host: Address to listen on.
        port: Port, or 0 for any free one.
        tls: Serve TLS with these credentials.
        authorize: Called before the message of each call is decoded; None allows all calls.
        reuse_port: Other processes of this server listen on the same port.
        max_message_bytes: Maximum size of a request message; a larger one is
            RESOURCE_EXHAUSTED. Responses are not limited.
    """

    def __init__(  # noqa: PLR0913 - the options of a listener, mostly keywords
        self,
        services: Sequence[GrpcService],
        host: str,
        port: int,
        *,
        tls: grpc.ServerCredentials | None = None,
        authorize: Authorize | None = None,
        reuse_port: bool = False,
        max_message_bytes: int,
    ) -> None:
        self._services = tuple(services)
        self._host = host
        self._port = port
        self._tls = tls
        self._authorize = authorize
        self._reuse_port = reuse_port
        self._max_message_bytes = max_message_bytes
        self._server: grpc.aio.Server | None = None

    @property
    def arrivals(self) -> int:
        """Always 0: grpcio does not show the connections of its clients."""
        return 0

    async def start(self) -> int:
        """Listen and return the bound port.

        Raises:
            OSError: The address cannot be bound.
        """
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", min(self._max_message_bytes, _LARGEST)),
                ("grpc.max_send_message_length", _UNLIMITED),
                ("grpc.so_reuseport", int(self._reuse_port)),
                ("grpc.http2.min_ping_interval_without_data_ms", _PING_MILLISECONDS),
                ("grpc.keepalive_permit_without_calls", 1),
            )
        )
        for service in self._services:
            handlers = self._handlers(service)
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service.name, handlers),)
            )
        address = f"[{self._host}]:{self._port}" if ":" in self._host else self._address()
        try:
            if self._tls is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._tls)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address} for gRPC") from error
        await server.start()
        self._server = server
        return port

    async def stop(self, grace_seconds: float) -> None:
        """Accept no new calls, let current ones finish within the grace period, then stop."""
        if self._server is not None:
            await self._server.stop(grace_seconds)
            self._server = None

    def _address(self) -> str:
        return f"{self._host}:{self._port}"

    def _handlers(self, service: GrpcService) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for name, method in service.unary.items():
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._serve_unary(f"/{service.name}/{name}", method)
            )
        for name, stream in service.streams.items():
            handlers[name] = grpc.unary_stream_rpc_method_handler(
                self._serve_stream(f"/{service.name}/{name}", stream)
            )
        for name, duplex in service.duplexes.items():
            handlers[name] = grpc.stream_stream_rpc_method_handler(
                self._serve_stream(f"/{service.name}/{name}", duplex)
            )
        return handlers

    def _serve_unary(self, path: str, method: UnaryMethod) -> Any:
        async def serve(data: bytes, context: _Context) -> bytes:
            try:
                self._admit(path, context)
                answer = method(data)
                return answer if isinstance(answer, bytes) else await answer
            except Exception as error:  # noqa: BLE001 - any error becomes a status; see fault_of
                fault = status.fault_of(error, path)
            return await _abort(context, fault)

        return serve

    def _serve_stream(self, path: str, method: StreamMethod | DuplexMethod) -> Any:
        # the input is one message, or an iterator of messages for a streaming method
        async def serve(asked: Any, context: _Context) -> AsyncIterator[bytes]:
            messages: AsyncIterator[bytes] | None = None
            try:
                self._admit(path, context)
                messages = method(asked)
                async for message in messages:
                    yield message
            except Exception as error:  # noqa: BLE001 - any error becomes a status; see fault_of
                await _abort(context, status.fault_of(error, path))
            finally:
                if isinstance(messages, AsyncGenerator):
                    # if the client has left, the model must stop now, not at garbage collection
                    await messages.aclose()

        return serve

    def _admit(self, path: str, context: _Context) -> None:
        if self._authorize is None:
            return
        metadata = {
            key: value
            for key, value in context.invocation_metadata() or ()
            if isinstance(value, str)
        }
        if not self._authorize(path, metadata):
            raise GrpcFault("UNAUTHENTICATED", status.UNAUTHENTICATED)


async def _abort(context: _Context, fault: GrpcFault) -> NoReturn:
    await context.abort(grpc.StatusCode[fault.code], status.shortened(fault.message))
