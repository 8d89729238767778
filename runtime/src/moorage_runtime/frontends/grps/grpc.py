"""GRPS over gRPC: ``grps.protos.v1.GrpsService``.

    bytes -> codec.grps.proto -> grps.calls -> codec.grps.proto -> bytes

Failures are responses with a status in the message. The call itself fails only for bytes that are
not a message.

Source: GRPS interface, "RPC interface", "streaming".
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from moorage_runtime.codec.grps import message as grps_message
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.grps.message import OK, Data
from moorage_runtime.frontends.grpc.methods import GrpcService, Message
from moorage_runtime.frontends.grps.calls import NOT_READY, GrpsCalls, status_of
from moorage_runtime.values.errors import RuntimeFault

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

T = TypeVar("T")
U = TypeVar("U")

NAME: Final = "grps.protos.v1.GrpsService"
# Messages of this size take milliseconds to convert, which would delay health checks.
_INLINE_BYTES: Final = 1024 * 1024


def service(dataplane: "Dataplane", *, may_switch: bool = True) -> GrpcService:
    """The service's eight methods.

    Args:
        dataplane: The models.
        may_switch: Whether clients may take the server offline and online.
    """
    methods = _Methods(GrpsCalls(dataplane, may_switch=may_switch))
    return GrpcService(
        NAME,
        {
            "Predict": methods.predict,
            "Online": methods.online,
            "Offline": methods.offline,
            "CheckLiveness": methods.check_liveness,
            "CheckReadiness": methods.check_readiness,
            "ServerMetadata": methods.server_metadata,
            "ModelMetadata": methods.model_metadata,
        },
        {"PredictStreaming": methods.predict_streaming},
    )


class _Methods:
    """The methods; each takes and returns serialized GrpsMessages."""

    def __init__(self, calls: GrpsCalls) -> None:
        self._calls = calls

    def predict(self, data: Message) -> bytes | Awaitable[bytes]:
        if _is_slow(data):
            return self._decode_and_predict(data)
        message = grps_proto.parse(data)
        try:
            begun = self._calls.begin(grps_proto.decode(message))
        except RuntimeFault as fault:
            return grps_proto.encode(status_of(fault), None)
        if isinstance(begun, Awaitable) or grps_message.size_bytes(begun) > _INLINE_BYTES:
            return _finish(begun)
        return grps_proto.encode(OK, begun)

    async def _decode_and_predict(self, data: Message) -> bytes:
        message = await _aside(grps_proto.parse, data, is_slow=True)
        try:
            decoded = await _aside(grps_proto.decode, message, is_slow=True)
            begun = self._calls.begin(decoded)
        except RuntimeFault as fault:
            return grps_proto.encode(status_of(fault), None)
        return await _finish(begun)

    async def predict_streaming(self, data: Message) -> AsyncIterator[bytes]:
        is_slow = _is_slow(data)
        message = await _aside(grps_proto.parse, data, is_slow=is_slow)
        try:
            decoded = await _aside(grps_proto.decode, message, is_slow=is_slow)
            async with aclosing(self._calls.predict_stream(decoded)) as parts:
                async for part in parts:
                    yield grps_proto.encode(OK, part)
        except RuntimeFault as fault:
            yield grps_proto.encode(status_of(fault), None)

    async def online(self, data: Message) -> bytes:
        grps_proto.parse_small(data)
        return await _switched(self._calls.online())

    async def offline(self, data: Message) -> bytes:
        grps_proto.parse_small(data)
        return await _switched(self._calls.offline())

    def check_liveness(self, data: Message) -> bytes:
        grps_proto.parse_small(data)
        return grps_proto.encode(OK, None)

    def check_readiness(self, data: Message) -> bytes:
        grps_proto.parse_small(data)
        return grps_proto.encode(OK if self._calls.is_ready() else NOT_READY, None)

    def server_metadata(self, data: Message) -> bytes:
        grps_proto.parse_small(data)
        return grps_proto.encode(OK, self._calls.server_metadata())

    def model_metadata(self, data: Message) -> bytes:
        message = grps_proto.parse_small(data)
        try:
            return grps_proto.encode(OK, self._calls.model_metadata(grps_proto.decode(message)))
        except RuntimeFault as fault:
            return grps_proto.encode(status_of(fault), None)


def _is_slow(data: Message) -> bool:
    return len(data) > _INLINE_BYTES or not grps_proto.is_quick(data)


async def _aside(work: Callable[[T], U], given: T, *, is_slow: bool) -> U:
    """Run in a thread if it takes milliseconds, which would delay health checks."""
    return await asyncio.to_thread(work, given) if is_slow else work(given)


async def _switched(switching: Awaitable[None]) -> bytes:
    try:
        await switching
    except RuntimeFault as fault:
        return grps_proto.encode(status_of(fault), None)
    return grps_proto.encode(OK, None)


async def _finish(running: Data | Awaitable[Data]) -> bytes:
    try:
        data = await running if isinstance(running, Awaitable) else running
        is_slow = grps_message.size_bytes(data) > _INLINE_BYTES
        return await _aside(partial(grps_proto.encode, OK), data, is_slow=is_slow)
    except RuntimeFault as fault:
        return grps_proto.encode(status_of(fault), None)
