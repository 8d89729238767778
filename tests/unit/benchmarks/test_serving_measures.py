"""What batching, a second worker and a start cost: tables out of measured values."""

import json

import pytest
from moorage_benchmarks import batching, health, heavy_requests, procfs, start, throughput, workers
from moorage_benchmarks.batching import BATCHED, SINGLE, Case
from moorage_benchmarks.health import Waits
from moorage_benchmarks.health_probes import Wait
from moorage_benchmarks.procfs import Memory
from moorage_benchmarks.start import Start

from moorage_runtime.codec import oip_proto, oip_request


def test_the_gain_of_batching_is_that_of_the_cpu_time_at_the_same_concurrency():
    samples = {
        Case(SINGLE, 1): [throughput.Sample(100, 1.0, 0.05)],
        Case(BATCHED, 1): [throughput.Sample(100, 1.0, 0.05)],
        Case(SINGLE, 32): [throughput.Sample(100, 0.5, 0.04)],
        Case(BATCHED, 32): [throughput.Sample(400, 0.5, 0.04)],
    }

    report = batching.make_report(samples)

    assert report.table.rows[-1] == [
        "32 at a time, batched",
        "100",
        "10,000",
        "4.00",
        "800",
        "40,000",
    ]
    assert [report.data[key]["gain"] for key in ("1_batched", "32_single")] == [1.0, 1.0]


def test_the_limit_of_workers_is_what_their_cores_can_answer_together():
    one = [workers.Sample(1000, (0.1,))]
    two = [workers.Sample(1000, (0.06, 0.04), supervisor_cpu_seconds=0.01)]

    report = workers.make_report({1: one, 2: two})

    assert report.table.rows == [
        ["1 worker", "10,000", "1.00", "100.0", "100 %"],
        ["2 workers", "20,000", "2.00", "110.0", "60 %"],
    ]


def test_a_start_is_told_by_its_medians():
    starts = {"1_workers": [Start(seconds, 0.3) for seconds in (0.5, 0.9, 0.6)]}

    report = start.make_report(starts, {"1_workers": Memory(80 * 2**20, 50 * 2**20, 0)})

    assert report.table.rows == [["1 worker", "0.60", "0.30", "80", "50"]]


def test_the_wait_of_health_checks_is_told_by_the_clock_and_by_the_servers_work():
    waits = [Wait(seconds, seconds / 2) for seconds in (0.001, 0.002, 0.041)]
    found = {"x": Waits("200", [3.0], {"live": waits, "ready": waits[:1], "gRPC": waits[:2]})}

    report = health.make_report(found, 0.5, python_json_seconds=0.01)

    assert report.table.rows == [["x", "200", "3.0", "1.5", "39.1", "41.0", "20.5", "0.5", "1.0"]]
    assert "load average was 0.5" in report.how
    assert report.data["python_json_cpu_seconds"] == 0.01


@pytest.mark.parametrize("heavy", heavy_requests.all_of_them(8192), ids=lambda heavy: heavy.name)
def test_heavy_requests_are_what_the_server_takes(heavy):
    body = heavy.make()

    assert 4000 < len(body) <= 8192 + 200
    if heavy.headers is None:
        (tensor,) = oip_proto.decode_infer(body).request.inputs
        assert tensor.array.size > 700
    elif "binary" in heavy.name:
        size = int(heavy.headers["Inference-Header-Content-Length"])
        assert oip_request.decode(body, size, "m", "").request.inputs[0].array.size > 1000
    else:
        assert is_json(body) == ("error" not in heavy.name)


def is_json(text):
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def test_memory_of_several_processes_adds_up():
    assert procfs.total([Memory(1, 2, 3), Memory(10, 20, 30)]) == Memory(11, 22, 33)


def test_the_models_of_the_batching_measure_differ_in_one_setting(tmp_path):
    batching.write_models(tmp_path)

    files = [(tmp_path / name / "model.onnx").read_bytes() for name in (SINGLE, BATCHED)]
    assert files[0] == files[1]
    assert [path.parent.name for path in tmp_path.glob("*/model.yaml")] == [SINGLE]


def test_the_server_and_the_client_need_a_core_each(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3})

    with pytest.raises(throughput.BenchmarkError, match="a core each"):
        throughput.two_cores()
