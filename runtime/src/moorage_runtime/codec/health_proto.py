"""Messages of the gRPC health checking protocol: bytes to service names, statuses to bytes. Pure.

Source: grpc.health.v1, health.proto.
"""

import enum
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from moorage_runtime._generated import health_pb2 as pb
from moorage_runtime.errors import InvalidRequest


class ServingStatus(enum.IntEnum):
    """The protocol's statuses, with its numbers."""

    SERVING = pb.HealthCheckResponse.SERVING
    NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
    SERVICE_UNKNOWN = pb.HealthCheckResponse.SERVICE_UNKNOWN


def decode_check(data: bytes | memoryview) -> str:
    """The service that a HealthCheckRequest asks about; "" is the whole server.

    Raises:
        InvalidRequest: The bytes are no such message.
    """
    try:
        return pb.HealthCheckRequest.FromString(bytes(data)).service
    except DecodeError as error:
        raise InvalidRequest(
            f"the {len(data)} bytes received are no grpc.health.v1.HealthCheckRequest message"
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
