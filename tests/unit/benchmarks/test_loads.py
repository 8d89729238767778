"""The prepared requests ask the same question, and the clients measure what they should."""

import json
import re
import socket
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from moorage_benchmarks import workloads
from moorage_benchmarks.http_arrivals import HttpArrivals
from moorage_benchmarks.http_load import HttpLoad

from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.codec.oip import request as oip_request

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "01-digits"
ANSWER = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello"
WORKLOADS = {workload.name: workload for workload in workloads.digits(EXAMPLE)}
SMALL = {workload.name: workload for workload in workloads.small()}


def test_every_protocol_asks_about_the_same_picture():
    by_json = oip_request.decode(WORKLOADS["OIP JSON"].body, None, "digits", "").request.inputs[0]
    by_grpc = oip_proto.decode_infer(WORKLOADS["OIP gRPC"].body).request.inputs[0]
    binary = WORKLOADS["OIP binary over HTTP"]
    size = int(binary.headers.split(b":")[1])
    by_binary = oip_request.decode(binary.body, size, "digits", "").request.inputs[0]

    grps = grps_proto.decode(grps_proto.parse(WORKLOADS["GRPS gRPC"].body)).data.tensors[0]
    rows = json.loads(WORKLOADS["TensorFlow Serving REST"].body)["instances"]
    grps_json_body = json.loads(WORKLOADS["GRPS JSON"].body)["gtensors"]["tensors"][0]

    expected = (by_json.name, by_json.datatype, by_json.shape, by_json.array.tobytes())
    for tensor in (by_grpc, by_binary, grps):
        assert (tensor.name, tensor.datatype, tensor.shape, tensor.array.tobytes()) == expected
    assert rows == by_json.array.tolist()
    assert grps_json_body["flat_float32"] == by_json.array.reshape(-1).tolist()


def test_every_protocol_asks_the_small_model_about_the_same_features():
    by_oip, by_equal, _, by_rows, by_grps = [json.loads(each.body) for each in SMALL.values()]
    by_grpc = oip_proto.decode_infer(workloads.small_grpc().body).request.inputs[0]

    (features,) = by_rows["instances"]
    assert by_oip == by_equal
    assert by_oip["inputs"][0]["data"] == features
    assert by_grps["gtensors"]["tensors"][0]["flat_float32"] == features
    np.testing.assert_allclose(by_grpc.array, [features])


def test_every_protocol_asks_about_the_same_image():
    binary, by_grpc, flat, rows = workloads.image()
    size = int(binary.headers.split(b":")[1])
    expected = oip_request.decode(binary.body, size, "image", "").request.inputs[0].array

    found = (
        oip_request.decode(flat.body, None, "image", "").request.inputs[0].array,
        oip_proto.decode_infer(by_grpc.body).request.inputs[0].array,
        np.array(json.loads(rows.body)["instances"], np.float32),
    )
    for array in found:
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("workload", [SMALL["small: OIP JSON"], workloads.image()[0]])
def test_requests_differ_in_a_trace_id_alone(workload):
    requests = workload.http_requests(81)

    traces = [re.findall(rb"\r\ntraceparent: (00-[0-9a-f]{32}-[0-9a-f]{16}-01)\r\n", each)
              for each in requests]  # fmt: skip
    assert len({trace for (trace,) in traces}) == len(requests) > workload.under_way
    assert len({re.sub(rb"traceparent: .*", b"", each) for each in requests}) == 1


def test_requests_with_equal_headers_are_equal():
    (request,) = SMALL["small: OIP JSON, equal headers"].http_requests(81)

    (differing, *_) = SMALL["small: OIP JSON"].http_requests(81)
    assert request == re.sub(rb"traceparent: .*\r\n", b"", differing)


@contextmanager
def answering(*pieces, asked=None):
    """A server on loopback that answers each request with the pieces, and lists the requests."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client):
        # the client is free to hang up at any time
        with client, suppress(OSError):
            while request := client.recv(100):
                if asked is not None:
                    asked.append(request)
                for piece in pieces:
                    client.sendall(piece)

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def slow(seconds):
    """A server on loopback that answers one connection, each request after so long."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        client, _ = listener.accept()
        with client, suppress(OSError):
            while client.recv(100):
                threading.Event().wait(seconds)
                client.sendall(ANSWER)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join()
        listener.close()


@pytest.mark.parametrize("pieces", [[ANSWER], [ANSWER[:10], ANSWER[10:30], ANSWER[30:]]])
def test_the_client_counts_whole_answers_on_every_connection(pieces):
    with (
        answering(*pieces) as port,
        closing(HttpLoad(port, [b"ask"], connections=3)) as load,
    ):
        assert load.ask() == ANSWER
        assert load.run(0) == 3
        assert load.run(0.05) > 3


def test_the_client_sends_the_requests_in_turn():
    asked = []
    with (
        answering(ANSWER, asked=asked) as port,
        closing(HttpLoad(port, [b"one", b"two", b"three"], connections=1)) as load,
    ):
        for _ in range(4):
            load.ask()

    assert asked == [b"one", b"two", b"three", b"one"]


def test_a_request_that_waits_for_a_connection_counts_from_its_arrival():
    with (
        slow(seconds=0.05) as port,
        closing(HttpArrivals(port, [b"ask"], connections=1)) as load,
    ):
        first, second, third = load.run([0.0, 0.0, 0.0])

    assert second - first >= 0.05
    assert third - second >= 0.05
