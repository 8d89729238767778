"""logs and events against a fake cluster."""

import json
from datetime import UTC, datetime

import pytest

from moorage_cli.ask.api_failures import Forbidden
from moorage_cli.judge.why import EventView
from support.cli_cluster import FakeCluster


def test_logs_have_the_name_of_the_pod_before_each_line_and_no_control_characters(run):
    code, out, err = run(FakeCluster(), "logs", "iris")

    assert (code, err) == (0, "")
    assert out == "iris-a | one\N{REPLACEMENT CHARACTER}[2J\niris-a | two\n"
    assert run(FakeCluster(), "logs", "iris", "--previous")[1].startswith("iris-a | previous\n")


def test_logs_that_cannot_be_read_are_status_1_with_the_reason(run):
    code, out, err = run(FakeCluster(problem="the container has not started"), "logs", "iris")

    assert (code, out) == (1, "")
    assert err == "moorage: the container has not started\n"


def test_logs_of_a_pod_without_a_node_are_status_1(run, monkeypatch):
    monkeypatch.setattr(FakeCluster, "node", "")

    code, out, err = run(FakeCluster(), "logs", "iris")

    assert (code, out) == (1, "")
    assert err == (
        "moorage: pod iris-a: it has no log, because it is not scheduled to a node: run moorage "
        "why iris\n"
    )


def test_logs_of_a_revision_without_pods_name_the_revision(run):
    code, _, err = run(FakeCluster(), "logs", "iris", "--revision", "old")

    assert code == 1
    assert "there are no pods of revision old" in err


def test_the_log_of_an_unknown_container_is_refused_with_those_of_the_pods(run):
    code, out, err = run(FakeCluster(), "logs", "iris", "--container", "fech")

    assert (code, out) == (1, "")
    assert "--container: the pods have no container 'fech': must be one of runtime" in err


@pytest.mark.parametrize("command", ["events", "why"])
def test_events_of_a_deleted_model_of_the_same_name_are_not_shown(run, monkeypatch, command):
    found = [
        EventView("InferenceModel", "iris", "Normal", "Serving", message, 1, last)
        for message, last in (
            ("of-the-deleted", datetime(2026, 2, 28, 23, 59, 40, tzinfo=UTC)),
            ("with-a-late-clock", datetime(2026, 2, 28, 23, 59, 55, tzinfo=UTC)),
            ("without-a-time", None),
        )
    ]
    monkeypatch.setattr(FakeCluster, "found_events", found)
    of = FakeCluster().model("models", "iris")
    of["metadata"]["creationTimestamp"] = "2026-03-01T00:00:00Z"
    monkeypatch.setattr(FakeCluster, "model", lambda *_: of)

    _, out, _ = run(FakeCluster(), command, "iris")

    assert "of-the-deleted" not in out
    assert "with-a-late-clock" in out
    assert "without-a-time" in out


def test_events_are_sorted_by_time_and_an_empty_list_says_so(run, monkeypatch):
    times = [datetime(2026, 3, 4, 5, 6, second, tzinfo=UTC) for second in (7, 5)]
    found = [
        EventView("Pod", "iris-a", "Warning", "BackOff", "late", 3, times[0]),
        EventView("InferenceModel", "iris", "Normal", "Serving", "early", 1, times[1]),
    ]
    assert run(FakeCluster(), "events", "iris")[1] == "iris: there are no recent events\n"
    monkeypatch.setattr(FakeCluster, "found_events", found)

    code, out, _ = run(FakeCluster(), "events", "iris")

    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()] == ["MESSAGE", "early", "late"]
    assert json.loads(run(FakeCluster(), "events", "iris", "-o", "json")[1])["events"][1][
        "count"
    ] == 3  # fmt: skip


def test_events_without_the_right_to_list_pods_are_those_of_the_pods_in_the_status(
    run, monkeypatch
):
    def refuse(*_):
        raise Forbidden("pods of models: pods is forbidden")

    of = FakeCluster().model("models", "iris")
    status = {**of["status"], "replicaStatuses": [{"pod": "iris-a"}]}
    asked = []
    monkeypatch.setattr(FakeCluster, "pods", refuse)
    monkeypatch.setattr(FakeCluster, "model", lambda *_: {**of, "status": status})
    monkeypatch.setattr(FakeCluster, "events", lambda _, __, names: asked.append(names) or [])

    assert run(FakeCluster(), "events", "iris")[0] == 0
    assert asked == [["iris", "iris-a"]]
