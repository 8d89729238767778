"""Small requests that expand to large ones are refused, at the cost of small requests."""

import gzip
import time
import zlib

import grpc
import pytest

from support.attack import (
    HEALTH_SECONDS,
    cpu_clock,
    exchange,
    health_checks,
    leave,
    longest,
    post,
    resident_bytes,
)

pytestmark = pytest.mark.attack

MIB = 1024 * 1024
INFER = "/v2/models/numbers/infer"
GRPC_INFER = "/inference.GRPCInferenceService/ModelInfer"
GRPS_PREDICT = "/grps.protos.v1.GrpsService/Predict"
SERVER_LIVE = "/inference.GRPCInferenceService/ServerLive"
BODIES = {
    "gzip of zeros": ("gzip", gzip.compress(bytes(1000 * MIB // 4))),
    "gzip of empty members": ("gzip", gzip.compress(b"") * (8 * MIB // 20)),
    "gzip of empty blocks": ("gzip", b"\x1f\x8b\x08" + bytes(7) + b"\0\0\0\xff\xff" * (MIB)),
    "deflate of zeros": ("deflate", zlib.compress(bytes(100 * MIB))),
}
MESSAGES = {
    "empty inputs": (GRPC_INFER, b"\n\x01m" + b"\x2a\x00" * (16 * MIB)),
    "a megabyte of empty inputs": (GRPC_INFER, b"\n\x01m" + b"\x2a\x00" * (MIB // 2 - 10)),
    "empty raw tensors": (GRPC_INFER, b"\n\x01m" + b"\x3a\x00" * (16 * MIB)),
    "empty parameters": (GRPC_INFER, b"\n\x01m" + b"\x22\x00" * (16 * MIB)),
    "unknown fields": (SERVER_LIVE, b"\x78\x01" * (16 * MIB)),
    "GRPS: empty tensors": (GRPS_PREDICT, b"\x2a\x80\x80\x80\x10" + b"\x0a\x00" * (16 * MIB)),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_compressed_bomb_is_refused_without_delaying_health_checks(server, name):
    coding, body = BODIES[name]
    clock = cpu_clock(server.process.pid)
    cpu, memory = time.clock_gettime(clock), resident_bytes(server.process.pid)

    with health_checks(server.http_port, server.process.pid) as waits:
        answer = exchange(server.http_port, post(INFER, body, f"Content-Encoding: {coding}"))

    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
    assert longest(waits) < HEALTH_SECONDS
    assert time.clock_gettime(clock) - cpu < 5
    assert resident_bytes(server.process.pid) < memory + 256 * MIB


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_with_millions_of_fields_is_refused_without_delaying_health_checks(server, name):
    method, message = MESSAGES[name]
    memory = resident_bytes(server.process.pid)
    options = [("grpc.max_send_message_length", -1)]

    with (
        health_checks(server.http_port, server.process.pid) as waits,
        grpc.insecure_channel(server.grpc, options) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary(method)(message, timeout=60)

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert longest(waits) < HEALTH_SECONDS
    assert resident_bytes(server.process.pid) < memory + 256 * MIB


def test_bombs_of_disconnected_clients_leave_no_work_behind(server):
    body = gzip.compress(bytes(60 * MIB))
    clock = cpu_clock(server.process.pid)
    data = post(INFER, body, "Content-Encoding: gzip")
    for _ in range(20):
        leave(server.http_port, data)

    with health_checks(server.http_port, server.process.pid):
        before = time.clock_gettime(clock)
        answer = exchange(server.http_port, post(INFER, b"{}"))
        cpu = time.clock_gettime(clock) - before

    assert answer.startswith(b"HTTP/1.1 400")
    assert cpu < 2
