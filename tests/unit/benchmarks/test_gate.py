"""What got worse: limits from repeated runs, and ratios beside them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moorage_benchmarks import gate
from moorage_benchmarks.gate import (
    BETTER,
    NO_LIMIT,
    NOT_MEASURED,
    OK,
    WORSE,
    Limit,
    Recording,
    Run,
)

RATIOS = st.floats(0.1, 1000)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10.0, 10.2, 9.9], Limit(10.0, gate.LEAST_TOLERANCE_PERCENT)),
        ([10.0, 12.0, 9.0], Limit(10.0, 40.0)),
        ([10.0], Limit(10.0, gate.LEAST_TOLERANCE_PERCENT)),
        ([0.0012345, 0.0012345], Limit(0.001234, gate.LEAST_TOLERANCE_PERCENT)),
        ([0, 0, 1], Limit(0, 0)),
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


def test_what_never_happened_may_not_happen_once():
    limits = gate.calibrate([{"writes": 0.0}, {"writes": 0.0}])

    assert [each.outcome for each in gate.compare({"writes": 0.0}, limits)] == [OK]
    assert [each.outcome for each in gate.compare({"writes": 1.0}, limits)] == [WORSE]


def test_a_load_without_a_limit_does_not_pass_unseen():
    (verdict,) = gate.compare({"new": 1.0}, {})

    assert verdict.outcome == NO_LIMIT
    assert verdict.outcome in gate.FAILED


def test_the_table_says_what_was_allowed():
    verdicts = gate.compare({"a": 13.0, "b": 2.0}, {"a": Limit(10.0, 20.0)})

    assert gate.as_table(verdicts).rows == [
        ["a", "13", "10 ± 20 %", "WORSE"],
        ["b", "2", "", "NO LIMIT"],
    ]


def test_a_ratio_that_came_later_has_a_limit_and_one_that_went_has_none():
    runs = [{"a": 10.0, "gone": 1.0}, {"a": 12.0, "new": 5.0}]

    assert gate.calibrate(runs) == {"a": Limit(11.0, 18.2), "new": Limit(5.0, 10)}


def test_runs_are_read_as_they_were_written():
    recorded = {
        "one": Recording({"cores": "2"}, [Run("2026-01-02", {"a": 10.5, "b": 0.0})]),
        "other": Recording({}, [Run("2026-01-02", {}), Run("2026-01-03", {"a": 1.0})]),
    }

    read = gate.parse(gate.encode(recorded))

    assert read == recorded
    assert read["one"].limits == {"a": Limit(10.5, 10), "b": Limit(0, 0)}


def document(**run):
    return {"one": {"machine": {}, "runs": [run]}}


@pytest.mark.parametrize(
    ("document", "named"),
    [
        ([], "gate.json: Expected `object`, got `array`"),
        ({"one": {"machine": {}}}, "`runs`"),
        ({"runs": {"ratios": {}}}, "`machine`"),
        ({"one": {"machine": {}, "runs": []}}, r"length >= 1.*runs"),
        (document(ratios={}), r"`date`.*runs"),
        (document(date="2026-01-02", ratios={"a": "1"}), r"got `str`.*ratios"),
        (document(date="2026-01-02", ratios={"a": -1}), r">= 0.*ratios"),
    ],
)
def test_a_file_that_holds_no_runs_is_refused_by_name(document, named):
    with pytest.raises(ValueError, match=named):
        gate.parse(json.dumps(document))


def test_a_file_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match=r"gate\.json"):
        gate.parse("{")
