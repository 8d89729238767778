"""What a gRPC call costs with each transport, compared with a minimal server on grpcio.

models, requests -> three servers, in turn -> CPU time per call
"""

import contextlib
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moorage_benchmarks import figures, minimal_grpc, models, programs, throughput, workloads
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.throughput import Load, Sample

TRANSPORTS = ("native", "grpcio")
MINIMAL = "minimal grpcio server"
HOW = (
    "Requests are OIP gRPC with raw tensors. The small request has 4 floats, and the image "
    "1x3x224x224 FP32 (602,112 bytes), of which a model returns averages (588 values). The "
    "servers are bound to one core and the client to another, with "
    f"{throughput.CONCURRENCY} concurrent calls on one connection. CPU µs per call is the user "
    "and kernel CPU time of the server's process, and times minimal compares it with the "
    "minimal server's for the same request. That server parses, infers and answers on "
    "grpcio's asyncio server, without checks, counters or limits. Rounds are interleaved. "
    "Figures are medians; ± is half the range."
)


def measure(*, rounds: int, seconds: float) -> Report:
    """Both transports and the minimal server, with a small and a large request.

    Args:
        rounds: Times that each is measured.
        seconds: Length of one measurement.

    Raises:
        BenchmarkError: There is one core only, or a server fails or answers wrongly.
    """
    server_core, client_core = throughput.two_cores()
    loads: dict[str, tuple[int, Load]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models.write(folder, programs.DIGITS / "model.onnx")
        with programs.pinned(server_core):
            servers: dict[str, tuple[int, int]] = {}
            for transport in TRANSPORTS:
                options = f"--model-repository={folder}", f"--grpc-transport={transport}"
                started = stack.enter_context(programs.runtime(*options))
                servers[f"{transport} transport"] = started.pid, started.grpc_port
            servers[MINIMAL] = stack.enter_context(programs.minimal(minimal_grpc, str(folder)))
        stack.enter_context(programs.pinned(client_core))
        asked = [workloads.small_grpc(), *(each for each in workloads.image() if each.is_grpc)]
        for workload, (server, (pid, port)) in itertools.product(asked, servers.items()):
            size, _, _ = workload.name.partition(":")
            load = throughput.make_load(workload, 0, port)
            throughput.warm(load, workload)
            loads[f"{server}, {size}"] = pid, load
        samples: dict[str, list[Sample]] = {name: [] for name in loads}
        for _, (name, (pid, load)) in itertools.product(range(rounds), loads.items()):
            samples[name].append(throughput.take(pid, load, seconds))
    return make_report(samples)


def make_report(samples: dict[str, list[Sample]]) -> Report:
    """The medians of each server's samples, compared with the minimal server's. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for name, found in samples.items():
        cpu = [sample.cpu_microseconds for sample in found]
        rate = figures.median([sample.requests / sample.wall_seconds for sample in found])
        cost = figures.median(cpu)
        floor = samples[f"{MINIMAL}, {name.rpartition(', ')[2]}"]
        times = cost / figures.median([sample.cpu_microseconds for sample in floor])
        spread = f"{cost:.1f} ± {figures.spread_percent(cpu):.0f} %"
        rows.append([name, spread, f"{times:.2f}", f"{1e6 / cost:,.0f}", f"{rate:,.0f}"])
        data[name] = {
            "cpu_microseconds_per_call": cost,
            "times_minimal": times,
            "answered_per_second": rate,
            "rounds_cpu_microseconds_per_call": cpu,
        }
    head = ["server, request", "CPU µs per call", "times minimal", "calls/s of one core"]
    return Report("Cost of a gRPC call", HOW, Table([*head, "answers/s"], rows), data)
