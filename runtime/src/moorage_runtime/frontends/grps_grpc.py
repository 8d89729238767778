"""GRPS over gRPC: ``grps.protos.v1.GrpsService``.

    bytes -> codec.grps_proto -> grps_calls -> codec.grps_proto -> bytes

Failures are answers with a status in the message; the call itself fails only for bytes that are
no message.

Source: GRPS interface, "RPC interface", "streaming".
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from moorage_runtime.codec import grps_proto
from moorage_runtime.codec.grps_message import OK, Data
from moorage_runtime.errors import RuntimeFault
from moorage_runtime.frontends.grpc.methods import GrpcService, Message
from moorage_runtime.frontends.grps_calls import NOT_READY, GrpsCalls, status_of

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

NAME: Final = "grps.protos.v1.GrpsService"


def service(dataplane: "Dataplane") -> GrpcService:
    """The service's eight methods."""
    methods = _Methods(GrpsCalls(dataplane))
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
    """Each method takes and returns serialized GrpsMessages."""

    def __init__(self, calls: GrpsCalls) -> None:
        self._calls = calls

    def predict(self, data: Message) -> bytes | Awaitable[bytes]:
        message = grps_proto.parse(data)
        try:
            begun = self._calls.begin(grps_proto.decode(message))
        except RuntimeFault as fault:
            return grps_proto.encode(status_of(fault), None)
        return _finish(begun) if isinstance(begun, Awaitable) else grps_proto.encode(OK, begun)

    async def predict_streaming(self, data: Message) -> AsyncIterator[bytes]:
        message = grps_proto.parse(data)
        try:
            async with aclosing(self._calls.predict_stream(grps_proto.decode(message))) as parts:
                async for part in parts:
                    yield grps_proto.encode(OK, part)
        except RuntimeFault as fault:
            yield grps_proto.encode(status_of(fault), None)

    async def online(self, data: Message) -> bytes:
        grps_proto.parse(data)
        await self._calls.online()
        return grps_proto.encode(OK, None)

    async def offline(self, data: Message) -> bytes:
        grps_proto.parse(data)
        await self._calls.offline()
        return grps_proto.encode(OK, None)

    def check_liveness(self, data: Message) -> bytes:
        grps_proto.parse(data)
        return grps_proto.encode(OK, None)

    def check_readiness(self, data: Message) -> bytes:
        grps_proto.parse(data)
        return grps_proto.encode(OK if self._calls.is_ready() else NOT_READY, None)

    def server_metadata(self, data: Message) -> bytes:
        grps_proto.parse(data)
        return grps_proto.encode(OK, self._calls.server_metadata())

    def model_metadata(self, data: Message) -> bytes:
        message = grps_proto.parse(data)
        try:
            return grps_proto.encode(OK, self._calls.model_metadata(grps_proto.decode(message)))
        except RuntimeFault as fault:
            return grps_proto.encode(status_of(fault), None)


async def _finish(running: Awaitable[Data]) -> bytes:
    try:
        return grps_proto.encode(OK, await running)
    except RuntimeFault as fault:
        return grps_proto.encode(status_of(fault), None)
