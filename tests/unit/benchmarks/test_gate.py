"""What got worse: limits from repeated runs, and ratios beside them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moorage_benchmarks import gate
from moorage_benchmarks.gate import BETTER, NO_LIMIT, NOT_MEASURED, OK, WORSE, Limit
from moorage_benchmarks.grpc_transports import MINIMAL
from moorage_benchmarks.throughput import MODEL_ALONE

RATIOS = st.floats(0.1, 1000)


def test_each_load_is_compared_with_the_floor_of_its_own_run():
    runtime = {
        MODEL_ALONE: {"times_onnxruntime_alone": 1.0},
        "OIP JSON": {"times_onnxruntime_alone": 14.0},
    }
    grpc = {
        "native transport, small": {"cpu_microseconds_per_call": 50.0},
        "native transport, large": {"cpu_microseconds_per_call": 300.0},
        f"{MINIMAL}, small": {"cpu_microseconds_per_call": 100.0},
        f"{MINIMAL}, large": {"cpu_microseconds_per_call": 600.0},
    }

    assert gate.ratios(runtime, grpc) == {
        "OIP JSON": 14.0,
        "gRPC, native transport, small": 0.5,
        "gRPC, native transport, large": 0.5,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10.0, 10.2, 9.9], Limit(10.0, gate.LEAST_TOLERANCE_PERCENT)),
        ([10.0, 12.0, 9.0], Limit(10.0, 40.0)),
        ([10.0], Limit(10.0, gate.LEAST_TOLERANCE_PERCENT)),
    ],
)
def test_the_tolerance_is_twice_the_distance_seen_and_never_nothing(values, expected):
    assert gate.calibrate([{"a": value} for value in values]) == {"a": expected}


def test_limits_need_runs():
    with pytest.raises(ValueError, match="no runs"):
        gate.calibrate([])


@given(st.lists(RATIOS, min_size=1, max_size=9))
def test_the_runs_that_gave_the_limits_pass(values):
    runs = [{"a": value} for value in values]
    limits = gate.calibrate(runs)

    for run in runs:
        (verdict,) = gate.compare(run, limits)
        assert verdict.outcome == OK


@pytest.mark.parametrize(
    ("measured", "expected"),
    [(10.0, OK), (11.9, OK), (12.1, WORSE), (8.1, OK), (7.9, BETTER), (None, NOT_MEASURED)],
)
def test_a_ratio_is_judged_by_its_limit(measured, expected):
    found = {} if measured is None else {"a": measured}

    (verdict,) = gate.compare(found, {"a": Limit(10.0, 20.0)})

    assert verdict.outcome == expected


def test_a_load_without_a_limit_does_not_pass_unseen():
    (verdict,) = gate.compare({"new": 1.0}, {})

    assert verdict.outcome == NO_LIMIT
    assert verdict.outcome in gate.FAILED


def test_the_table_says_what_was_allowed():
    verdicts = gate.compare({"a": 13.0, "b": 2.0}, {"a": Limit(10.0, 20.0)})

    assert gate.as_table(verdicts).rows == [
        ["a", "13.00", "10.00 ± 20 %", "WORSE"],
        ["b", "2.00", "", "NO LIMIT"],
    ]


def test_limits_are_read_as_they_were_written():
    limits = {"a": Limit(10.5, 12.0)}

    assert gate.parse(gate.encode(limits, {"cores": "2"}, runs=3)) == limits


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ({}, "limits"),
        ([], "limits"),
        ({"limits": {"a": {"recorded": 1}}}, "tolerance_percent is None"),
        ({"limits": {"a": {"recorded": "1", "tolerance_percent": 3}}}, "recorded is '1'"),
        ({"limits": {"a": {"recorded": 0, "tolerance_percent": 3}}}, "recorded is 0"),
    ],
)
def test_a_file_that_holds_no_limits_is_refused_by_name(document, named):
    with pytest.raises(ValueError, match=named):
        gate.parse(json.dumps(document))
