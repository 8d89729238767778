"""The arithmetic of the scale benchmark: what counts as the effect of which cause, samples."""

import pytest
from moorage_benchmarks.scale import copies, objects
from moorage_benchmarks.scale.operator_process import Usage, parse_samples
from moorage_benchmarks.scale.sightings import Verdict, latencies


def verdicts(*moments: tuple[float, str]) -> list[Verdict]:
    return [Verdict(at, status, "") for at, status in moments]


@pytest.mark.parametrize(
    ("causes", "effects", "expected"),
    [
        ([(1.0, "False"), (2.0, "True")], [(1.5, "False"), (2.25, "True")], ([0.5, 0.25], 0)),
        # passed over: the second cause came before the first's effect
        ([(1.0, "False"), (2.0, "True")], [(0.5, "True")], ([], 2)),
        ([(1.0, "False"), (2.0, "True")], [(2.5, "True")], ([0.5], 1)),
        ([(0.1, "True")], [(0.2, "True")], ([], 0)),  # before the measurement
    ],
)
def test_an_effect_belongs_to_the_last_cause_of_its_status(causes, effects, expected):
    assert latencies(verdicts(*causes), verdicts(*effects), since=0.5) == expected


def test_samples_are_summed_by_their_labels():
    text = (
        "# HELP moorage_api_requests_total Requests.\n"
        'moorage_api_requests_total{code="200",resource="pods",verb="list"} 2.0\n'
        'moorage_api_requests_total{code="200",resource="pods",verb="patch"} 3.0\n'
        "moorage_queue_depth 4.0\n"
    )

    usage = Usage(at=0.0, cpu=0.0, rss=0, samples=parse_samples(text))

    assert (usage.requests, usage.writes, usage.total("moorage_queue_depth")) == (5.0, 3.0, 4.0)


def test_a_copied_child_is_like_the_one_that_was_served_but_for_its_names():
    labels = {"moorage.dev/model": "first-0"}
    pods = {"nodeName": "fake-0", "containers": [{"name": "runtime"}]}
    served = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "first-0",
            "namespace": objects.namespace(0),
            "uid": "u",
            "labels": labels,
            "annotations": {copies.REVISION: "1", "kept": '{"name":"first-0"}'},
            "managedFields": [{}],
        },
        "spec": {"replicas": 2, "template": {"metadata": {"labels": labels}, "spec": pods}},
        "status": {"replicas": 2},
    }

    made = copies.copy(served, "least-7", 7)

    of = {"moorage.dev/model": "least-7", "by-hand": "least-7"}
    assert made == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "least-7",
            "namespace": objects.namespace(7),
            "labels": of,
            "annotations": {"kept": '{"name":"least-7"}'},
        },
        "spec": {
            "replicas": 2,
            "template": {"metadata": {"labels": of}, "spec": {**pods, "nodeName": "fake-7"}},
        },
    }
