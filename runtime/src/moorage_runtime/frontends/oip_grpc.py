"""The Open Inference Protocol over gRPC: ``inference.GRPCInferenceService``.

    bytes -> codec.oip_proto -> dataplane -> codec.oip_proto -> bytes

Methods raise ``errors.RuntimeFault``; the transport turns it into the call's status. Not ready is
an answer, not an error.

Source: OIP, gRPC.
"""

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from moorage_runtime.codec import oip_proto
from moorage_runtime.frontends.grpc.methods import GrpcService
from moorage_runtime.inference import InferResponse
from moorage_runtime.tensors import Datatype

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

NAME: Final = "inference.GRPCInferenceService"
# Messages of this size take milliseconds to convert, which health checks would wait for.
_INLINE_BYTES: Final = 1024 * 1024


def service(dataplane: "Dataplane") -> GrpcService:
    """The service's six methods."""
    methods = _Methods(dataplane)
    return GrpcService(
        NAME,
        {
            "ServerLive": methods.server_live,
            "ServerReady": methods.server_ready,
            "ModelReady": methods.model_ready,
            "ServerMetadata": methods.server_metadata,
            "ModelMetadata": methods.model_metadata,
            "ModelInfer": methods.model_infer,
        },
    )


class _Methods:
    """Each method takes and returns one serialized message."""

    def __init__(self, dataplane: "Dataplane") -> None:
        self._dataplane = dataplane

    async def server_live(self, data: bytes) -> bytes:
        oip_proto.check_empty(data)
        return oip_proto.encode_server_live(is_live=self._dataplane.live())

    async def server_ready(self, data: bytes) -> bytes:
        oip_proto.check_empty(data)
        return oip_proto.encode_server_ready(is_ready=self._dataplane.ready())

    async def model_ready(self, data: bytes) -> bytes:
        model = oip_proto.decode_model_ready(data)
        status = self._dataplane.model_ready(model.name, model.version)
        return oip_proto.encode_model_ready(is_ready=status.state == "READY")

    async def server_metadata(self, data: bytes) -> bytes:
        oip_proto.check_empty(data)
        return oip_proto.encode_server_metadata(self._dataplane.server_metadata())

    async def model_metadata(self, data: bytes) -> bytes:
        model = oip_proto.decode_model_metadata(data)
        metadata = self._dataplane.model_metadata(model.name, model.version)
        return oip_proto.encode_model_metadata(metadata, model.version)

    async def model_infer(self, data: bytes) -> bytes:
        if len(data) > _INLINE_BYTES:
            decoded = await asyncio.to_thread(oip_proto.decode_infer, data)
        else:
            decoded = oip_proto.decode_infer(data)
        response = await self._dataplane.infer(decoded.request)
        # the id is the client's, whatever became of it on the way
        response = msgspec.structs.replace(response, id=decoded.request.id)
        if _size_bytes(response) > _INLINE_BYTES:
            return await asyncio.to_thread(
                oip_proto.encode_infer, response, wants_raw=decoded.wants_raw
            )
        return oip_proto.encode_infer(response, wants_raw=decoded.wants_raw)


def _size_bytes(response: InferResponse) -> int:
    """About the size of the answer's tensors."""
    return sum(
        sum(map(len, tensor.array.reshape(-1)))
        if tensor.datatype is Datatype.BYTES
        else tensor.array.nbytes
        for tensor in response.outputs
    )
