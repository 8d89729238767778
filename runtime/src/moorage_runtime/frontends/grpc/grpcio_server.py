"""The gRPC listener on grpcio's asyncio server: the older of the two transports.

    grpcio -> bytes -> GrpcService method -> bytes -> grpcio

Here are transport, authorization and the translation of errors into statuses; a method knows
none of them. Nothing but ``transport`` imports this module, so a process that does not serve by
grpcio does not load it either.
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
# Clients may keep a connection alive with a ping this often; grpcio's own default of five
# minutes answers usual client settings with GOAWAY.
_PING_MILLISECONDS: Final = 10_000

_Context = grpc.aio.ServicerContext[Any, Any]


class GrpcioServer:
    """A gRPC server in the running event loop.

    Args:
        services: What to serve; any other method is UNIMPLEMENTED.
        host: Address to listen on.
        port: Port, or 0 for any free one.
        tls: Serve TLS with these credentials.
        authorize: Decides for each call before its message is decoded; None admits all.
        reuse_port: Other processes of this server listen on the port too.
        max_message_bytes: Largest request message; a larger one is RESOURCE_EXHAUSTED. Answers
            have no limit of their own.
    """

    def __init__(  # noqa: PLR0913 - the options of a listener; all but three by keyword
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

    async def start(self) -> int:
        """Listen; the bound port.

        Raises:
            OSError: The address cannot be bound.
        """
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", self._max_message_bytes),
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
        """Take no new calls, let those that run finish for at most the grace time, then end."""
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
            except Exception as error:  # noqa: BLE001 - the request loop's edge; see fault_of
                fault = status.fault_of(error, path)
            return await _abort(context, fault)

        return serve

    def _serve_stream(self, path: str, method: StreamMethod | DuplexMethod) -> Any:
        # what comes in is one message, or an iterator of them, as the method wants it
        async def serve(asked: Any, context: _Context) -> AsyncIterator[bytes]:
            messages: AsyncIterator[bytes] | None = None
            try:
                self._admit(path, context)
                messages = method(asked)
                async for message in messages:
                    yield message
            except Exception as error:  # noqa: BLE001 - the request loop's edge; see fault_of
                await _abort(context, status.fault_of(error, path))
            finally:
                if isinstance(messages, AsyncGenerator):
                    # the client may be gone; the model shall stop now, not when memory is freed
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
