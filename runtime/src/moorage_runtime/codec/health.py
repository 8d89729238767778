"""Messages of the gRPC health checking protocol. Pure.

Source: grpc.health.v1, health.proto.
"""

import enum
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from moorage_runtime.codec._generated import health_pb2 as pb
from moorage_runtime.codec.unpack import protobuf
from moorage_runtime.values.errors import InvalidRequest


class ServingStatus(enum.IntEnum):
    """The protocol's statuses, with its numbers."""

    SERVING = pb.HealthCheckResponse.SERVING
    NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
    SERVICE_UNKNOWN = pb.HealthCheckResponse.SERVICE_UNKNOWN


def decode_check(data: bytes | memoryview) -> str:
    """The service of a HealthCheckRequest; "" is the whole server.

    Raises:
        InvalidRequest: The bytes are not a HealthCheckRequest.
    """
    protobuf.check_small(data, pb.HealthCheckRequest)
    try:
        return pb.HealthCheckRequest.FromString(bytes(data)).service
    except DecodeError as error:
        raise InvalidRequest(
            f"the {len(data)} received bytes are not a valid grpc.health.v1.HealthCheckRequest"
        ) from error


def encode_status(status: ServingStatus) -> bytes:
    """The HealthCheckResponse."""
    return pb.HealthCheckResponse(status=status.name).SerializeToString()


def encode_list(statuses: Mapping[str, ServingStatus]) -> bytes:
    """The HealthListResponse."""
    message = pb.HealthListResponse()
    for service, status in statuses.items():
        message.statuses[service].MergeFrom(pb.HealthCheckResponse(status=status.name))
    return message.SerializeToString(deterministic=True)
