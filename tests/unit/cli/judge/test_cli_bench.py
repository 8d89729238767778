"""Rates, percentiles, failures and the plot of a benchmark."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.judge.bench import Load, Sample, bench
from moorage_cli.printing.report import ExitCode
from moorage_cli.printing.tables import Palette

PLAIN = Palette(coloured=False)
TIMES = st.floats(0, 1000, allow_nan=False)


def measured(samples, *notes, rate=100.0, seconds=1.0, interrupted=False):
    return bench(Load("iris", rate, seconds, interrupted), samples, notes, PLAIN)


def test_percentiles_are_values_that_were_measured_from_the_scheduled_time():
    samples = [Sample(at / 100, at / 100, at / 100 + (at + 1) / 1000) for at in range(100)]

    report = measured(samples)

    latencies = report.document["latencySeconds"]
    assert latencies == pytest.approx(
        {"p50": 0.05, "p90": 0.09, "p99": 0.099, "p99.9": 0.1, "max": 0.1}
    )
    assert (report.exit_code, report.document["sent"]) == (ExitCode.OK, 100)
    assert report.document["achievedRate"] == pytest.approx(100 / 1.09)


def test_a_request_that_this_machine_sends_late_has_the_delay_in_its_latency_and_a_note():
    report = measured([Sample(0.0, 0.25, 0.26)])

    assert report.document["latencySeconds"]["max"] == pytest.approx(0.26)
    assert report.document["lateSeconds"]["p99"] == pytest.approx(0.25)
    assert "250 ms late" in report.notes[0]
    assert measured([Sample(0.0, 0.001, 0.26)]).notes == ()


def test_failures_are_counted_by_their_status_and_are_no_successes():
    samples = [
        Sample(0.0, 0.0, 0.001),
        Sample(0.01, 0.01, 0.02, "HTTP 503"),
        Sample(0.02, 0.02, 0.03, "HTTP 503"),
        Sample(0.03, 0.03, 5.03, "no\x1b[2J response"),
    ]

    report = measured(samples, "a note")

    assert report.document["failures"] == {"HTTP 503": 2, "no\x1b[2J response": 1}
    assert report.document["latencySeconds"]["max"] == pytest.approx(0.001)
    assert "4 sent, 1 succeeded, 3 failed" in report.text
    assert "      2  HTTP 503" in report.text
    assert "\x1b" not in report.text
    assert (report.exit_code, report.notes) == (ExitCode.NOT_OK, ("a note",))


def test_the_results_until_an_interrupt_have_the_exit_status_of_one():
    report = measured([Sample(0.0, 0.0, 0.001)], interrupted=True)

    assert report.exit_code is ExitCode.INTERRUPTED
    assert report.document["interrupted"] is True
    assert "interrupted" in report.text.splitlines()[0]


def test_without_a_response_there_is_no_latency():
    for samples in ([], [Sample(0.0, 0.0, 1.0, "HTTP 500")]):
        report = measured(samples)
        assert report.exit_code is ExitCode.NOT_OK
        assert set(report.document["latencySeconds"].values()) == {None}
        assert "latency" not in report.text


@given(st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1))
def test_the_plot_has_every_request_once(times):
    samples = [Sample(at, at + late, at + late + took) for at, late, took in times]

    report = measured(samples)

    bars = [line.rpartition(" ") for line in report.text.splitlines() if line.startswith("<=")]
    assert sum(int(count) for bar, _, count in bars if "#" in bar) == len(samples)
    json.dumps(report.document)
