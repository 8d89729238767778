"""A gRPC service with every kind of method, which records the outcome of its calls."""

import asyncio
import itertools
import weakref
from collections.abc import Callable

from moorage_runtime.frontends.grpc.methods import GrpcFault, GrpcService


class Methods:
    """A service, and the outcomes of its calls."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.release = asyncio.Event()
        self.yielded = 0
        self.taken = 0
        self.request: Callable[[], object | None] = lambda: None  # a reference that keeps nothing

    def service(self) -> GrpcService:
        return GrpcService(
            "s",
            {"Echo": bytes, "Wait": self.wait, "Fail": self.fail, "Large": self.large},
            {"Endless": self.endless, "Two": self.two},
            {"Mirror": self.mirror, "Slow": self.slow},
        )

    async def wait(self, data: bytes | memoryview) -> bytes:
        if isinstance(data, memoryview):
            self.request = weakref.ref(data)
        self.begun.set()
        try:
            await self.release.wait()
        finally:
            self.ended.set()
        return bytes(data)

    def large(self, data: bytes) -> bytes:
        return bytes(data) * 200_000

    def fail(self, data: bytes) -> bytes:
        raise GrpcFault("NOT_FOUND", f"100 % of é {data.decode()}")

    async def endless(self, data: bytes):
        try:
            for _ in itertools.count():
                self.begun.set()
                self.yielded += 1
                yield bytes(data) * 10_000
        finally:
            self.ended.set()

    async def two(self, data: bytes):
        yield bytes(data)
        yield bytes(data)
        raise GrpcFault("ABORTED", "after two")

    async def mirror(self, asked):
        async for data in asked:
            yield bytes(data)

    async def slow(self, asked):
        async for _ in asked:
            self.begun.set()
            self.taken += 1
            await self.release.wait()
        yield b"done"
