"""The runtime beside other servers: the same model, the same requests, the same cores, in turns.

    Server of each, on one core -> answers checked -> rounds: cost at a fixed number of requests
    under way, then latency at a share of what the server just answered -> Report

The model takes microseconds, so nearly everything that is measured is the server.
"""

import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moorage_benchmarks import (
    figures,
    latency_plot,
    models,
    peer_servers,
    programs,
    throughput,
    workloads,
)
from moorage_benchmarks.grpc_load import GrpcLoad
from moorage_benchmarks.http_answer import HEAD_END
from moorage_benchmarks.http_arrivals import HttpArrivals, schedule
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.latency_plot import Range
from moorage_benchmarks.peer_servers import Server
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.throughput import Load, Sample
from moorage_runtime._generated import oip_pb2 as pb

OURS = "moorage"
NAMES: Mapping[str, str] = {
    OURS: "Moorage",
    "triton": "Triton, Python backend",
    "mlserver": "MLServer",
    "kserve": "KServe Python server",
}
HTTP, GRPC = "OIP JSON/HTTP", "OIP gRPC"
UTILIZATION = 0.7
CONNECTIONS = 32
LABEL = 2
PLOT_TITLE = f"Latency at {UTILIZATION:.0%} of each server's own capacity: p50 to p99, ms"
HOW = (
    "![latency under load](peers.svg)\n\n"
    "Every server runs the same model of 4 features and 3 probabilities with ONNX Runtime and one "
    "thread, all are bound to one core, and the client has another. MLServer runs it in its own "
    "process (parallel_workers 0), KServe's server has one worker, Triton calls ONNX Runtime in "
    "its Python backend, as it does where the model is Python; its backend for ONNX files, which "
    "no wheel has, would cost less. "
    f"CPU µs a request is that of all processes of the server, user and kernel, with "
    f"{workloads.UNDER_WAY} requests under way at a time; answered/s is by the clock, so that the "
    "client and other programs on the machine are in it, and busy is how much of its core the "
    "server then used. Times compares CPU time with Moorage's over the same protocol in the same "
    f"rounds. Latency is over HTTP at {UTILIZATION:.0%} of what that server answered a second "
    "just before: requests arrive at random times drawn beforehand, whether the server keeps up "
    f"or not, over {CONNECTIONS} connections, and count from their time of arrival. Medians of "
    "the rounds; ± is half the range."
)


@dataclass(frozen=True)
class Latencies:
    """One round of arrivals: how many a second, and their latencies in seconds."""

    rate: float
    seconds: Sequence[float]


@dataclass
class Taken:
    """What the rounds gave for one server.

    Attributes:
        version: As the server says.
        costs: Samples by protocol.
        latencies: Of each round.
    """

    version: str
    costs: dict[str, list[Sample]] = field(default_factory=dict[str, list[Sample]])
    latencies: list[Latencies] = field(default_factory=list[Latencies])


def measure(*, rounds: int, seconds: float) -> Report:
    """Every server over HTTP and gRPC.

    Args:
        rounds: Times that each is measured.
        seconds: Length of one measurement.

    Raises:
        BenchmarkError: There is one core only, or a server cannot be installed, fails or answers
            wrongly.
    """
    server_core, client_core = throughput.two_cores()
    # pip may use both
    for name in peer_servers.COMMANDS:
        peer_servers.installed(name)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        models.write(folder, programs.DIGITS / "model.onnx")
        with programs.pinned(server_core):
            servers = {name: stack.enter_context(_serve(name, folder)) for name in NAMES}
        stack.enter_context(programs.pinned(client_core))
        taken = {name: _first(name, server) for name, server in servers.items()}
        for number, name in itertools.product(range(rounds), NAMES):
            _round(servers[name], taken[name], seconds, number)
    return make_report(taken, os.getloadavg())


def make_report(taken: Mapping[str, Taken], machine_load: Sequence[float]) -> Report:
    """A row for each server and protocol. Pure.

    Args:
        taken: By name of the server, ours among them.
        machine_load: Load averages of 1, 5 and 15 minutes.
    """
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {"load_average_5_minutes": machine_load[1]}
    ranges: list[Range] = []
    for (name, found), protocol in itertools.product(taken.items(), (HTTP, GRPC)):
        cpu = [sample.cpu_microseconds for sample in found.costs[protocol]]
        ours = [sample.cpu_microseconds for sample in taken[OURS].costs[protocol]]
        cost = figures.median(cpu)
        ratio = figures.median([one / other for one, other in zip(cpu, ours, strict=True)])
        samples = found.costs[protocol]
        answered = figures.median([each.requests / each.wall_seconds for each in samples])
        busy = figures.median([each.cpu_seconds / each.wall_seconds for each in samples])
        entry = {
            "version": found.version,
            "cpu_microseconds_per_request": cost,
            "times_moorage": ratio,
            "answered_per_second": answered,
            "server_core_busy": busy,
            "rounds_cpu_microseconds_per_request": cpu,
        }
        shown = ["", "", ""]
        if protocol == HTTP:
            under_load = _under_load(found.latencies)
            entry |= under_load
            p50, p99 = under_load["p50_milliseconds"], under_load["p99_milliseconds"]
            shown = [f"{under_load['arrivals_per_second']:,.0f}", f"{p50:.2f}", f"{p99:.2f}"]
            ranges.append(Range(NAMES[name], p50, p99))
        data[f"{name}: {protocol}"] = entry
        rows.append(
            [
                f"{NAMES[name]} {found.version}: {protocol}",
                f"{cost:.0f} ± {figures.spread_percent(cpu):.0f} %",
                f"{ratio:.1f}",
                f"{answered:,.0f}",
                f"{busy:.0%}",
                *shown,
            ]
        )
    head = ["server", "CPU µs a request", "times", "answered/s", "busy"]
    head += [f"arrivals/s at {UTILIZATION:.0%}", "p50 ms", "p99 ms"]
    how = f"{HOW} Load average of the machine over the last 5 minutes: {machine_load[1]:.1f}."
    plot = latency_plot.svg(PLOT_TITLE, ranges)
    return Report("Beside other servers", how, Table(head, rows), data, plot)


