"""What the runtime takes beside floors of the same run, from the data of its measures.

    reports of the runtime's measures -> ratios -> gate

More is worse in each: where a measure tells a gain, this is its inverse. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moorage_benchmarks import figures, health, start
from moorage_benchmarks.batching import BATCHED, CONCURRENCIES, SINGLE
from moorage_benchmarks.grpc_transports import MINIMAL
from moorage_benchmarks.throughput import MINIMAL_HTTP, MODELS_ALONE

# What the minimal server is asked too.
SAME_ASKED = "small: OIP JSON"

Data = Mapping[str, Any]
Ratios = Mapping[str, float]


def of_requests(runtime: Data) -> Ratios:
    """CPU time of a request over that of the model alone, from the measure ``runtime``.

    By the clock the minimal server's answers stand over ours: CPU time does not tell who waits.
    """
    by_cpu = {
        name: entry["times_onnxruntime_alone"]
        for name, entry in runtime.items()
        if name not in MODELS_ALONE and name != MINIMAL_HTTP
    }
    answered = {name: runtime[name]["answered_per_second"] for name in (MINIMAL_HTTP, SAME_ASKED)}
    by_clock = answered[MINIMAL_HTTP] / answered[SAME_ASKED]
    return {**by_cpu, f"{SAME_ASKED}, by the clock": by_clock}


def of_grpc(grpc: Data) -> Ratios:
    """CPU time of a call over that of the minimal server on grpcio, from the measure ``grpc``."""
    found: dict[str, float] = {}
    for name, entry in grpc.items():
        server, _, size = name.rpartition(", ")
        if server != MINIMAL:
            floor = grpc[f"{MINIMAL}, {size}"]["cpu_microseconds_per_call"]
            found[f"gRPC, {name}"] = entry["cpu_microseconds_per_call"] / floor
    return found


def of_batching(batching: Data) -> Ratios:
    """CPU time and latency of a batched request over those of one that is not, by ``batching``."""
    figures_of = {"CPU": "cpu_microseconds_per_request", "latency": "latency_microseconds"}
    return {
        f"batching, {count} at a time: {what}": (
            batching[f"{count}_{BATCHED}"][key] / batching[f"{count}_{SINGLE}"][key]
        )
        for count in CONCURRENCIES
        for what, key in figures_of.items()
    }


def of_workers(workers: Data) -> Ratios:
    """What one worker can answer a second over what two can, from ``workers``."""
    return {"second worker": 1 / workers["2_workers"]["gain"]}


def of_starts(starts: Data) -> Ratios:
    """Start and memory over those of ONNX Runtime with the model alone, from ``start``."""
    figures_of = {
        "time to ready": "ready_seconds",
        "CPU to ready": "cpu_seconds_until_ready",
        "memory at rest": "rss_bytes",
    }
    floor = starts[start.FLOOR]
    return {
        f"start, {start.SERVERS[server]}: {what}": entry[key] / floor[key]
        for server, entry in starts.items()
        if server != start.FLOOR
        for what, key in figures_of.items()
    }


def of_health(rounds: Sequence[Data]) -> Ratios:
    """CPU time that health checks wait for over what Python's own JSON parser takes.

    Args:
        rounds: Data of the measure ``health`` again and again; medians of its longest waits count,
            as the longest of all says more about one moment than about the server.
    """
    # where there is no request there is nothing to wait for
    names = [
        name
        for name, entry in rounds[0].items()
        if isinstance(entry, Mapping) and name != health.IDLE
    ]
    return {
        f"health beside {name}": figures.median([_longest(data, name) for data in rounds])
        for name in names
    }


def _longest(data: Data, name: str) -> float:
    return max(data[name]["longest_wait_cpu_seconds"].values()) / data["python_json_cpu_seconds"]
