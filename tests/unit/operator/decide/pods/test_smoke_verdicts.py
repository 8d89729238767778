"""Smoke tests: comparison, storage and verdicts; the pure part."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.smoke_tests import ExpectedTensor, SmokeTest
from moorage_operator.decide.pods.smoke_verdicts import passed_with_all
from moorage_operator.values.plan import PollPace
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict, mismatch
from support.operator_values import (
    NOW,
    condition,
    model,
    observed,
    planned,
    pod,
    running,
    said,
    unready,
    verdict,
)

X = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[0.5, 1]]}
ONE = {"name": "one", "inputs": [X]}


# ---------------------------------------------------------------------- as they are compared


def expecting(*data: Any, absolute: float = 0.001, relative: float = 0.01) -> SmokeTest:
    return SmokeTest("t", (), (ExpectedTensor("y", data, absolute, relative),))


@pytest.mark.parametrize(
    ("wanted", "got", "right"),
    [
        (101, 102.0, True),
        (101, 103.0, False),
        (101, 102, False),  # whole numbers: only the absolute tolerance
        (0.0, 0.001, True),
        (0.0, 0.0011, False),
        (-101, -102.0, True),
        (1, True, True),
        (False, 0, True),
        (True, 0, False),
        ("a", "a", True),
        ("a", "b", False),
        ("1", 1, False),
        (1, "1", False),
        (1.0, math.nan, False),
        (1.0, math.inf, False),
        (1.0, 10**400, False),
        (2**60, 2**60 + 1, False),
    ],
)
def test_an_element_matches_within_its_tolerances(wanted, got, right):
    assert (mismatch(expecting(wanted), {"y": (got,)}) == "") is right


def test_a_mismatch_names_output_element_values_and_tolerances():
    message = mismatch(expecting(1.0, 2.0, 3.0), {"y": (1.0, 5.0, 9.0)})

    assert message == (
        "output y, element 1: expected 2.0, got 5.0 (absolute tolerance 0.001, relative 0.01) "
        "(and 1 more of 3 elements)"
    )


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        ({}, "output y is missing: the answer has none"),
        ({"z": (1,), "a": (1,)}, "output y is missing: the answer has a, z"),
        ({"y": (1, 2)}, "output y: expected 1 elements, got 2"),
        ({"y": ()}, "output y: expected 1 elements, got 0"),
        ({"": (2,)}, "output y, element 0: expected 1, got 2"),
        ({"": (1,), "z": (1,)}, "output y is missing: the answer has , z"),
    ],
)
def test_missing_outputs_and_elements_are_reported(outputs, sentence):
    assert mismatch(expecting(1), outputs).startswith(sentence)


def test_a_mismatch_of_one_element_counts_no_others():
    assert mismatch(expecting(1.0, 2.0), {"y": (1.0, 5.0)}) == (
        "output y, element 1: expected 2.0, got 5.0 (absolute tolerance 0.001, relative 0.01)"
    )


def test_a_text_has_no_tolerance():
    assert mismatch(expecting("a"), {"y": ("b",)}) == (
        "output y, element 0: expected 'a', got 'b'"
    )


def test_every_output_that_differs_is_reported():
    outputs = (ExpectedTensor("y", (1,)), ExpectedTensor("z", (1, 2)), ExpectedTensor("x", ("a",)))

    assert mismatch(SmokeTest("t", (), outputs), {"z": (1, 2), "x": ("b",)}) == (
        "output y is missing: the answer has x, z; output x, element 0: expected 'a', got 'b'"
    )


def test_the_only_output_may_come_without_a_name():
    assert mismatch(expecting(1), {"": (1,)}) == ""


def test_a_long_string_of_a_server_is_shortened():
    message = mismatch(expecting("a"), {"y": ("b" * 100_000,)})

    assert message.endswith(f"got '{'b' * 76}...")


def test_a_string_of_80_characters_with_its_quotes_is_whole():
    assert mismatch(expecting("a"), {"y": ("b" * 78,)}).endswith(f"got '{'b' * 78}'")
    assert mismatch(expecting("a"), {"y": ("b" * 79,)}).endswith(f"got '{'b' * 76}...")


scalars = st.booleans() | st.integers() | st.floats() | st.text()


@given(st.lists(scalars), st.dictionaries(st.text(max_size=2), st.lists(scalars), max_size=3))
def test_arbitrary_answers_are_compared(data, outputs):
    assert isinstance(mismatch(expecting(*data), outputs), str)


@given(st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_the_expected_outputs_match(data):
    exact = expecting(*data, absolute=0, relative=0)

    assert mismatch(exact, {"y": tuple(data)}) == ""


# ---------------------------------------------------------------------- in the plan

SMOKE = {"smokeTests": {"tests": [ONE]}}
ENFORCED = {"smokeTests": {"policy": "Enforce", "tests": [ONE]}}
OF = model(**ENFORCED)


def ended(of, reason=SmokeVerdict.PASSED, message=""):
    return SmokeOutcome(of.smoke_digest, reason, message)


def seen(of, outcome=None, *, ready=True, status=None, answered=True):
    one = pod("p", of, gated=of.enforces, gate_open=ready or None)
    if not ready:
        one = unready("p", of, gated=of.enforces, runtime=running())
    probes = said(one, smoke=outcome) if answered else {}
    return observed(one, probes=probes, status=status or {})


def test_without_tests_there_is_no_condition_and_nothing_to_run():
    of = model()
    plan = planned(of, seen(of))

    assert "SmokeTestPassed" not in [each["type"] for each in plan.status["conditions"]]
    assert plan.targets[0].smoke is None


def test_a_ready_model_gets_no_traffic_until_its_tests_pass():
    plan = planned(OF, seen(OF, ready=False))

    assert verdict(plan, "SmokeTestPassed") == ("Unknown", "Running")
    assert verdict(plan) == ("False", "Running")
    assert plan.gates == ()
    (target,) = plan.targets
    assert (target.smoke.digest, target.smoke.done) == (OF.smoke_digest, False)
    assert plan.events == ()


def test_a_replica_that_passed_is_admitted():
    plan = planned(OF, seen(OF, ended(OF), ready=False))

    assert [gate.is_open for gate in plan.gates] == [True]
    assert verdict(plan, "SmokeTestPassed") == ("True", "Passed")
    assert plan.targets[0].smoke.done
    entry = plan.status["replicaStatuses"][0]["smokeTests"]
    assert entry == {"digest": OF.smoke_digest, "reason": "Passed"}


@pytest.mark.parametrize(
    "reason", [SmokeVerdict.OUTPUT_MISMATCH, SmokeVerdict.LATENCY_EXCEEDED,
               SmokeVerdict.REQUEST_REJECTED],
)  # fmt: skip
@pytest.mark.parametrize("ready", [True, False])
def test_a_replica_that_failed_is_not_admitted_and_the_condition_says_why(reason, ready):
    plan = planned(OF, seen(OF, ended(OF, reason, "smoke test one: so"), ready=ready))

    assert [gate.is_open for gate in plan.gates] == ([False] if ready else [])
    assert verdict(plan, "SmokeTestPassed") == ("False", str(reason))
    assert verdict(plan) == ("False", str(reason))
    assert "pod p: smoke test one: so" in condition(plan, "Ready")["message"]
    assert plan.status["replicaStatuses"][0]["reason"] == reason
    assert plan.poll is PollPace.STABLE
    assert not plan.targets[0].smoke.done


def test_warn_reports_once_without_affecting_ready():
    of = model(**SMOKE)
    failed = seen(of, ended(of, SmokeVerdict.OUTPUT_MISMATCH, "so"))

    plan = planned(of, failed)
    again = planned(of, replace(failed, status=plan.status))

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "SmokeTestPassed") == ("False", "OutputMismatch")
    assert {event.reason for event in plan.events} == {"Serving", "OutputMismatch"}
    assert again.events == ()


@pytest.mark.parametrize("spec", [SMOKE, ENFORCED])
@pytest.mark.parametrize("reason", SmokeVerdict)
def test_a_restarted_operator_writes_nothing(spec, reason):
    of = model(**spec)
    written = planned(of, seen(of, ended(of, reason, "so"))).status

    restarted = planned(of, seen(of, status=written, answered=False))
    answered = planned(of, seen(of, status=written))

    for plan in (restarted, answered):
        assert plan.status == written
        assert plan.events == ()
        assert plan.targets[0].smoke.done is (reason is SmokeVerdict.PASSED)


def test_a_result_that_a_later_version_recorded_is_not_used():
    status = planned(OF, seen(OF, ended(OF))).status
    status["replicaStatuses"][0]["smokeTests"]["reason"] = "PassedWithWarnings"

    plan = planned(OF, seen(OF, status=status, answered=False))

    assert not plan.targets[0].smoke.done
    assert verdict(plan, "SmokeTestPassed") == ("Unknown", "Running")


def test_an_edited_test_removes_no_replica_before_it_has_finished():
    status = planned(OF, seen(OF, ended(OF))).status
    tests = [{**ONE, "name": "two"}]
    edited = model(generation=2, smokeTests={"policy": "Enforce", "tests": tests})

    plan = planned(edited, seen(edited, ended(OF), status=status))

    assert verdict(plan, "SmokeTestPassed") == ("Unknown", "Running")
    assert plan.gates == ()
    assert plan.status["replicaSummary"] == "1/1"
    assert not plan.targets[0].smoke.done


def test_a_restarted_container_has_to_pass_again():
    status = planned(OF, seen(OF, ended(OF))).status
    one = pod("p", OF, gated=True, gate_open=True)
    again = replace(one.runtime, container_id="containerd://second", restart_count=1)

    plan = planned(OF, observed(replace(one, runtime=again), status=status))

    assert [gate.is_open for gate in plan.gates] == [False]
    assert not plan.targets[0].smoke.done


def test_passed_tests_are_not_repeated_for_an_omitted_replica():
    of = model(replicas=40, **ENFORCED)
    pods = [pod(f"p{index:02}", of, gated=True, gate_open=True) for index in range(40)]
    answers = {uid: each for one in pods for uid, each in said(one, smoke=ended(of)).items()}
    status = planned(of, observed(*pods, probes=answers)).status

    restarted = planned(of, observed(*pods, status=status))

    assert restarted.status == status
    assert restarted.gates == ()
    assert all(target.smoke.done for target in restarted.targets)


# ---------------------------------------------------------------------- more than a status lists

FORTY = model(replicas=40, **SMOKE)


def of_forty(status, *, ready_since):
    """A restarted operator's plan for 40 tested replicas and one more that sorts last."""
    of = replace(FORTY, replicas=41)
    pods = [pod(f"p{index:02}", of) for index in range(40)]
    if not status:
        passed = SmokeOutcome(of.smoke_digest, SmokeVerdict.PASSED)
        answers = {
            uid: result for each in pods for uid, result in said(each, smoke=passed).items()
        }
        return planned(replace(of, replicas=40), observed(*pods, probes=answers))
    newcomer = pod("z", of, ready_since=ready_since)
    return planned(of, observed(*pods, newcomer, status=status))


