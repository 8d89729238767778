"""Silence of most models at once is reported as an outage of the operator."""

from dataclasses import replace

import pytest

from moorage_operator.decide.isolation import ASKED_AGAIN, Isolation
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.observed import ObjectKey
from support.operator_values import (
    condition,
    model,
    no,
    observed,
    planned,
    pod,
    running,
    said,
    serving,
    silence,
    verdict,
)


class Counting:
    """An Isolation with a record of its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.again: list[str] = []
        self.changes: list[tuple[int, int]] = []
        self.isolation = Isolation(
            ask=self.asked.append,
            again=lambda key: self.again.append(key.name),
            changed=lambda silent, models: self.changes.append((silent, models)),
        )

    def tell(self, *names: str, heard: bool | None) -> None:
        for name in names:
            self.isolation.record(ObjectKey("ns", name), f"pod-{name}", heard=heard)


def test_silence_of_most_models_is_an_outage_that_is_reported_once():
    seen = Counting()
    seen.tell("a", "b", "c", "d", "e", heard=True)

    seen.tell("a", "b", heard=False)
    assert not seen.isolation.is_cut_off
    seen.tell("c", heard=False)
    seen.tell("d", "e", heard=False)

    assert seen.isolation.is_cut_off
    assert seen.changes == [(3, 5)]
    assert seen.again == ["a", "b", "c"]


@pytest.mark.parametrize("others", [0, 3, 300])
def test_a_few_silent_models_are_not_an_outage(others: int):
    seen = Counting()
    seen.tell(*(f"m{number}" for number in range(others)), heard=True)

    seen.tell("a", "b", *(["c"] if others else []), heard=False)

    assert not seen.isolation.is_cut_off
    assert seen.changes == []


def test_an_outage_ends_when_three_quarters_answer_again():
    seen = Counting()
    seen.tell(*"abcdefghijklmnop", heard=False)

    seen.tell(*"abcdefghijkl"[:11], heard=True)
    assert seen.isolation.is_cut_off
    seen.tell("l", heard=True)

    assert not seen.isolation.is_cut_off
    assert seen.changes == [(3, 3), (4, 16)]
    assert seen.again[3:] == ["m", "n", "o", "p"]


def test_models_that_are_not_ready_for_kubelets_do_not_count():
    seen = Counting()
    seen.tell("new", heard=None)
    seen.tell(*"abc", heard=False)
    assert seen.isolation.is_cut_off

    seen.tell("a", heard=None)

    assert not seen.isolation.is_cut_off


def test_deleted_models_do_not_count():
    seen = Counting()
    seen.tell(*"uvw", heard=True)
    seen.tell(*"abc", heard=False)
    assert not seen.isolation.is_cut_off

    seen.isolation.forget(ObjectKey("ns", "u"))
    assert seen.changes == [(3, 5)]
    seen.isolation.forget(ObjectKey("ns", "b"))

    assert seen.changes == [(3, 5), (2, 4)]


def test_a_model_that_falls_silent_triggers_polls_of_others_once():
    seen = Counting()
    names = [f"m{number}" for number in range(100)]
    seen.tell(*names, heard=True)

    seen.tell("m0", heard=False)
    first = list(seen.asked)
    seen.tell("m0", heard=False)
    seen.tell("m1", heard=False)

    assert len(first) == ASKED_AGAIN
    assert len(seen.asked) == len(set(seen.asked)) == 2 * ASKED_AGAIN


def test_each_model_that_falls_silent_triggers_polls_of_the_same_few_others():
    seen = Counting()
    seen.tell(*"abcdefg", heard=True)

    seen.tell("a", "b", heard=False)

    others = [f"pod-{name}" for name in "cdefg"]
    assert seen.asked == ["pod-b", *others, *others]


# ---------------------------------------------------------------------- what the plan makes of it

OF = model(replicas=2)
TIMED_OUT = silence(AnswerReason.TIMED_OUT)
SERVED = planned(OF, serving(OF, 2)).status


def quiet(*, cut_off: bool = True, ready: bool = True, answer=TIMED_OUT):
    pods = [pod(name, OF, ready=ready, runtime=running(ready=ready)) for name in ("p0", "p1")]
    answers = {
        uid: result
        for each in pods
        for uid, result in said(each, answer, consecutive_unknown=9).items()
    }
    return observed(*pods, probes=answers, status=SERVED, is_cut_off=cut_off)


def test_ready_is_unknown_while_the_operator_is_cut_off_and_no_event_is_sent():
    plan = planned(OF, quiet())
    back = planned(OF, serving(OF, 2, status=plan.status))

    assert verdict(plan) == ("Unknown", "OperatorCutOff")
    assert "the kubelets report 2 of its replicas ready" in condition(plan, "Ready")["message"]
    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert plan.events == ()
    assert plan.heard is False
    assert verdict(back) == ("True", "Serving")
    assert back.events == ()
    assert back.heard is True


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"cut_off": False}, "ProbeTimeout"),
        ({"ready": False}, "ProbeTimeout"),
        ({"answer": no(AnswerReason.LOAD_FAILED)}, "ModelLoadFailed"),
    ],
)
def test_a_model_with_its_own_problem_is_not_ready(facts, reason):
    plan = planned(OF, quiet(**facts))

    assert verdict(plan) == ("False", reason)
    assert [event.reason for event in plan.events] == [reason]


def test_one_answering_replica_is_enough_for_a_model():
    seen = quiet()
    one = replace(seen, probes={**seen.probes, **said(seen.pods[0])})

    assert planned(OF, one).heard is True
    assert planned(OF, quiet(ready=False)).heard is None
