"""Messages of gRPC's health checks."""

import pytest

from moorage_runtime.codec import health as health_proto
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge


def test_the_service_of_a_health_check_is_read():
    assert health_proto.decode_check(b"") == ""
    assert health_proto.decode_check(memoryview(b"\n\x01s")) == "s"
    with pytest.raises(InvalidRequest) as error:
        health_proto.decode_check(b"\xff")
    assert error.value.message == (
        "the 1 received bytes are not a valid grpc.health.v1.HealthCheckRequest"
    )


def test_the_statuses_of_services_are_written():
    assert health_proto.encode_status(health_proto.ServingStatus.SERVING).hex() == "0801"
    statuses = {
        "b": health_proto.ServingStatus.NOT_SERVING,
        "a": health_proto.ServingStatus.SERVICE_UNKNOWN,
    }
    assert health_proto.encode_list(statuses).hex() == "0a070a016112020803" + "0a070a016212020802"


def test_services_are_listed_in_order():
    names = [f"service {number:02}" for number in range(30)]
    serving = health_proto.ServingStatus.SERVING
    data = health_proto.encode_list(dict.fromkeys(reversed(names), serving))
    places = [data.index(name.encode()) for name in names]
    assert places == sorted(places)


def test_a_health_check_is_small():
    with pytest.raises(PayloadTooLarge) as error:
        health_proto.decode_check(bytes(65_537))
    assert error.value.message == (
        "the grpc.health.v1.HealthCheckRequest has 65537 bytes: must have 65536 or fewer"
    )
