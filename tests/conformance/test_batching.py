"""Dynamic batching over the wire: many concurrent clients, each with its own response."""

import json
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.runtime import Runtime, serving

pytestmark = pytest.mark.conformance

COLUMNS, WIDTH = 8, 2048
CLIENTS = 24
# Refuses a negative number; returns its rows and the size of the batch.
PICKY = """\
from moorage_runtime.backends.python import PythonModel
from moorage_runtime.errors import InvalidRequest


class Picky(PythonModel):
    inputs = [("x", "FP32", [-1, 8])]
    outputs = [("y", "FP32", [-1, 8])]

    def predict(self, inputs, request):
        x = inputs["x"]
        for _ in range(2000):
            x.sum()
        if (x < 0).any():
            raise InvalidRequest("negative numbers are refused")
        return {"y": x * 2}
"""


def weights() -> list[np.ndarray]:
    random = np.random.default_rng(7)
    shapes = ((COLUMNS, WIDTH), (WIDTH, WIDTH), (WIDTH, COLUMNS))
    return [(random.standard_normal(s) / np.sqrt(s[0])).astype(np.float32) for s in shapes]


def write_layers(path: Path, *, mixes: bool) -> None:
    """Three layers, large enough for requests to wait; with a softmax over the batch."""
    nodes = [
        helper.make_node(
            "MatMul", ["x" if not place else f"h{place}", f"w{place}"], [f"h{place + 1}"]
        )
        for place in range(3)
    ]
    if mixes:
        nodes.append(helper.make_node("Softmax", ["h3"], ["y"], axis=0))
    else:
        nodes.append(helper.make_node("Identity", ["h3"], ["y"]))
    constants = [numpy_helper.from_array(w, f"w{place}") for place, w in enumerate(weights())]
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", COLUMNS]) for name in "xy"
    ]
    graph = helper.make_graph(nodes, "layers", tensors[:1], tensors[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    path.parent.mkdir(parents=True)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for name in ("plain", "mixed", "off"):
        write_layers(root / name / "model.onnx", mixes=name == "mixed")
    (root / "off" / "model.yaml").write_text("batching: {enabled: false}\n")
    (root / "picky").mkdir()
    (root / "picky" / "model.py").write_text(PICKY)
    (root / "picky" / "model.yaml").write_text("batching: {enabled: true}\n")
    with serving(root) as started:
        yield started


def burst(runtime: Runtime, model: str, inputs: Sequence[np.ndarray]) -> list[dict]:
    """Send all requests at once, each on its own connection; returns the responses in order."""
    connections = [socket.create_connection(("127.0.0.1", runtime.http_port), 20) for _ in inputs]
    for connection, x in zip(connections, inputs, strict=True):
        tensor = {"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}
        body = json.dumps({"inputs": [tensor]})
        connection.sendall(
            f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
    answers = []
    for connection in connections:
        with connection, connection.makefile("rb") as stream:
            answers.append(json.loads(stream.read().partition(b"\r\n\r\n")[2]))
    return answers


def pictures(count: int = CLIENTS) -> list[np.ndarray]:
    random = np.random.default_rng(count)
    return [random.random((1 + n % 3, COLUMNS), np.float32) for n in range(count)]


def numbers(answer: dict) -> np.ndarray:
    output = answer["outputs"][0]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def merged(runtime: Runtime, model: str) -> tuple[float, float]:
    """Number of runs in threads, and of their requests."""
    text = runtime.get("/metrics").text
    label = rf'{{model="{model}",version="1"}} (\S+)'
    count = re.search(rf"moorage_batch_requests_count{label}", text)
    total = re.search(rf"moorage_batch_requests_sum{label}", text)
    return (float(count[1]), float(total[1])) if count and total else (0.0, 0.0)


def test_many_clients_share_runs_and_each_gets_its_own_rows(runtime):
    first, second, third = weights()

    for _ in range(5):
        for x, answer in zip(pictures(), burst(runtime, "plain", pictures()), strict=True):
            expected = x @ first @ second @ third
            np.testing.assert_allclose(numbers(answer), expected, rtol=1e-3, atol=1e-4)

    runs, requests = merged(runtime, "plain")
    assert requests == 5 * CLIENTS
    assert runs < requests


def test_a_model_with_dependent_rows_is_not_batched(runtime):
    alone = [numbers(burst(runtime, "mixed", [x])[0]) for x in pictures(8)]

    for _ in range(5):
        together = burst(runtime, "mixed", pictures(8))
        for found, expected in zip(together, alone, strict=True):
            np.testing.assert_allclose(numbers(found), expected, rtol=1e-3)

    runs, requests = merged(runtime, "mixed")
    assert runs == requests
    assert "model 'mixed' version '1' runs without batching: operator Softmax: it works along" in (
        runtime.log
    )


def test_batching_can_be_disabled_per_model(runtime):
    burst(runtime, "off", pictures())

    runs, requests = merged(runtime, "off")
    assert runs == requests == CLIENTS


def test_a_refused_request_fails_alone(runtime):
    inputs = pictures()
    inputs[CLIENTS // 2] = -inputs[CLIENTS // 2]

    answers = burst(runtime, "picky", inputs)

    for place, (x, answer) in enumerate(zip(inputs, answers, strict=True)):
        if place == CLIENTS // 2:
            assert answer == {"error": "negative numbers are refused"}
        else:
            np.testing.assert_array_equal(numbers(answer), x * 2)
    runs, requests = merged(runtime, "picky")
    assert runs < requests
