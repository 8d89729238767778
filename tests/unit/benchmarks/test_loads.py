"""The prepared requests and the clients that send them."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moorage_benchmarks import models, wire, workloads
from moorage_benchmarks.http_answer import answer_bytes
from moorage_benchmarks.http_arrivals import HttpArrivals
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.programs import BenchmarkError

from moorage_runtime.codec import grps_proto, oip_proto, oip_request

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "01-digits"
ANSWER = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello"
WORKLOADS = {workload.name: workload for workload in workloads.digits(EXAMPLE)}


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")]
)
def test_varints_are_the_bytes_of_the_encoding_guide(number, expected):
    assert wire.varint(number).hex() == expected


def test_a_negative_varint_is_refused():
    with pytest.raises(ValueError, match="-1"):
        wire.varint(-1)


def test_fields_are_the_bytes_of_the_encoding_guide():
    assert wire.integer(1, 150).hex() == "089601"
    assert wire.block(2, "testing").hex() == "120774657374696e67"


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
    by_oip, _, by_rows, by_grps = [json.loads(workload.body) for workload in workloads.small()]

    (features,) = by_rows["instances"]
    assert by_oip["inputs"][0]["data"] == features
    assert by_grps["gtensors"]["tensors"][0]["flat_float32"] == features


def test_the_picture_is_the_same_as_binary_data_and_as_json():
    binary, flat, rows = workloads.image()
    size = int(binary.headers.split(b":")[1])
    expected = oip_request.decode(binary.body, size, "image", "").request.inputs[0].array

    by_json = oip_request.decode(flat.body, None, "image", "").request.inputs[0].array
    by_rows = np.array(json.loads(rows.body)["instances"], np.float32)
    np.testing.assert_array_equal(by_json, expected)
    np.testing.assert_array_equal(by_rows, expected)


def test_the_models_answer_what_the_workloads_expect(tmp_path):
    models.write(tmp_path, EXAMPLE / "model.onnx")
    small = ort.InferenceSession(str(tmp_path / "small" / "1" / "model.onnx"))
    image = ort.InferenceSession(str(tmp_path / "image" / "1" / "model.onnx"))

    label, probabilities = small.run(None, {"x": np.array([[5.1, 3.5, 1.4, 0.2]], np.float32)})
    (means,) = image.run(None, {"image": np.ones((1, 3, 224, 224), np.float32)})

    assert (label.tolist(), probabilities.shape) == ([2], (1, 3))
    assert means.shape == (1, 3, 14, 14)
    np.testing.assert_allclose(means, 1)


def test_an_http_request_says_how_long_its_body_is():
    head, _, body = WORKLOADS["OIP binary over HTTP"].http_request(81).partition(b"\r\n\r\n")

    assert head.startswith(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: 127.0.0.1:81\r\n")
    assert b"\r\nContent-Length: %d\r\n" % len(body) in head
    assert b"\r\nInference-Header-Content-Length: " in head


@given(st.integers(0, len(ANSWER)))
def test_an_answer_has_no_size_until_its_head_is_whole(cut):
    head = ANSWER.index(b"\r\n\r\n") + 4

    assert answer_bytes(ANSWER[:cut]) == (len(ANSWER) if cut >= head else 0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ANSWER.replace(b"200 OK", b"400 Bad Request"), "400 Bad Request"),
        (ANSWER.replace(b"Content-Length", b"Other"), "no Content-Length"),
    ],
)
def test_an_answer_that_is_no_success_is_an_error(answer, said):
    with pytest.raises(ValueError, match=said):
        answer_bytes(answer)


@contextmanager
def answering(*pieces):
    """A server on loopback that answers each request with the pieces, one send each."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client):
        # the client is free to hang up at any time
        with client, suppress(OSError):
            while client.recv(100):
                for piece in pieces:
                    client.sendall(piece)
                if not pieces:
                    return

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


@contextmanager
def load_on(port, connections=2):
    load = HttpLoad(port, b"ask", connections)
    try:
        yield load
    finally:
        load.close()


@pytest.mark.parametrize("pieces", [[ANSWER], [ANSWER[:10], ANSWER[10:30], ANSWER[30:]]])
def test_the_client_counts_whole_answers_on_every_connection(pieces):
    with answering(*pieces) as port, load_on(port, connections=3) as load:
        assert load.ask() == ANSWER
        assert load.run(0) == 3
        assert load.run(0.05) > 3


@pytest.mark.parametrize("pieces", [[ANSWER], [ANSWER[:10], ANSWER[10:30], ANSWER[30:]]])
def test_every_arrival_is_answered_though_more_arrive_than_there_are_connections(pieces):
    with answering(*pieces) as port:
        load = HttpArrivals(port, b"ask", connections=2)
        try:
            latencies = load.run([0.0] * 7 + [0.02])
        finally:
            load.close()

    assert len(latencies) == 8
    assert min(latencies) > 0


def test_a_request_that_waits_for_a_connection_counts_from_its_arrival():
    with slow(seconds=0.05) as port:
        load = HttpArrivals(port, b"ask", connections=1)
        try:
            first, second, third = load.run([0.0, 0.0, 0.0])
        finally:
            load.close()

    assert second - first >= 0.05
    assert third - second >= 0.05


def test_arrivals_at_a_server_that_hangs_up_are_an_error():
    with answering() as port:
        load = HttpArrivals(port, b"ask", connections=1)
        try:
            with pytest.raises(BenchmarkError, match="closed the connection"):
                load.run([0.0])
        finally:
            load.close()


def test_a_server_that_hangs_up_is_an_error():
    hung_up = pytest.raises(BenchmarkError, match="closed the connection")

    with answering() as port, load_on(port) as load, hung_up:
        load.run(0.05)


def test_a_server_that_answers_with_an_error_is_an_error():
    refused = pytest.raises(BenchmarkError, match="400 Bad Request")

    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, load_on(port) as load, refused:
        load.run(0.05)