def test_a_new_pod_does_not_pass_by_the_entries_of_others():
    status = of_forty({}, ready_since=None).status
    assert status["omittedReplicas"] == 8
    assert verdict(status, "SmokeTestPassed") == ("True", "Passed")

    restarted = of_forty(status, ready_since=NOW + timedelta(seconds=1))

    assert verdict(restarted, "SmokeTestPassed") == ("Unknown", "Running")
    assert "pod z" in condition(restarted, "SmokeTestPassed")["message"]
    asked = {target.pod_uid: target.smoke.done for target in restarted.targets if target.smoke}
    assert [uid for uid, done in asked.items() if not done] == ["uid-z"]


def test_omitted_replicas_are_unknown_if_listed_ones_do_not_serve():
    of = replace(FORTY, replicas=40)
    broken = [unready(f"a{index:02}", of) for index in range(33)]
    pods = [pod(f"p{index:02}", of) for index in range(7)]
    passed = SmokeOutcome(of.smoke_digest, SmokeVerdict.PASSED)
    answers = {uid: result for each in pods for uid, result in said(each, smoke=passed).items()}
    status = planned(of, observed(*broken, *pods, probes=answers)).status
    assert status["omittedReplicas"] == 8

    restarted = planned(of, observed(*broken, *pods, status=status))

    assert not any(target.smoke.done for target in restarted.targets if target.smoke)


