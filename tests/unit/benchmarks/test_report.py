"""Tables and pages out of measured values."""

import json
from datetime import date

import pytest
from moorage_benchmarks import grpc_transports, ready_time, throughput
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.ready_time import Events, Times
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.throughput import Sample

DAY = date(2026, 1, 2)


def test_a_table_aligns_names_left_and_numbers_right():
    table = Table(["load", "µs"], [["a", "1"], ["longer", "1,000"]])

    assert table.as_markdown() == (
        "| load   |    µs |\n| ------ | ----: |\n| a      |     1 |\n| longer | 1,000 |\n"
    )


def test_a_page_has_the_date_and_the_machine_in_both_forms():
    report = Report("Title", "How.", Table(["a"], [["b"]]), {"value_seconds": 1.5})

    assert report.as_markdown(DAY, {"cores": "2", "kernel": "Linux"}) == (
        "# Title\n\n| a |\n| - |\n| b |\n\nHow.\n\nMeasured 2026-01-02. cores 2; kernel Linux.\n"
    )
    assert json.loads(report.as_json(DAY, {"cores": "2"})) == {
        "date": "2026-01-02",
        "machine": {"cores": "2"},
        "results": {"value_seconds": 1.5},
    }


def test_throughput_compares_medians_with_the_model_alone():
    alone = [Sample(1000, 1.0, cpu) for cpu in (0.009, 0.010, 0.020)]
    served = [Sample(100, 0.5, cpu) for cpu in (0.010, 0.011, 0.009)]

    report = throughput.make_report({throughput.MODEL_ALONE: alone, "OIP JSON": served})

    assert report.table.rows[1] == ["OIP JSON", "100.0 ± 10 %", "10,000", "10.0", "200", "2 %"]
    assert report.data["OIP JSON"]["times_onnxruntime_alone"] == pytest.approx(10)
    assert report.data["OIP JSON"]["requests_per_core_second"] == pytest.approx(10_000)


def test_a_grpc_call_costs_the_median_of_its_rounds():
    taken = [Sample(1000, 1.0, cpu) for cpu in (0.1, 0.12, 0.2)]

    report = grpc_transports.make_report({"native transport, small": taken})

    (row,) = report.table.rows
    assert row == ["native transport, small", "120.0 ± 42 %", "8,333", "1,000"]
    assert report.data["native transport, small"]["cpu_microseconds_per_call"] == pytest.approx(
        120
    )


def test_throughput_compares_a_load_with_its_own_model():
    samples = {
        throughput.MODEL_ALONE: [Sample(1000, 1.0, 0.01)],
        f"small: {throughput.MODEL_ALONE}": [Sample(1000, 1.0, 0.02)],
        "small: OIP JSON": [Sample(1000, 1.0, 0.1)],
    }

    report = throughput.make_report(samples)

    assert report.data["small: OIP JSON"]["times_onnxruntime_alone"] == pytest.approx(5)


def test_time_to_ready_is_split_at_the_pods_readiness():
    times = [Times(0.0, 2.0, 2.0 + delay, 2.5 + delay) for delay in (0.1, 0.2, 0.3)]

    report = ready_time.make_report(times)

    assert report.table.rows == [
        ["model ready → pod Ready", "0.200", "0.280"],
        ["pod Ready → status Ready", "0.500", "0.500"],
        ["model ready → status Ready", "0.700", "0.780"],
        ["applied → status Ready", "2.700", "2.780"],
    ]
    assert report.data["model_ready_to_status_Ready"]["median_seconds"] == pytest.approx(0.7)
    assert report.data["applied_to_status_Ready"]["all_seconds"] == pytest.approx([2.6, 2.7, 2.8])


def test_an_event_keeps_the_time_at_which_it_was_first_seen():
    events = Events()
    events.saw("model ready")
    first = events.wait("model ready", 0)
    events.saw("model ready")

    assert events.wait("model ready", 0) == first


def test_an_event_that_does_not_come_is_named_with_those_that_came():
    events = Events()
    events.saw("pod ready")

    with pytest.raises(BenchmarkError, match=r"status ready; seen: \['pod ready'\]"):
        events.wait("status ready", 0)


def test_time_to_ready_needs_a_named_cluster():
    with pytest.raises(BenchmarkError, match="KUBECONFIG"):
        ready_time.measure("", models=1)
