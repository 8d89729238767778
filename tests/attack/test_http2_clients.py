"""HTTP/2 clients that reset, flood, or send data that is expensive to process."""

import re
import socket
import struct

import grpc
import pytest

from moorage_runtime.codec._generated import oip_pb2
from support.attack import HEALTH_SECONDS, health_checks, longest, resident_bytes
from support.waiting import eventually

pytestmark = pytest.mark.attack

MIB = 1024 * 1024
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
# From the static table ":method: POST" and ":scheme: http", then names with literal values.
HEAD = b"\x83\x86\x01\x01h\x04\x0c/s/Undefined\x0f\x10\x10application/grpc"
INFER = "/inference.GRPCInferenceService/ModelInfer"


def frame(kind, flags=0, stream_id=0, payload=b""):
    return (
        len(payload).to_bytes(3, "big")
        + bytes((kind, flags))
        + struct.pack(">I", stream_id)
        + payload
    )


def streams(count):
    return range(1, 2 * count, 2)


def literal(name, value):
    """A header with incremental indexing and without Huffman coding."""
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


FLOODS = {
    "rapid reset": b"".join(
        frame(HEADERS, END_HEADERS, each, HEAD) + frame(RST_STREAM, 0, each, bytes(4))
        for each in streams(20_000)
    ),
    "pings": frame(PING, 0, 0, bytes(8)) * 50_000,
    "settings": frame(SETTINGS) * 50_000,
    "empty data": frame(HEADERS, END_HEADERS, 1, HEAD) + frame(DATA, 0, 1) * 50_000,
    "endless continuation": frame(HEADERS, 0, 1, HEAD) + frame(CONTINUATION, 0, 1, b"") * 50_000,
    "endless headers": frame(HEADERS, 0, 1, HEAD)
    + b"".join(
        frame(CONTINUATION, 0, 1, literal(b"a%05d" % number, b"b" * 100))
        for number in range(20_000)
    ),
    "an HPACK bomb": frame(
        HEADERS, END_HEADERS, 1, HEAD + literal(b"a", b"b" * 100) + b"\xbe" * 16_000
    )
    * 100,
    "window updates": frame(WINDOW, 0, 0, struct.pack(">I", 1)) * 50_000,
    "priorities": frame(PRIORITY, 0, 1, bytes(5)) * 50_000,
}


def infer(server):
    tensor = oip_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1])
    tensor.contents.fp32_contents.append(1)
    message = oip_pb2.ModelInferRequest(model_name="numbers", inputs=[tensor])
    with grpc.insecure_channel(server.grpc) as channel:
        return channel.unary_unary(INFER)(message.SerializeToString(), timeout=30)


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_its_connection_or_has_no_effect(server, name):
    memory = resident_bytes(server.process.pid)
    with health_checks(server.http_port, server.process.pid) as waits:
        with socket.create_connection(("127.0.0.1", server.grpc_port), 30) as client:
            client.settimeout(0.5)
            try:
                client.sendall(PREFACE + frame(SETTINGS) + FLOODS[name])
                while client.recv(65536):
                    pass
            except (ConnectionError, TimeoutError):
                pass
        assert infer(server)

    assert longest(waits) < HEALTH_SECONDS
    assert resident_bytes(server.process.pid) < memory + 64 * MIB


def test_hundreds_of_headers_end_only_their_own_call(server):
    metadata = [(f"a{number}", "b") for number in range(200)]
    with grpc.insecure_channel(server.grpc) as channel:
        ready = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        assert ready(b"", timeout=10)
        with pytest.raises(grpc.RpcError) as caught:
            ready(b"", timeout=10, metadata=metadata)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "128" in caught.value.details()
        assert ready(b"", timeout=10)


def test_unread_responses_use_limited_memory(server):
    tensor = oip_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1])
    request = oip_pb2.ModelInferRequest(
        model_name="large", inputs=[tensor], raw_input_contents=[bytes(4)]
    ).SerializeToString()
    body = b"\0" + len(request).to_bytes(4, "big") + request
    head = HEAD.replace(b"\x0c/s/Undefined", bytes([len(INFER)]) + INFER.encode())
    calls = [
        frame(HEADERS, END_HEADERS, each, head) + frame(DATA, END_STREAM, each, body)
        for each in streams(100)
    ]
    with socket.create_connection(("127.0.0.1", server.grpc_port), 30) as client:
        before = resident_bytes(server.process.pid)
        client.sendall(PREFACE + frame(SETTINGS) + frame(SETTINGS, 1) + b"".join(calls))
        highest = eventually(
            "the calls are answered or refused",
            lambda: (requests_done(server), resident_bytes(server.process.pid)),
            lambda seen: seen[0] >= 100,
            30,
        )[1]

    assert highest - before < 500 * MIB  # the responses to all calls have 1.6 GB


def requests_done(server):
    """Number of inferences that the large model has answered."""
    found = re.search(
        r'^moorage_inference_seconds_count{[^}]*model="large"[^}]*} (\S+)$',
        server.get("/metrics").text,
        re.MULTILINE,
    )
    return float(found[1]) if found else 0
