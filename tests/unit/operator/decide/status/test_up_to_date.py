"""The condition UpToDate, decided from a course and its replicas, and its messages."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.v1alpha1 import OnFailure
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.decide.rollout.course import Course
from moorage_operator.decide.status.template import TemplateState
from moorage_operator.decide.status.up_to_date import (
    decide_up_to_date,
    foreign_sentence,
    paused_outside,
)
from moorage_operator.values.objects import DeploymentCondition
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Rejection, Retirement, Revisions
from support.operator_values import deployment, model, observed, pod

MODEL = model()
KNOWN = Revisions(current="new", last_good="old")
COURSE = Course(KNOWN, "new", MODEL, {})
REJECTED = Rejection("new", "CrashLoopBackOff", "it crashes", "2026-03-04T05:06:07Z")
LATE = DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded")
CANARY = Finding(Reason.AWAITING_APPROVAL, "canary new takes 20 percent")
REQUEST = "spec.rollout.restartedAt"
CRASHED = Finding(Reason.CRASH_LOOP_BACK_OFF, "it crashes")


def replica(name: str, *, current: bool = True, serving: bool = True) -> Replica:
    of = pod(name, "new" if current else "old")
    return Replica(of, current, serving, model_ready=serving, admitted=serving)


def decided(
    *replicas: Replica,
    course: Course = COURSE,
    seen: Observed | None = None,
    blamed: Finding | None = None,
    desired: int = 1,
    canary: Finding | None = None,
    template: TemplateState = TemplateState.PLANNED,
    remarks: Sequence[str] = (),
    is_routed: bool = True,
) -> Condition:
    return decide_up_to_date(
        course,
        seen or observed(),
        replicas,
        blamed,
        desired,
        canary,
        template=template,
        remarks=remarks,
        is_routed=is_routed,
    )


def complete(message: str) -> Condition:
    finding = Finding(Reason.ROLLOUT_COMPLETE, message)
    return Condition(ConditionType.UP_TO_DATE, status=True, finding=finding)


def incomplete(reason: Reason, message: str) -> Condition:
    return Condition(ConditionType.UP_TO_DATE, status=False, finding=Finding(reason, message))


BEFORE = {
    "revisions": {"current": "new"},
    "conditions": [{"type": "UpToDate", "status": "True", "observedGeneration": 1}],
}


def test_a_complete_rollout_counts_its_replicas() -> None:
    assert decided(replica("a")) == complete("all 1 replicas have this spec")
    assert decided(seen=observed(status=BEFORE)) == complete(
        "0 of 1 replicas exist, and all of them have this spec"
    )


def test_more_serving_replicas_than_wanted_are_complete() -> None:
    two = [replica("a"), replica("b")]
    assert decided(*two) == complete("all 2 replicas have this spec (1 wanted)")
    assert decided(*two, remarks=["it grew"]) == complete(
        "all 2 replicas have this spec (1 wanted); it grew"
    )
    assert decided(replica("a"), replica("b", serving=False)) == incomplete(
        Reason.ROLLING_OUT, "1 of 1 replicas of this spec serve"
    )
    # A model that is switched off must have none.
    assert decided(replica("a"), desired=0) == incomplete(
        Reason.ROLLING_OUT, "1 replicas of this spec serve (0 wanted)"
    )


def test_a_remark_is_made_once_in_an_incomplete_rollout() -> None:
    assert decided(replica("a"), desired=2, remarks=["it shrank"]) == incomplete(
        Reason.ROLLING_OUT, "1 of 2 replicas of this spec serve; it shrank"
    )
    assert decided(replica("a"), desired=2, remarks=["it shrank", "one is left"]) == incomplete(
        Reason.ROLLING_OUT, "1 of 2 replicas of this spec serve; it shrank; one is left"
    )
    blamed = Finding(Reason.PENDING, "none is created; it shrank")
    assert decided(replica("a"), desired=2, blamed=blamed, remarks=["it shrank"]) == incomplete(
        Reason.ROLLING_OUT,
        "1 of 2 replicas of this spec serve; Pending: none is created; it shrank",
    )


def test_a_rollout_counts_serving_and_remaining_replicas() -> None:
    replicas = [replica("a"), replica("b", serving=False), replica("c", current=False)]

    assert decided(*replicas, desired=2) == incomplete(
        Reason.ROLLING_OUT,
        "1 of 2 replicas of this spec serve, 1 of an earlier revision remain",
    )
    assert decided(replica("a"), blamed=CRASHED) == incomplete(
        Reason.ROLLING_OUT,
        "1 of 1 replicas of this spec serve; CrashLoopBackOff: it crashes",
    )


def test_a_complete_rollout_that_exceeds_its_deadline_is_no_longer_complete() -> None:
    late = observed(deployment=deployment(conditions=(LATE,)), status=BEFORE)

    assert decided(seen=late) == incomplete(
        Reason.PROGRESS_DEADLINE_EXCEEDED, "0 of 1 replicas of this spec serve"
    )


@pytest.mark.parametrize(
    ("template", "completes", "stays"),
    [
        (TemplateState.PLANNED, True, True),
        (TemplateState.UNKNOWN, False, True),
        (TemplateState.OTHER, False, False),
    ],
)
def test_pods_that_may_have_another_template_do_not_complete_a_rollout(
    template: TemplateState, completes: bool, stays: bool
) -> None:
    before = observed(status=BEFORE)

    assert decided(replica("a"), template=template).status is completes
    assert decided(replica("a"), seen=before, template=template).status is stays


def test_a_retiring_revision_is_not_part_of_the_rollout() -> None:
    known = dataclasses.replace(KNOWN, retiring=Retirement("old"))
    course = dataclasses.replace(COURSE, revisions=known)

    assert decided(replica("a"), replica("b", current=False), course=course).status is True


def test_a_canary_shows_its_progress_until_it_is_stuck() -> None:
    serves = "1 of 1 replicas of this spec serve"
    waits = "0 of 1 replicas of this spec serve"
    late = observed(deployment=deployment(conditions=(LATE,)))

    under_way = decided(replica("a"), canary=CANARY)
    stuck = decided(canary=CANARY, seen=late)

    assert under_way == incomplete(
        Reason.AWAITING_APPROVAL, f"canary new takes 20 percent; {serves}"
    )
    assert stuck == incomplete(
        Reason.PROGRESS_DEADLINE_EXCEEDED, f"canary new takes 20 percent; {waits}"
    )


@pytest.mark.parametrize("status", [{}, BEFORE])
def test_an_update_of_the_operator_waits_for_the_next_edit(status: dict[str, Any]) -> None:
    course = dataclasses.replace(COURSE, update_pending=True)

    found = decided(replica("a"), course=course, seen=observed(status=status))

    assert found.status is False
    assert found.finding.reason is Reason.OPERATOR_UPDATE_PENDING
    assert found.finding.message.startswith("the replicas have this spec, ")
    assert REQUEST in found.finding.message


@pytest.mark.parametrize(
    ("on_failure", "applied", "reason", "fact", "is_kept"),
    [
        ("Rollback", "old", Reason.ROLLED_BACK, "revision old", True),
        ("Pause", "new", Reason.ROLLOUT_PAUSED, "paused", True),
        ("Rollback", "new", Reason.ROLLOUT_PAUSED, "paused instead of rolled back", False),
    ],
)
def test_a_revision_that_was_given_up_says_why_and_what_runs(
    on_failure: str, applied: str, reason: Reason, fact: str, is_kept: bool
) -> None:
    of = model(rollout={"onFailure": on_failure})
    assert of.rollout.on_failure is OnFailure(on_failure)
    course = Course(dataclasses.replace(KNOWN, rejected=REJECTED), applied, of, {})

    found = decided(course=course)

    given_up, outcome, retry = found.finding.message.split("; ")
    assert (found.status, found.finding.reason) == (False, reason)
    assert given_up.startswith("revision new ")
    assert given_up.endswith(": CrashLoopBackOff: it crashes")
    assert fact in outcome
    assert ("not kept" in outcome) is not is_kept
    assert REQUEST in retry


def foreign(*fields: tuple[str, str]) -> Observed:
    return observed(deployment=deployment(foreign=fields))


def test_at_most_five_foreign_fields_are_listed() -> None:
    fields = [(f"spec.f{index}", "kubectl") for index in range(7)]
    five = ", ".join(f"spec.f{index} by 'kubectl'" for index in range(5))

    assert foreign_sentence(foreign()) == ""
    assert foreign_sentence(foreign(*fields[:5])).endswith(f": {five}")
    assert foreign_sentence(foreign(*fields)).endswith(f": {five} and 2 more")


def test_a_deployment_that_is_not_a_child_has_no_name() -> None:
    lost = dataclasses.replace(foreign(("spec.f", "kubectl")), children={})

    assert foreign_sentence(lost).startswith('the Deployment "" has fields')


def test_the_message_has_the_pause_then_the_count_then_foreign_fields() -> None:
    paused = foreign(("spec.paused", "kubectl-rollout"), ("spec.f", "kubectl"))
    other = foreign(("spec.f", "kubectl"))
    count = "0 of 1 replicas of this spec serve"

    assert 'the Deployment "digits" ' in paused_outside(paused)
    assert "'kubectl-rollout'" in paused_outside(paused)
    assert "`kubectl rollout resume deployment/digits`" in paused_outside(paused)
    assert decided(seen=paused) == incomplete(
        Reason.ROLLOUT_PAUSED,
        f"{paused_outside(paused)}; {foreign_sentence(paused)}; {count}",
    )
    assert decided(seen=other) == incomplete(
        Reason.ROLLING_OUT, f"{count}; {foreign_sentence(other)}"
    )


def test_a_rollout_is_not_complete_before_its_services_and_routes_are_written() -> None:
    waits = decided(replica("a"), is_routed=False)

    assert waits.status is False
    assert waits.finding == Finding(
        Reason.ROLLING_OUT,
        "1 of 1 replicas of this spec serve, but its Services and routes are not yet written",
    )
    assert decided(replica("a")).status is True


def test_services_are_not_named_while_replicas_are_missing() -> None:
    waits = decided(replica("a", serving=False), is_routed=False)

    assert waits.finding.message == "0 of 1 replicas of this spec serve"


def test_a_canary_with_its_share_is_not_said_to_lack_services_and_routes() -> None:
    waits = decided(replica("a"), replica("b", current=False), canary=CANARY, is_routed=False)

    assert waits.finding.message == (
        "canary new takes 20 percent; 1 of 1 replicas of this spec serve, "
        "1 of an earlier revision remain"
    )
