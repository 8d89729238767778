"""What is compared with which floor, and that every figure gets worse where its ratio does."""

import copy
from pathlib import Path

import pytest
from moorage_benchmarks import gate, operator_brief, operator_ratios, runtime_ratios
from moorage_benchmarks.grpc_transports import MINIMAL
from moorage_benchmarks.throughput import MINIMAL_HTTP, MODEL_ALONE

LIMITS = Path(__file__).resolve().parents[3] / "benchmarks" / "gate.json"
STARTS = {
    "floor": {"ready_seconds": 0.2, "cpu_seconds_until_ready": 0.1, "rss_bytes": 50},
    "1_workers": {"ready_seconds": 0.3, "cpu_seconds_until_ready": 0.4, "rss_bytes": 80},
    "2_workers": {"ready_seconds": 0.5, "cpu_seconds_until_ready": 0.7, "rss_bytes": 180},
}
OPERATOR = {
    "empty": {
        "cpu_seconds_until_ready": 0.6,
        "rss_bytes": 60 * 2**20,
        "libraries_cpu_seconds": 0.4,
        "libraries_rss_bytes": 40 * 2**20,
    },
    "by_hand": {
        "models": 200,
        "children_exist_seconds": 1.0,
        "cpu_seconds": 0.2,
        "write_seconds": 0.002,
        "all_available_seconds": 5.0,
    },
    "burst": {
        "models": 200,
        "services_exist_seconds": 4.0,
        "children_exist_seconds": 6.0,
        "all_ready_seconds": 15.0,
        "operator_cpu_seconds": 4.0,
        "api_requests_a_model": 5.5,
        "pods_ready_to_ready_p50_seconds": 0.2,
    },
    "single": {},
    "changes": {
        "operator_cpu_milliseconds_a_change": 6.0,
        "change_to_status_p50_seconds": 0.02,
        "change_to_status_p99_seconds": 0.2,
    },
    "idle": {"rss_bytes": 66 * 2**20, "cpu_percent_of_a_core": 3.0, "api_writes": 0.0},
    "restart": {"models": 300, "operator_cpu_seconds": 1.2, "api_requests": 15.0},
    "crashes": {"crash_to_reason_p50_seconds": 0.03},
    "hung": {"beside": {"pods_ready_to_ready_p50_seconds": 0.3}},
}


def test_each_load_is_compared_with_the_model_alone_and_one_by_the_clock():
    def load(times, answered):
        return {"times_onnxruntime_alone": times, "answered_per_second": answered}

    runtime = {
        MODEL_ALONE: load(1.0, 100_000),
        "small: OIP JSON": load(14.0, 10_000),
        "OIP gRPC": load(10.0, 9_000),
        MINIMAL_HTTP: load(7.0, 20_000),
    }

    assert runtime_ratios.of_requests(runtime) == {
        "small: OIP JSON": 14.0,
        "OIP gRPC": 10.0,
        "small: OIP JSON, by the clock": 2.0,
    }


def test_a_call_is_compared_with_the_minimal_servers_of_its_size():
    costs = {
        "native transport, small": 50.0,
        "native transport, large": 300.0,
        f"{MINIMAL}, small": 100.0,
        f"{MINIMAL}, large": 600.0,
    }
    grpc = {name: {"cpu_microseconds_per_call": cost} for name, cost in costs.items()}

    assert runtime_ratios.of_grpc(grpc) == {
        "gRPC, native transport, small": 0.5,
        "gRPC, native transport, large": 0.5,
    }


