"""What dynamic batching gives: the same medium model batched and not, alone and under load.

The server is bound to one core and the client to another; both models are in one server and every
load takes its turn in each round, so that whatever else the machine does hits all of them.
"""

import itertools
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from moorage_benchmarks import figures, programs, throughput
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.throughput import Sample
from moorage_benchmarks.workloads import Workload

CONCURRENCIES = (1, 8, 32)
# 1.9 million weights: some 0.3 ms for one row, and hardly more for ten.
SIZES = (784, 1024, 1024, 10)
# Trials and thread start-up are not what is measured.
WARM_SECONDS = 0.5
LAYERS = "-".join(map(str, SIZES))
SINGLE, BATCHED = "single", "batched"
HOW = (
    f"A perceptron of {LAYERS} in FP32, one row a request as binary tensor over HTTP. The same "
    "file serves as a model without batching and as one with it, in one server bound to one "
    "core; the client has another. So many requests are under way at a time. Gain is requests/s "
    "of one core, by the CPU time of the server's process, over that of the single model. "
    "Answered/s and latency, the number under way over answered/s, are by the clock, so that "
    "other programs on the machine are in them. Medians of the rounds."
)


@dataclass(frozen=True)
class Case:
    """One load."""

    model: str
    concurrency: int


def measure(*, rounds: int, seconds: float) -> Report:
    """Both models at every concurrency.

    Raises:
        BenchmarkError: There is one core only, or the server fails.
    """
    server_core, client_core = throughput.two_cores()
    cases = [Case(model, count) for count in CONCURRENCIES for model in (SINGLE, BATCHED)]
    samples: dict[Case, list[Sample]] = {case: [] for case in cases}
    with (
        tempfile.TemporaryDirectory() as folder,
        programs.pinned(server_core),
    ):
        write_models(Path(folder))
        with (
            programs.runtime(f"--model-repository={folder}") as runtime,
            programs.pinned(client_core),
        ):
            loads = {case: _load(runtime.http_port, case) for case in cases}
            for load in loads.values():
                load.run(WARM_SECONDS)
            for _, case in itertools.product(range(rounds), cases):
                samples[case].append(throughput.take(runtime.pid, loads[case], seconds))
            for load in loads.values():
                load.close()
    return make_report(samples)


def make_report(samples: dict[Case, list[Sample]]) -> Report:
    """A row for each load. Pure."""
    costs = {
        case: figures.median([sample.cpu_microseconds for sample in found])
        for case, found in samples.items()
    }
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for case, found in samples.items():
        rate = figures.median([sample.requests / sample.wall_seconds for sample in found])
        gain = costs[Case(SINGLE, case.concurrency)] / costs[case]
        latency = case.concurrency / rate * 1e6
        rows.append(
            [
                f"{case.concurrency} at a time, {case.model}",
                f"{costs[case]:.0f}",
                f"{1e6 / costs[case]:,.0f}",
                f"{gain:.2f}",
                f"{rate:,.0f}",
                f"{latency:,.0f}",
            ]
        )
        data[f"{case.concurrency}_{case.model}"] = {
            "cpu_microseconds_per_request": costs[case],
            "requests_per_core_second": 1e6 / costs[case],
            "gain": gain,
            "answered_per_second": rate,
            "latency_microseconds": latency,
        }
    head = [
        "load",
        "CPU µs a request",
        "requests/s of one core",
        "gain",
        "answered/s",
        "latency µs",
    ]
    return Report("Dynamic batching", HOW, Table(head, rows), data)


def write_models(root: Path) -> None:
    """The one model twice: without batching, and as it comes."""
    for name in (SINGLE, BATCHED):
        (root / name).mkdir()
        onnx.save(_perceptron(), root / name / "model.onnx")
    (root / SINGLE / "model.yaml").write_text("batching: {enabled: false}\n")


def _perceptron() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    last = len(SIZES) - 2
    for place, (width, height) in enumerate(itertools.pairwise(SIZES)):
        weights = random.standard_normal((width, height)) / np.sqrt(width)
        constants.append(numpy_helper.from_array(weights.astype(np.float32), f"w{place}"))
        source = "x" if not place else f"r{place - 1}"
        nodes.append(
            helper.make_node(
                "MatMul", [source, f"w{place}"], ["y" if place == last else f"h{place}"]
            )
        )
        if place != last:
            nodes.append(helper.make_node("Relu", [f"h{place}"], [f"r{place}"]))
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIZES[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIZES[-1]])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    return model


def _load(port: int, case: Case) -> HttpLoad:
    row = np.random.default_rng(1).standard_normal((1, SIZES[0]), np.float32).tobytes()
    tensor = {
        "name": "x",
        "shape": [1, SIZES[0]],
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(row)},
    }
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    head = json.dumps(asked).encode()
    workload = Workload(
        case.model,
        f"/v2/models/{case.model}/infer",
        head + row,
        b"",
        headers=b"Inference-Header-Content-Length: %d\r\n" % len(head),
    )
    return HttpLoad(port, workload.http_request(port), case.concurrency)
