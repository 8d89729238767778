"""status.timings."""

from datetime import timedelta
from typing import Any

from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import ContainerObserved, PodObserved, Scheduled
from moorage_operator.values.observed import Observed
from support.operator_values import (
    NOW,
    model,
    no,
    observed,
    planned,
    pod,
    record,
    revision,
    running,
    said,
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


def test_the_time_since_a_pods_creation_is_split_into_phases() -> None:
    assert timings(seen(timed())) == {
        "revision": revision(MODEL),
        "pod": "p",
        "scheduled": 1_000,
        "started": 19_000,
        "modelReady": 40_000,
        "total": 60_000,
    }


def test_init_containers_have_their_own_phase() -> None:
    init = (ContainerObserved("fetch", exit_code=0),)

    found = timings(seen(timed(init=init)))

    assert (found["artifact"], found["started"]) == (2_000, 17_000)
    parts = ("scheduled", "artifact", "started", "modelReady")
    assert sum(found[part] for part in parts) == found["total"]


def test_a_phase_without_a_time_is_part_of_the_next() -> None:
    found = timings(seen(timed(scheduled=Scheduled(status=True))))

    assert "scheduled" not in found
    assert found["started"] == 20_000


def test_different_clocks_yield_no_negative_phase() -> None:
    found = timings(seen(timed(scheduled=Scheduled(status=True, since=seconds(-1)))))

    assert (found["scheduled"], found["started"]) == (0, 20_000)


def test_the_first_ready_replica_counts_regardless_of_its_name() -> None:
    assert timings(seen(timed("a", ready=70), timed("b", ready=60)))["pod"] == "b"


def test_of_two_replicas_that_were_ready_in_the_same_second_the_first_name_counts() -> None:
    for names in ("ab", "ba"):
        assert timings(seen(*map(timed, names)))["pod"] == "a"


def test_there_are_no_timings_before_a_replica_serves() -> None:
    assert timings(observed(unready("p", MODEL))) == {}
    # The kubelet finds the pod ready, but the model is still loading.
    loading = timed()
    assert timings(observed(loading, probes=said(loading, no(AnswerReason.LOADING)))) == {}


def test_timings_are_written_once_for_a_revision() -> None:
    first = planned(MODEL, seen(timed("a"))).status

    later = planned(MODEL, seen(timed("b", ready=90), status=first)).status

    assert later["timings"] == first["timings"]


def test_earlier_timings_stay_until_the_new_revision_serves() -> None:
    before = {"revision": "earlier", "pod": "old", "total": 1_000}
    status = {"timings": before}

    assert timings(observed(unready("p", MODEL), status=status)) == before
    assert timings(seen(timed(), status=status))["pod"] == "p"


def test_a_revision_that_was_given_up_has_no_timings_of_the_one_that_runs_instead() -> None:
    bad = model(generation=2, runtime={"image": "bad:1"})
    aborted = model(generation=3, runtime={"image": "bad:1"}, rollout={"abort": revision(bad)})
    history = {revision(MODEL): record(MODEL), revision(bad): record(bad)}
    pods = (timed("good"), unready("bad", bad))
    before = planned(MODEL, seen(timed("good"))).status
    given_up = planned(aborted, seen(*pods, history=history, status=before)).status

    after = planned(aborted, seen(timed("good"), history=history, status=given_up)).status

    assert after["revisions"]["rejected"]["revision"] == revision(bad)
    assert after["revisions"]["current"] == revision(bad)
    assert after["timings"] == before["timings"]
    assert after["timings"]["revision"] == revision(MODEL)
