"""status.timings and the conditions for kstatus."""

from datetime import timedelta
from typing import Any

import pytest

from moorage_operator.answers import AnswerReason
from moorage_operator.planned import Plan
from moorage_operator.state import Observed
from moorage_operator.watched import (
    ContainerObserved,
    DeploymentCondition,
    PodObserved,
    Scheduled,
)
from support.operator_values import (
    NOW,
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    pod,
    revision,
    running,
    said,
    serving,
    unready,
)

MODEL = model()


def seconds(count: float) -> Any:
    return NOW + timedelta(seconds=count)


def timed(name: str = "p", *, ready: float = 60, **facts: Any) -> PodObserved:
    """A pod made now, scheduled after 1 s, initialized after 3, running after 20, then ready."""
    facts = {
        "created": NOW,
        "scheduled": Scheduled(status=True, since=seconds(1)),
        "initialized_since": seconds(3),
        "runtime": running(running_since=seconds(20)),
        "ready_since": seconds(ready),
        **facts,
    }
    return pod(name, MODEL, **facts)


def seen(*pods: PodObserved, **facts: Any) -> Observed:
    probes = {uid: result for each in pods for uid, result in said(each).items()}
    return observed(*pods, probes=probes, **facts)


def timings(of: Observed) -> dict[str, Any]:
    return planned(MODEL, of).status.get("timings", {})


def test_the_time_from_a_pods_creation_is_told_by_its_parts() -> None:
    assert timings(seen(timed())) == {
        "revision": revision(MODEL),
        "pod": "p",
        "scheduled": 1_000,
        "started": 19_000,
        "modelReady": 40_000,
        "total": 60_000,
    }


def test_init_containers_have_a_part_of_their_own() -> None:
    init = (ContainerObserved("fetch", exit_code=0),)

    told = timings(seen(timed(init=init)))

    assert (told["artifact"], told["started"]) == (2_000, 17_000)
    parts = ("scheduled", "artifact", "started", "modelReady")
    assert sum(told[part] for part in parts) == told["total"]


def test_a_part_whose_moment_is_not_known_goes_to_the_next() -> None:
    told = timings(seen(timed(scheduled=Scheduled(status=True))))

    assert "scheduled" not in told
    assert told["started"] == 20_000


def test_clocks_that_disagree_make_no_negative_part() -> None:
    told = timings(seen(timed(scheduled=Scheduled(status=True, since=seconds(-1)))))

    assert (told["scheduled"], told["started"]) == (0, 20_000)


def test_the_first_replica_to_be_ready_counts_whatever_its_name() -> None:
    assert timings(seen(timed("a", ready=70), timed("b", ready=60)))["pod"] == "b"


def test_nothing_is_told_before_a_replica_serves() -> None:
    assert timings(observed(unready("p", MODEL))) == {}


def test_they_are_written_once_for_a_revision() -> None:
    first = planned(MODEL, seen(timed("a"))).status

    later = planned(MODEL, seen(timed("b", ready=90), status=first)).status

    assert later["timings"] == first["timings"]


def test_those_of_an_earlier_revision_stay_until_the_new_one_serves() -> None:
    before = {"revision": "earlier", "pod": "old", "total": 1_000}
    status = {"timings": before}

    assert timings(observed(unready("p", MODEL), status=status)) == before
    assert timings(seen(timed(), status=status))["pod"] == "p"


# ---------------------------------------------------------------------- kstatus


def progress(plan: Plan) -> list[tuple[str, str]]:
    return [
        (each["type"], each["reason"])
        for each in plan.status["conditions"]
        if each["type"] in {"Reconciling", "Stalled"}
    ]


def bad(reason: AnswerReason) -> Observed:
    of = unready("p", MODEL)
    return observed(of, probes=said(of, no(reason, "broken")))


NO_IMAGE = ContainerObserved("runtime", waiting_reason="InvalidImageName")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (planned(MODEL, serving(MODEL)), []),
        (planned(model(suspend=True), observed()), []),
        (planned(MODEL, Observed()), [("Reconciling", "RollingOut")]),
        (planned(MODEL, observed(pending("p", MODEL))), [("Reconciling", "RollingOut")]),
        (planned(MODEL, bad(AnswerReason.LOADING)), [("Reconciling", "RollingOut")]),
        (planned(MODEL, bad(AnswerReason.LOAD_FAILED)), [("Stalled", "ModelLoadFailed")]),
        (
            planned(MODEL, observed(pending("p", MODEL, runtime=NO_IMAGE))),
            [("Stalled", "InvalidImageName")],
        ),
        (planned(model(replicas="many"), Observed()), [("Stalled", "InvalidSpec")]),
    ],
)
def test_a_spec_is_on_its_way_or_stuck_or_neither(
    plan: Plan, expected: list[tuple[str, str]]
) -> None:
    assert progress(plan) == expected


def test_a_rollout_that_stands_still_is_stalled() -> None:
    late = DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded")
    stuck = observed(pending("p", MODEL), deployment=deployment(conditions=(late,)))

    plan = planned(MODEL, stuck)

    assert progress(plan) == [("Stalled", "ProgressDeadlineExceeded")]