def _under_load(latencies: Sequence[Latencies]) -> Mapping[str, float]:
    """Medians of the rounds' percentiles, in milliseconds."""
    shown = {"arrivals_per_second": figures.median([each.rate for each in latencies])}
    for percent in (50, 90, 99):
        found = [figures.percentile(each.seconds, percent) * 1000 for each in latencies]
        shown[f"p{percent}_milliseconds"] = figures.median(found)
    return shown


@contextlib.contextmanager
def _serve(name: str, folder: Path) -> Generator[Server]:
    """A server of the repository's model ``small``."""
    if name != OURS:
        with peer_servers.serve(name, folder / "small" / "1" / "model.onnx") as server:
            yield server
        return
    with programs.runtime(f"--model-repository={folder}") as ours:
        yield Server(ours.pid, ours.http_port, ours.grpc_port)


def _first(name: str, server: Server) -> Taken:
    """Nothing yet, of a server that has answered rightly in both protocols, and is warm.

    Raises:
        BenchmarkError: It answers wrongly or not at all.
    """
    for protocol, label in ((HTTP, label_of_json), (GRPC, label_of_message)):
        with contextlib.closing(_load(server, protocol)) as load:
            answer = load.ask()
            if label(answer) != LABEL:
                raise BenchmarkError(f"{name}, {protocol}: label {LABEL} is not in {answer!r}")
            load.run(throughput.WARM_SECONDS)
    version: str = json.loads(programs.fetch(server.http_port, "/v2"))["version"]
    return Taken(version, {HTTP: [], GRPC: []})


def _round(server: Server, taken: Taken, seconds: float, number: int) -> None:
    """One measurement of each kind; the number of the round is the seed of its arrivals.

    Connections are new each time: some servers hang up on those that wait for their turn.
    """
    for protocol, samples in taken.costs.items():
        with contextlib.closing(_load(server, protocol)) as load:
            samples.append(throughput.take(server.pid, load, seconds))
    capacity = taken.costs[HTTP][-1]
    rate = UTILIZATION * capacity.requests / capacity.wall_seconds
    request = workloads.small()[0].http_request(server.http_port)
    with contextlib.closing(HttpArrivals(server.http_port, request, CONNECTIONS)) as arrivals:
        latencies = arrivals.run(schedule(rate, seconds, number))
    taken.latencies.append(Latencies(rate, latencies))


def _load(server: Server, protocol: str) -> Load:
    if protocol == HTTP:
        asked = workloads.small()[0]
        request = asked.http_request(server.http_port)
        return HttpLoad(server.http_port, request, asked.under_way)
    asked = workloads.small_grpc()
    return GrpcLoad(server.grpc_port, asked.target, asked.body, asked.under_way)


def label_of_json(answer: bytes) -> int | None:
    """From a whole HTTP answer."""
    outputs: list[dict[str, Any]] = json.loads(answer.partition(HEAD_END)[2])["outputs"]
    return next((each["data"][0] for each in outputs if each["name"] == "label"), None)


def label_of_message(answer: bytes) -> int | None:
    """From a ModelInferResponse, whose contents may be raw or typed."""
    response = pb.ModelInferResponse.FromString(answer)
    names = [output.name for output in response.outputs]
    if "label" not in names:
        return None
    place = names.index("label")
    if response.raw_output_contents:
        return int.from_bytes(response.raw_output_contents[place], "little", signed=True)
    return response.outputs[place].contents.int64_contents[0]


def summary(results: Mapping[str, Any]) -> Table:
    """The few figures of a recorded report that the README shows, a row for each server. Pure."""
    rows: list[Sequence[str]] = []
    for name, shown in NAMES.items():
        by_http, by_grpc = results[f"{name}: {HTTP}"], results[f"{name}: {GRPC}"]
        rows.append(
            [
                f"{shown} {by_http['version']}",
                f"{by_http['cpu_microseconds_per_request']:.0f} µs",
                f"{by_grpc['cpu_microseconds_per_request']:.0f} µs",
                f"{by_http['arrivals_per_second']:,.0f}/s",
                f"{by_http['p50_milliseconds']:.1f} ms",
                f"{by_http['p99_milliseconds']:.1f} ms",
            ]
        )
    head = ["server", "CPU a request, JSON", "CPU a request, gRPC"]
    return Table([*head, f"JSON at {UTILIZATION:.0%} load", "p50", "p99"], rows)
