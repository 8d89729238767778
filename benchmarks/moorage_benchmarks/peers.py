"""The runtime beside other servers: the same model, the same requests, the same cores, in turns.

    Server of each, on one core -> answers checked -> rounds: cost at a fixed number of requests
    under way, then latency at the same rate for all, and at a share of what the server just
    answered -> Report

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
from moorage_benchmarks.http_answer import HEAD_END
from moorage_benchmarks.http_arrivals import HttpArrivals, schedule
from moorage_benchmarks.latency_plot import Range
from moorage_benchmarks.peer_servers import Server
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.throughput import Load, Sample
from moorage_benchmarks.workloads import Workload
from moorage_runtime.codec._generated import oip_pb2 as pb

OURS = "moorage"
NAMES: Mapping[str, str] = {
    OURS: "Moorage",
    "triton": "Triton, Python backend",
    "mlserver": "MLServer",
    "kserve": "KServe Python server",
}
HTTP, EQUAL, GRPC = "OIP JSON/HTTP", "OIP JSON/HTTP, equal headers", "OIP gRPC"
_PREPARED = {each.name: each for each in workloads.small()}
ASKED: Mapping[str, Workload] = {
    HTTP: _PREPARED["small: OIP JSON"],
    EQUAL: _PREPARED["small: OIP JSON, equal headers"],
    GRPC: workloads.small_grpc(),
}
SAME_RATE = 500.0
UTILIZATION = 0.7
CONNECTIONS = 32
LABEL = 2
PLOT_TITLE = f"Latency at {SAME_RATE:.0f} requests per second: p50 to p99, ms"
HOW = (
    f"![latency at {SAME_RATE:.0f} requests per second](peers.svg)\n\n"
    "Every server runs the same model of 4 features and 3 probabilities with ONNX Runtime and "
    "one thread, bound to one core; the client uses another core. MLServer runs the model in "
    "its own process (parallel_workers 0), KServe's server has one worker, and Triton calls "
    "ONNX Runtime in its Python backend, as it does for a Python model. Triton's backend for "
    "ONNX files would cost less, but no wheel includes it. CPU µs per request is the user and "
    f"kernel CPU time of all processes of the server, with {workloads.UNDER_WAY} concurrent "
    "requests. Each HTTP request has a new traceparent header, as those of traced clients do, "
    "except in the rows with equal headers. Answers/s is a wall-clock figure, "
    "so the client and other programs on the machine affect it, and busy is the share of its "
    "core that the server then used. Times compares CPU time with Moorage's over the same "
    "protocol in the same rounds. Latency is over HTTP: requests arrive at random times drawn in "
    f"advance, whether or not the server keeps up, over {CONNECTIONS} connections, and latency "
    f"counts from the arrival time. At {SAME_RATE:.0f} requests per second, all servers have the "
    f"same work; at {UTILIZATION:.0%} of the answers/s of that server just before, each has as "
    "much as it can take. A server that answers faster is then sent more, so compare these "
    "latencies with the rate beside them; the client, which is written in Python, adds to them at "
    "thousands of requests per second. Figures are medians of the rounds; ± is half the range."
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
        latencies: Of each round, at a share of the server's capacity.
        same: Of each round, at the same rate for all.
    """

    version: str
    costs: dict[str, list[Sample]] = field(default_factory=dict[str, list[Sample]])
    latencies: list[Latencies] = field(default_factory=list[Latencies])
    same: list[Latencies] = field(default_factory=list[Latencies])


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
    for (name, found), protocol in itertools.product(taken.items(), ASKED):
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
        shown = [""] * 5
        if protocol == HTTP:
            same, share = _percentiles(found.same), _percentiles(found.latencies)
            entry |= {"at_the_same_rate": same, "at_a_share_of_capacity": share}
            shown = [*_shown(same), f"{share['arrivals_per_second']:,.0f}", *_shown(share)]
            ranges.append(Range(NAMES[name], same["p50_milliseconds"], same["p99_milliseconds"]))
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
    head = ["server", "CPU µs per request", "times", "answers/s", "busy"]
    head += [f"p50 ms at {SAME_RATE:.0f}/s", "p99 ms"]
    head += [f"arrivals/s at {UTILIZATION:.0%}", "p50 ms", "p99 ms"]
    how = f"{HOW} Load average of the machine over the last 5 minutes: {machine_load[1]:.1f}."
    plot = latency_plot.svg(PLOT_TITLE, ranges)
    return Report("Comparison with other servers", how, Table(head, rows), data, plot)


def _shown(percentiles: Mapping[str, float]) -> tuple[str, str]:
    return f"{percentiles['p50_milliseconds']:.2f}", f"{percentiles['p99_milliseconds']:.2f}"


def _percentiles(latencies: Sequence[Latencies]) -> Mapping[str, float]:
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
    for protocol in ASKED:
        label = label_of_message if protocol == GRPC else label_of_json
        with contextlib.closing(_load(server, protocol)) as load:
            answer = load.ask()
            if label(answer) != LABEL:
                raise BenchmarkError(f"{name}, {protocol}: label {LABEL} is not in {answer!r}")
            load.run(throughput.WARM_SECONDS)
    version: str = json.loads(programs.fetch(server.http_port, "/v2"))["version"]
    return Taken(version, {protocol: [] for protocol in ASKED})


def _round(server: Server, taken: Taken, seconds: float, number: int) -> None:
    """One measurement of each kind; the number of the round is the seed of its arrivals.

    Connections are new each time: some servers hang up on those that wait for their turn.
    """
    for protocol, samples in taken.costs.items():
        with contextlib.closing(_load(server, protocol)) as load:
            samples.append(throughput.take(server.pid, load, seconds))
    capacity = taken.costs[HTTP][-1]
    share = UTILIZATION * capacity.requests / capacity.wall_seconds
    for rate, latencies in ((SAME_RATE, taken.same), (share, taken.latencies)):
        asked = ASKED[HTTP].http_requests(server.http_port)
        with contextlib.closing(HttpArrivals(server.http_port, asked, CONNECTIONS)) as arrivals:
            found = arrivals.run(schedule(rate, seconds, number))
        latencies.append(Latencies(rate, found))


def _load(server: Server, protocol: str) -> Load:
    return throughput.make_load(ASKED[protocol], server.http_port, server.grpc_port)


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
                f"{by_http['at_the_same_rate']['p50_milliseconds']:.1f} ms",
                f"{by_http['at_the_same_rate']['p99_milliseconds']:.1f} ms",
            ]
        )
    head = ["server", "CPU per request, JSON", "CPU per request, gRPC"]
    return Table([*head, f"p50, JSON at {SAME_RATE:.0f}/s", "p99"], rows)
