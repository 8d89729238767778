"""status, runtimes, why and top against a fake cluster."""

import json
import threading

import pytest

from moorage_cli.ask.api_failures import Forbidden
from support.cli_cluster import FakeCluster


def test_status_is_0_for_ready_models_in_every_form(run):
    for form in ("table", "json", "name"):
        code, out, err = run(FakeCluster(), "status", "-o", form)
        assert (code, err) == (0, "")
        assert "iris" in out
    assert run(FakeCluster(), "status", "-o", "name")[1] == "iris\n"
    assert json.loads(run(FakeCluster(), "status", "iris", "-o", "json")[1])["ready"] is True


def test_runtimes_shows_all_or_the_models_of_one(run):
    assert run(FakeCluster(), "runtimes", "-o", "name") == (0, "triton\n", "")
    code, out, _ = run(FakeCluster(), "runtimes", "triton", "-o", "json")
    assert (code, json.loads(out)["usedBy"][0]["name"]) == (0, "iris")
    assert (
        json.loads(run(FakeCluster(), "runtimes", "triton", "-n", "b", "-o", "json")[1])["usedBy"]
        == []
    )
    assert run(FakeCluster(), "runtimes", "x")[2] == "moorage: inferenceruntime x: not found\n"


def test_a_watch_shows_each_change_once_until_interrupted(run):
    code, out, _ = run(FakeCluster(), "status", "--watch")

    rows = [line for line in out.splitlines() if line.startswith("iris")]
    assert code == 130
    assert len(rows) == 3
    assert rows[-1].split() == ["iris", *["-"] * 6, "Deleted", "-"]


def test_a_watch_prints_a_deletion_as_json(run):
    code, out, _ = run(FakeCluster(), "status", "--watch", "-o", "json")

    *_, last = out.split("]\n[")
    assert code == 130
    assert json.loads(f"[{last}")[0]["reason"] == "Deleted"
    assert json.loads(f"[{last}")[0]["deleted"] is True


def test_why_reads_the_events_of_the_model(run):
    code, out, _ = run(FakeCluster(), "why", "iris")

    assert code == 0
    assert out.startswith("models/iris is ready: Serving")


def test_why_explains_a_model_without_the_right_to_read_events(run, monkeypatch):
    def refuse(*_):
        raise Forbidden("events of models: events is forbidden")

    monkeypatch.setattr(FakeCluster, "events", refuse)

    code, out, err = run(FakeCluster(), "why", "iris")

    assert code == 0
    assert out.startswith("models/iris is ready: Serving")
    assert err == "moorage: events of models: events is forbidden\n"


def test_ui_names_the_option_for_users_of_one_namespace(run, monkeypatch):
    def refuse(*_):
        raise Forbidden("inferencemodels is forbidden")

    monkeypatch.setattr(FakeCluster, "models", refuse)

    code, _, err = run(FakeCluster(), "ui", "--no-browser")
    assert (code, err) == (
        1,
        "moorage: inferencemodels is forbidden: set --namespace to one that you may read\n",
    )
    code, _, err = run(FakeCluster(), "ui", "--no-browser", "-n", "models")
    assert (code, err) == (1, "moorage: inferencemodels is forbidden\n")


@pytest.mark.parametrize("metrics", [True, False])
def test_top_shows_the_available_values(run, port, metrics):
    code, out, _ = run(FakeCluster(port, metrics=metrics), "top")

    row = out.splitlines()[1].split()
    assert code == 0
    assert row == [
        "iris",
        "iris-a",
        *(["250m", "64Mi"] if metrics else ["-", "-"]),
        "7",
        "0",
        "-",
        "-",
    ]
    assert ("metrics.k8s.io" in out) is not metrics


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"metadata": {"name": "iris-a", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "Terminating",
        ),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
    ],
)
def test_top_does_not_query_a_pod_whose_server_does_not_run(run, monkeypatch, change, reason):
    cluster = FakeCluster(problem="pods/portforward is forbidden")
    (found,) = cluster.pods("models", "moorage.dev/model=iris")
    monkeypatch.setattr(cluster, "pods", lambda *_: [{**found, **change}])

    code, out, err = run(cluster, "top")

    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["iris", "iris-a", "250m", "64Mi", "-", "-", "-", reason]
    assert len(out.splitlines()) == 2


def test_top_asks_several_models_at_once_and_keeps_their_order(run, port, monkeypatch):
    cluster = FakeCluster(port)
    (model,) = cluster.models(None)
    names = ["iris", "rose", "tulip"]
    models = [{**model, "metadata": {**model["metadata"], "name": name}} for name in names]
    pods, meeting = cluster.pods, threading.Barrier(len(names))

    def meet(*selected):
        meeting.wait(10)
        return pods(*selected)

    monkeypatch.setattr(cluster, "models", lambda _: models)
    monkeypatch.setattr(cluster, "pods", meet)

    code, out, err = run(cluster, "top")

    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == names


@pytest.mark.parametrize("command", ["status", "top"])
def test_one_model_of_all_namespaces_is_refused(run, command):
    code, out, err = run(FakeCluster(), command, "iris", "--all-namespaces")

    assert (code, out) == (2, "")
    assert "NAME cannot be combined with --all-namespaces: use --namespace NS" in err
