"""The servers beside the runtime: arrivals, answers, the table and its picture."""

import itertools
import json
import subprocess
import sys
import threading
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moorage_benchmarks import latency_plot, peer_servers, peers, procfs, programs, workloads
from moorage_benchmarks.http_arrivals import schedule
from moorage_benchmarks.latency_plot import Range
from moorage_benchmarks.peers import GRPC, HTTP, OURS, Latencies, Taken
from moorage_benchmarks.throughput import Sample

from moorage_runtime._generated import oip_pb2 as pb

RATES = st.floats(1, 5000)


@given(RATES, st.floats(0.01, 1), st.integers(0, 2**32))
def test_arrivals_grow_and_end_in_time(rate, seconds, seed):
    times = schedule(rate, seconds, seed)

    assert all(before <= after for before, after in itertools.pairwise(times))
    assert not times or (times[0] > 0 and times[-1] < seconds)


def test_arrivals_come_at_their_rate_and_are_the_same_for_the_same_seed():
    times = schedule(1000, 20, seed=7)

    assert len(times) == pytest.approx(20_000, rel=0.05)
    assert times == schedule(1000, 20, seed=7)
    assert times != schedule(1000, 20, seed=8)


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(ValueError, match="rate is 0"):
        schedule(0, 1, seed=1)


def test_every_peer_has_a_name_and_hashed_requirements():
    assert set(peers.NAMES) == {OURS, *peer_servers.COMMANDS}
    for name in peer_servers.COMMANDS:
        requirements = (peer_servers.SOURCES / name / "requirements.txt").read_text()
        assert "onnxruntime==" in requirements
        assert requirements.count("--hash=sha256:") >= requirements.count("==")


@pytest.mark.parametrize("is_raw", [True, False])
def test_the_label_is_found_in_raw_and_in_typed_contents(is_raw):
    response = pb.ModelInferResponse(model_name="small")
    response.outputs.add(name="probabilities", datatype="FP32", shape=[1, 3])
    label = response.outputs.add(name="label", datatype="INT64", shape=[1])
    if is_raw:
        response.raw_output_contents.extend([bytes(12), (2).to_bytes(8, "little")])
    else:
        label.contents.int64_contents.append(2)

    assert peers.label_of_message(response.SerializeToString()) == 2


def test_the_label_is_found_in_json():
    body = b'{"outputs": [{"name": "p", "data": [0.5]}, {"name": "label", "data": [1]}]}'

    assert peers.label_of_json(b"HTTP/1.1 200 OK\r\n\r\n" + body) == 1
    assert peers.label_of_json(b'HTTP/1.1 200 OK\r\n\r\n{"outputs": []}') is None


def test_the_call_over_grpc_asks_what_the_json_asks():
    request = pb.ModelInferRequest.FromString(workloads.small_grpc().body)

    assert request.model_name == "small"
    assert (request.inputs[0].name, list(request.inputs[0].shape)) == ("x", [1, 4])
    assert len(request.raw_input_contents[0]) == 16


def taken(cpu_seconds, milliseconds):
    samples = [Sample(1000, 1.0, cpu_seconds)] * 3
    latencies = [Latencies(700.0, [one / 1000 for one in milliseconds])] * 3
    return Taken("1.0", {HTTP: samples, GRPC: samples}, latencies)


def test_peers_are_compared_with_ours_over_the_same_protocol():
    found = {OURS: taken(0.1, [1, 2, 3]), "mlserver": taken(0.4, [5, 10, 20])}

    report = peers.make_report(found, (1.0, 2.5, 3.0))

    assert report.table.rows[2] == [
        "MLServer 1.0: OIP JSON/HTTP", "400 ± 0 %", "4.0", "1,000", "40%", "700", "10.00", "19.80",
    ]  # fmt: skip
    assert report.data["mlserver: OIP gRPC"]["times_moorage"] == pytest.approx(4)
    assert report.data["mlserver: OIP JSON/HTTP"]["p50_milliseconds"] == pytest.approx(10)
    assert "5 minutes: 2.5" in report.how
    assert "MLServer" in report.plot


def test_the_picture_has_a_bar_of_its_length_for_each_server():
    picture = latency_plot.svg("a < b", [Range("one", 1, 10), Range("two", 10, 100)])

    root = ET.fromstring(picture)
    bars = [node for node in root.iter("{http://www.w3.org/2000/svg}rect") if node.get("rx")]
    (first, second) = [(float(bar.get("x", "")), float(bar.get("width", ""))) for bar in bars]
    assert first[1] == pytest.approx(second[1])
    assert first[0] + first[1] == pytest.approx(second[0], abs=0.2)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "1.00 to 10", "10 to 100"} <= set(texts)


@pytest.mark.parametrize("ranges", [[], [Range("one", 0, 1)]])
def test_a_picture_of_nothing_is_refused(ranges):
    with pytest.raises(ValueError, match="more than 0"):
        latency_plot.svg("title", ranges)


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


def test_the_readme_shows_what_was_recorded_and_when():
    root = programs.ROOT
    recorded = json.loads((root / "benchmarks" / "results" / "peers.json").read_text())
    readme = (root / "README.md").read_text()

    assert peers.summary(recorded["results"]).as_markdown() in readme
    assert f"Recorded on {recorded['date']}" in readme