# ---------------------------------------------------------------------- omitted replicas

SINCE = "2026-03-04T05:06:07Z"
KEPT = {"digest": "d", "reason": "Passed"}
LISTED = [{"pod": "x"}, {"pod": "y", "smokeTests": KEPT}]


@pytest.mark.parametrize(
    ("condition", "ready_since", "entries", "expected"),
    [
        ({"status": "True", "lastTransitionTime": SINCE}, -1, LISTED, KEPT),
        ({"status": "True", "lastTransitionTime": SINCE}, 0, LISTED, None),
        ({"status": "True", "lastTransitionTime": SINCE}, 1, LISTED, None),
        ({"status": "True", "lastTransitionTime": SINCE}, None, LISTED, None),
        ({"status": "False", "lastTransitionTime": SINCE}, -1, LISTED, None),
        ({"status": "True"}, -1, LISTED, None),
        ({"status": "True", "lastTransitionTime": SINCE}, -1, LISTED[:1], None),
        ({"status": "True", "lastTransitionTime": SINCE}, -1, None, None),
    ],
)
def test_a_pod_that_was_ready_before_all_had_passed_has_passed_too(
    condition, ready_since, entries, expected
):
    since = None if ready_since is None else NOW + timedelta(seconds=ready_since)
    status = {
        "conditions": [{"type": "SmokeTestPassed", **condition}],
        "replicaStatuses": entries,
    }

    assert passed_with_all(pod("p", OF, ready_since=since), status) == expected