def test_a_gain_is_told_by_what_it_leaves():
    batching = {
        f"{count}_{model}": {
            "cpu_microseconds_per_request": cpu,
            "latency_microseconds": 100 * cpu,
        }
        for count in (1, 8, 32)
        for model, cpu in (("single", 8.0 * count), ("batched", 8.0))
    }
    workers = {"1_workers": {"gain": 1.0}, "2_workers": {"gain": 2.0}}

    found = runtime_ratios.of_batching(batching)

    assert {name: found[name] for name in found if name.endswith("CPU")} == {
        "batching, 1 at a time: CPU": 1.0,
        "batching, 8 at a time: CPU": 1 / 8,
        "batching, 32 at a time: CPU": 1 / 32,
    }
    assert found["batching, 32 at a time: latency"] == 1 / 32
    assert runtime_ratios.of_workers(workers) == {"second worker": 0.5}


def test_a_start_is_compared_with_that_of_the_model_alone():
    assert runtime_ratios.of_starts(STARTS) == pytest.approx(
        {
            "start, 1 worker: time to ready": 1.5,
            "start, 1 worker: CPU to ready": 4.0,
            "start, 1 worker: memory at rest": 1.6,
            "start, 2 workers: time to ready": 2.5,
            "start, 2 workers: CPU to ready": 7.0,
            "start, 2 workers: memory at rest": 3.6,
        }
    )


def test_the_longest_wait_of_health_is_the_median_of_its_rounds():
    def data(live, grpc):
        waits = {"longest_wait_cpu_seconds": {"live": live, "gRPC": grpc}}
        return {"load_average": 1.0, "python_json_cpu_seconds": 0.01, "no request": {}, "x": waits}

    rounds = [data(0.01, 0.02), data(0.9, 0.0), data(0.005, 0.03)]

    assert runtime_ratios.of_health(rounds) == pytest.approx({"health beside x": 3.0})


def test_the_operator_is_compared_with_what_is_made_by_hand():
    assert operator_ratios.of(OPERATOR) == pytest.approx(
        {
            "operator: CPU to ready": 1.5,
            "operator: memory without models": 1.5,
            "operator: memory with models": 1.65,
            "operator: CPU a model at a restart": 2.0,
            "operator: API requests of a restart": 15.0,
            "operator: CPU a model": 20.0,
            "operator: API requests a model": 5.5,
            "operator: Services exist": 4.0,
            "operator: children exist": 6.0,
            "operator: all Ready": 3.0,
            "operator: pods ready → Ready": 100.0,
            "operator: pods ready → Ready beside hung servers": 150.0,
            "operator: CPU a change of readiness": 6.0,
            "operator: change → status, p50": 10.0,
            "operator: change → status, p99": 100.0,
            "operator: crash → reason": 15.0,
            "operator: CPU of a second while idle": 30.0,
            "operator: writes while idle": 0.0,
        }
    )


@pytest.mark.parametrize(
    ("case", "figure", "worse"),
    [
        ("burst", "operator_cpu_seconds", {"CPU a model"}),
        ("burst", "api_requests_a_model", {"API requests a model"}),
        ("burst", "pods_ready_to_ready_p50_seconds", {"pods ready → Ready"}),
        ("changes", "operator_cpu_milliseconds_a_change", {"CPU a change of readiness"}),
        ("idle", "api_writes", {"writes while idle"}),
        ("idle", "rss_bytes", {"memory with models"}),
        ("restart", "operator_cpu_seconds", {"CPU a model at a restart"}),
        ("by_hand", "all_available_seconds", set[str]()),
    ],
)
def test_a_figure_that_grows_fails_its_own_ratio_alone(case, figure, worse):
    limits = gate.calibrate([operator_ratios.of(OPERATOR)])
    found = copy.deepcopy(OPERATOR)
    found[case][figure] = found[case][figure] * 1.5 + 1e-6

    verdicts = gate.compare(operator_ratios.of(found), limits)

    failed = {each.name for each in verdicts if each.outcome in gate.FAILED}
    assert failed == {f"operator: {name}" for name in worse}


def test_every_figure_has_its_case():
    # the first model is made so that the API server knows the CRD when others are
    assert {*OPERATOR, "first"} == set(operator_brief.CASES)


def test_the_file_of_limits_can_be_read():
    assert gate.parse(LIMITS.read_text())["runtime"].limits
