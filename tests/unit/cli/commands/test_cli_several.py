"""delete, its question, and commands that take several names."""

import io
import json
import sys

import pytest

from moorage_cli.printing.failures import Failure
from support.cli_cluster import MODEL, FakeCluster, FakeObjects


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("", 1)])
def test_delete_asks_on_a_terminal(run, monkeypatch, answer, code):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(FakeObjects, "deleted", [])

    found, _, err = run(FakeCluster(), "delete", "iris")

    assert found == code
    assert "Delete model iris in namespace models? [y/N] " in err
    assert FakeObjects.deleted == ([("models", "iris")] if code == 0 else [])


def test_delete_without_a_terminal_needs_yes(run, monkeypatch):
    monkeypatch.setattr(FakeObjects, "deleted", [])
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    code, _, err = run(FakeCluster(), "delete", "iris")
    assert code == 2
    assert "add --yes" in err
    assert FakeObjects.deleted == []
    assert run(FakeCluster(), "delete", "iris", "--yes")[0] == 0
    assert FakeObjects.deleted == [("models", "iris")]


@pytest.fixture
def several(monkeypatch):
    """A cluster with the models iris and rose, of which only iris is ready."""
    rose = {**MODEL, "metadata": {**MODEL["metadata"], "name": "rose"}, "status": {}}
    found = {"iris": MODEL, "rose": rose}

    def model(self, namespace, name):
        if name not in found:
            raise Failure(f"inferencemodel {namespace}/{name}: not found")
        return found[name]

    monkeypatch.setattr(FakeCluster, "model", model)
    monkeypatch.setattr(FakeCluster, "events", lambda *_: ())
    monkeypatch.setattr(FakeObjects, "deleted", [])
    return FakeCluster()


def test_delete_deletes_each_model_that_it_can(run, several):
    code, out, err = run(several, "delete", "iris", "lily", "rose", "iris", "--yes")

    assert code == 1
    assert out == ("iris: is deleted\nrose: is deleted\n")
    assert err == "moorage: inferencemodel models/lily: not found\n"
    assert FakeObjects.deleted == [("models", "iris"), ("models", "rose")]
    assert run(several, "delete", "iris", "rose", "--yes")[0] == 0


def test_delete_names_the_claim_in_which_the_files_stay(run, several, monkeypatch):
    of = {**MODEL, "spec": {"model": {"uri": "pvc://models/iris"}}}
    monkeypatch.setattr(FakeCluster, "model", lambda *_: of)

    assert run(several, "delete", "iris", "--yes")[1] == (
        "iris: is deleted; its files stay at pvc://models/iris\n"
    )


def test_delete_asks_for_each_model(run, several, monkeypatch):
    terminal = io.StringIO("n\ny\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)

    code, out, err = run(several, "delete", "iris", "rose", "-o", "json")

    assert code == 1
    assert err.count("[y/N]") == 2
    assert json.loads(out) == [
        {"deleted": False, "namespace": "models", "name": "iris"},
        {"deleted": True, "namespace": "models", "name": "rose"},
    ]
    assert FakeObjects.deleted == [("models", "rose")]


def test_delete_of_several_models_without_a_terminal_deletes_none(run, several, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\ny\n"))

    code, _, err = run(several, "delete", "lily", "iris", "rose")

    assert (code, FakeObjects.deleted) == (2, [])
    assert "add --yes" in err


def test_why_explains_each_model(run, several):
    code, out, err = run(several, "why", "iris", "rose", "lily")
    document = json.loads(run(several, "why", "iris", "lily", "rose", "-o", "json")[1])

    assert code == 1
    heads = [line for line in out.splitlines() if line.startswith("models/")]
    assert [line.split()[0] for line in heads] == ["models/iris", "models/rose"]
    assert "\n\nmodels/rose" in out
    assert err == "moorage: inferencemodel models/lily: not found\n"
    assert [each["name"] for each in document] == ["iris", "lily", "rose"]
    assert document[1]["error"] == "inferencemodel models/lily: not found"
    assert run(several, "why", "iris", "iris")[0] == 0
    assert json.loads(run(several, "why", "iris", "-o", "json")[1])["name"] == "iris"
