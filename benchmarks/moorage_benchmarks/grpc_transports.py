"""What a gRPC call costs by each transport, beside the least that grpcio's server can do.

    models, requests -> three servers, in turn -> CPU time a call

A small picture and a large one: the digits model, and an average over an image of 602,112 bytes.
"""

import contextlib
import itertools
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from moorage_benchmarks import figures, minimal_grpc, programs, throughput, workloads
from moorage_benchmarks.grpc_load import GrpcLoad
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.throughput import Sample
from moorage_benchmarks.wire import block, integer

TRANSPORTS = ("native", "grpcio")
MINIMAL = "minimal grpcio server"
IMAGE_SHAPE = (1, 3, 224, 224)
HOW = (
    "OIP gRPC with raw tensors. small is one picture of the digits model, large an image of "
    "1x3x224x224 FP32 (602,112 bytes) of which a model takes averages (588 values). The servers "
    "are bound to one core, the client to another, "
    f"{throughput.CONCURRENCY} calls are under way at a time on one connection. CPU µs a call is "
    "the CPU time of the server's process, user and kernel. The minimal server parses, infers and "
    "answers on grpcio's asyncio server, and checks, counts and limits nothing. Rounds are "
    "interleaved; medians, ± is half the range."
)


def measure(*, rounds: int, seconds: float) -> Report:
    """Both transports and the floor of grpcio, with a small and a large request.

    Args:
        rounds: Times that each is measured.
        seconds: Length of one measurement.

    Raises:
        BenchmarkError: There is one core only, or a server fails or answers wrongly.
    """
    server_core, client_core = throughput.two_cores()
    samples: dict[str, list[Sample]] = {}
    with contextlib.ExitStack() as stack:
        repository = stack.enter_context(_repository())
        with programs.pinned(server_core):
            servers = {
                f"{transport} transport": stack.enter_context(_runtime(repository, transport))
                for transport in TRANSPORTS
            }
            servers[MINIMAL] = stack.enter_context(_minimal(repository))
        stack.enter_context(programs.pinned(client_core))
        loads = {
            f"{server}, {size}": (
                pid,
                GrpcLoad(port, minimal_grpc.METHOD, message, throughput.CONCURRENCY),
                expected,
            )
            for size, message, expected in (_small(), _large())
            for server, (pid, port) in servers.items()
        }
        for name, (_, load, expected) in loads.items():
            if expected not in load.ask():
                raise BenchmarkError(f"{name}: the answer is not the expected one")
            load.run(throughput.WARM_SECONDS)
        for _, (name, (pid, load, _)) in itertools.product(range(rounds), loads.items()):
            samples.setdefault(name, []).append(throughput.take(pid, load, seconds))
    return make_report(samples)


def make_report(samples: dict[str, list[Sample]]) -> Report:
    """The medians of each server's samples. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for name, found in samples.items():
        cpu = [sample.cpu_microseconds for sample in found]
        rate = figures.median([sample.requests / sample.wall_seconds for sample in found])
        cost = figures.median(cpu)
        spread = f"{cost:.1f} ± {figures.spread_percent(cpu):.0f} %"
        rows.append([name, spread, f"{1e6 / cost:,.0f}", f"{rate:,.0f}"])
        data[name] = {
            "cpu_microseconds_per_call": cost,
            "answered_per_second": rate,
            "rounds_cpu_microseconds_per_call": cpu,
        }
    head = ["server, request", "CPU µs a call", "calls/s of one core", "answered/s"]
    return Report("Cost of a gRPC call", HOW, Table(head, rows), data)


@contextlib.contextmanager
def _repository() -> Generator[Path]:
    """A model repository with the two models."""
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        for name in ("digits", "image"):
            (repository / name).mkdir()
        shutil.copy(programs.DIGITS / "model.onnx", repository / "digits")
        onnx.save(_image_model(), repository / "image" / "model.onnx")
        yield repository


def _image_model() -> onnx.ModelProto:
    """Averages over squares of 16 pixels: 602,112 bytes in, 588 values out, quick to compute."""
    weights = np.zeros((3, 3, 16, 16), np.float32)
    for channel in range(3):
        weights[channel, channel] = 1 / 256
    node = helper.make_node("Conv", ["image", "weights"], ["averages"], strides=[16, 16])
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "image",
        [tensor("image", TensorProto.FLOAT, IMAGE_SHAPE)],
        [tensor("averages", TensorProto.FLOAT, (1, 3, 14, 14))],
        [numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)


@contextlib.contextmanager
def _runtime(repository: Path, transport: str) -> Generator[tuple[int, int]]:
    options = f"--model-repository={repository}", f"--grpc-transport={transport}"
    with programs.runtime(*options) as started:
        yield started.pid, started.grpc_port


@contextlib.contextmanager
def _minimal(repository: Path) -> Generator[tuple[int, int]]:
    words = [sys.executable, minimal_grpc.__file__, str(repository)]
    environment = {"PYTHONPATH": str(programs.ROOT / "benchmarks")}
    with programs.process(words, r"listening on (\d+)", environment) as (pid, found):
        yield pid, int(found[1])


def _small() -> tuple[str, bytes, bytes]:
    """Size, request, and what the answer must hold."""
    prepared = {workload.name: workload for workload in workloads.digits(programs.DIGITS)}
    workload = prepared["OIP gRPC"]
    return "small", workload.body, workload.answer_holds


def _large() -> tuple[str, bytes, bytes]:
    image = np.full(IMAGE_SHAPE, 0.5, np.float32)
    dims = b"".join(integer(3, size) for size in IMAGE_SHAPE)
    tensor = block(1, "image") + block(2, "FP32") + dims
    message = block(1, "image") + block(5, tensor) + block(7, image.tobytes())
    return "large", message, np.full(588, 0.5, np.float32).tobytes()
