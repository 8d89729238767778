"""The generated message classes do not collide with other libraries."""

import pytest
from google.protobuf import descriptor_pool

from moorage_runtime.codec._generated import grps_pb2, health_pb2, oip_pb2


@pytest.mark.parametrize(
    "message", [oip_pb2.ModelInferRequest, health_pb2.HealthCheckRequest, grps_pb2.GrpsMessage]
)
def test_message_names_do_not_collide_with_those_of_other_clients(message):
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(message.DESCRIPTOR.full_name)
