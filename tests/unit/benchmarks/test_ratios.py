"""The published ratios and percentiles, from samples to figures."""

import os
import subprocess
import sys
import threading
import time

import pytest
from moorage_benchmarks import (
    figures,
    gpu,
    grpc_transports,
    operator_stress,
    peers,
    procfs,
    throughput,
)
from moorage_benchmarks.peers import ASKED, GRPC, HTTP, OURS, Latencies, Taken
from moorage_benchmarks.throughput import FLOOR, Sample


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([1, 2, 3, 4, 5], 90, 4.6), ([5, 4, 3, 2, 1], 50, 3), ([7], 90, 7), ([1, 3], 100, 3)],
)
def test_percentile_lies_on_the_line_between_neighbours(values, percent, expected):
    assert figures.percentile(values, percent) == pytest.approx(expected)


def test_runtime_compares_medians_with_the_minimal_server():
    floor = [Sample(1000, 1.0, cpu) for cpu in (0.009, 0.010, 0.020)]
    served = [Sample(100, 0.5, cpu) for cpu in (0.010, 0.011, 0.009)]

    report = throughput.make_report({"OIP JSON": served, FLOOR: floor})

    assert report.table.rows[0] == ["OIP JSON", "100.0 ± 10 %", "10.00", "10,000", "200", "2 %"]
    assert report.data["OIP JSON"]["times_minimal"] == pytest.approx(10)


def test_gpu_compares_medians_with_the_library_for_the_same_graph():
    rates = {
        ("dense", "library, 1 per run"): [8000.0],
        ("convolutions", "library, 1 per run"): [1300.0, 1000.0, 900.0],
        ("convolutions, merged", "server, 16 clients"): [200.0, 500.0, 300.0],
    }

    report = gpu.make_report(rates, "NVIDIA X1")

    assert report.table.rows[2] == [
        "convolutions, merged: server, 16 clients", "300 ± 50 %", "0.30",
    ]  # fmt: skip
    assert "NVIDIA X1" in report.how


def test_grpc_compares_medians_with_the_minimal_server_for_the_same_request():
    samples = {
        "native transport, small": [Sample(1000, 1.0, cpu) for cpu in (0.1, 0.12, 0.2)],
        f"{grpc_transports.MINIMAL}, small": [Sample(1000, 1.0, 0.48)],
        f"{grpc_transports.MINIMAL}, image": [Sample(1000, 1.0, 0.9)],
    }

    report = grpc_transports.make_report(samples)

    assert report.table.rows[0] == [
        "native transport, small", "120.0 ± 42 %", "0.25", "8,333", "1,000",
    ]  # fmt: skip


def taken(cpu_seconds, milliseconds):
    samples = [Sample(1000, 1.0, cpu_seconds)] * 3
    share = [Latencies(700.0, [one / 1000 for one in milliseconds])] * 3
    same = [Latencies(500.0, [one / 2000 for one in milliseconds])] * 3
    return Taken("1.0", dict.fromkeys(ASKED, samples), share, same)


def test_peers_are_compared_with_moorage_over_the_same_protocol():
    found = {OURS: taken(0.1, [1, 2, 3]), "mlserver": taken(0.4, [5, 10, 20])}

    report = peers.make_report(found, (1.0, 2.5, 3.0))

    assert report.table.rows[len(ASKED)] == [
        "MLServer 1.0: OIP JSON/HTTP", "400 ± 0 %", "4.0", "1,000", "40%",
        "5.00", "9.90", "700", "10.00", "19.80",
    ]  # fmt: skip
    assert report.data[f"mlserver: {GRPC}"]["times_moorage"] == pytest.approx(4)
    same = report.data[f"mlserver: {HTTP}"]["at_the_same_rate"]
    assert same["p50_milliseconds"] == pytest.approx(5)


def burst(seconds):
    times = {key: seconds for _, key in operator_stress.BURST}
    return {**times, "models": 10, "operator_cpu_seconds": 0.2, "api_requests_a_model": 4.4}


def test_a_burst_is_compared_with_that_of_the_baseline_controller():
    rows = operator_stress.burst_rows(burst(3.0), burst(2.0))

    ratios = {row[1]: row[2:] for row in rows}
    assert ratios["all Ready"] == ["3.0 s", "2.0 s", "1.5"]
    assert ratios["pods ready → Ready, p99"] == ["3.0 s", "2.0 s", "1.5"]
    assert ratios["API requests per model"] == ["4.4", "", ""]


def test_the_cpu_time_of_this_process_is_the_kernels():
    before = time.process_time()
    used = procfs.cpu_seconds(os.getpid())

    assert before <= used <= time.process_time()


def test_processes_started_by_threads_of_children_are_of_the_family():
    code = (
        "import subprocess, sys, threading\n"
        "def start():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "    print(child.pid, flush=True)\n"
        "    asked.wait()\n"
        "    child.communicate(b'x')\n"
        "asked = threading.Event()\n"
        "thread = threading.Thread(target=start); thread.start()\n"
        "input(); asked.set(); thread.join()\n"
    )
    started: list[subprocess.Popen[str]] = []

    def start():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", code], **pipes))
        known.set()
        done.wait()

    known, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    known.wait()
    (process,) = started
    try:
        grandchild = int(process.stdout.readline())

        assert procfs.family(process.pid) == (process.pid, grandchild)
    finally:
        process.communicate("\n")
        done.set()
        thread.join()
