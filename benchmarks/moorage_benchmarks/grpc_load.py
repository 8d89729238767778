"""Asks a gRPC server the same thing over and over, a few calls at a time over one connection.

grpcio with messages as bytes: nothing is built or parsed for a call. It still costs the client
about what it costs the server, so the client and not the server may be the limit; the server's
CPU time tells them apart.
"""

import asyncio
import time

import grpc.aio

from moorage_benchmarks.programs import BenchmarkError

PATIENCE_SECONDS = 10


class GrpcLoad:
    """A channel and the message that its calls repeat.

    Args:
        port: Of a server on loopback.
        method: "/package.Service/Method".
        message: The request.
        calls: How many are under way at a time.
    """

    def __init__(self, port: int, method: str, message: bytes, calls: int) -> None:
        self._target = f"127.0.0.1:{port}"
        self._method = method
        self._message = message
        self._calls = calls

    def close(self) -> None:
        """Nothing is kept open between runs."""

    def ask(self) -> bytes:
        """One answer's message; raises as ``run``."""
        try:
            return asyncio.run(self._ask())
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    def run(self, seconds: float) -> int:
        """Keep every call busy for so long; the answers that came.

        Raises:
            BenchmarkError: A call failed or took too long.
        """
        try:
            return asyncio.run(self._run(seconds))
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    def _failed(self, error: grpc.aio.AioRpcError) -> BenchmarkError:
        return BenchmarkError(f"{self._method}: {error.code().name}: {error.details()}")

    async def _ask(self) -> bytes:
        async with grpc.aio.insecure_channel(self._target) as channel:
            return await self._callable(channel)(self._message, timeout=PATIENCE_SECONDS)

    async def _run(self, seconds: float) -> int:
        async with grpc.aio.insecure_channel(self._target) as channel:
            call = self._callable(channel)
            until = time.monotonic() + seconds

            async def repeat() -> int:
                answered = 0
                while time.monotonic() < until:
                    await call(self._message, timeout=PATIENCE_SECONDS)
                    answered += 1
                return answered

            return sum(await asyncio.gather(*(repeat() for _ in range(self._calls))))

    def _callable(
        self, channel: grpc.aio.Channel
    ) -> "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]":
        # no serializers: what goes in and out are bytes
        return channel.unary_unary(self._method, None, None)
