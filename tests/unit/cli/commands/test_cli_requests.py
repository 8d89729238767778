"""infer and conformance against a fake cluster and a real socket."""

import json

import pytest

from support.cli_cluster import DOCUMENT, MODEL, FakeCluster, Server


def test_infer_uses_the_forwarded_port(run, port, tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    code, out, err = run(FakeCluster(port), "infer", "iris", "-f", str(request))

    assert (code, err) == (0, "")
    assert json.loads(out) == {"path": "/v2/models/iris/infer", "asked": DOCUMENT}


@pytest.mark.parametrize(("status", "code"), [(200, 0), (500, 1)])
def test_infer_prints_only_the_response_as_json(run, port, tmp_path, monkeypatch, status, code):
    monkeypatch.setattr(Server, "code", status)
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    asked = run(FakeCluster(port), "infer", "iris", "-f", str(request), "-o", "json")

    assert (asked[0], asked[2]) == (code, "")
    assert json.loads(asked[1]) == {"path": "/v2/models/iris/infer", "asked": DOCUMENT}


def test_infer_asks_a_pod_of_the_revision_that_the_service_selects(
    run, port, tmp_path, monkeypatch
):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    cluster = FakeCluster(port)
    (pod,) = cluster.pods("models", "moorage.dev/model=iris")
    pods = [
        {**pod, "metadata": {"name": name, "labels": {"moorage.dev/revision": revision}}}
        for name, revision in (("iris-b", "earlier"), ("iris-a", "switched"))
    ]
    revisions = {"current": "switched", "lastGood": "switched"}
    status = {**MODEL["status"], "revisions": revisions}
    monkeypatch.setattr(cluster, "pods", lambda *_: pods)
    monkeypatch.setattr(cluster, "model", lambda *_: {**MODEL, "status": status})

    # the cluster refuses to forward to another pod than iris-a
    assert run(cluster, "infer", "iris", "-f", str(request))[0] == 0


@pytest.mark.parametrize(
    ("declared", "detected"), [("OpenAI", "OpenAI"), ("Auto", "OpenAI"), ("None", "")]
)
def test_infer_refuses_a_server_without_tensors_and_names_its_url(
    run, monkeypatch, tmp_path, declared, detected
):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    protocol = {"declared": declared, "detected": detected}
    status = {**MODEL["status"], "protocol": protocol, "endpoints": [{"url": "http://iris/v1"}]}
    monkeypatch.setattr(FakeCluster, "model", lambda *_: {**MODEL, "status": status})

    code, _, err = run(FakeCluster(), "infer", "iris", "-f", str(request))

    assert code == 1
    assert (detected or declared) in err
    assert "http://iris/v1" in err


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (FakeCluster(problem="pods/portforward is forbidden"), "pods/portforward is forbidden"),
        (FakeCluster(ready="False"), "none of 1 pods is ready: run moorage why iris"),
    ],
)
def test_a_failure_of_the_connection_is_reported(run, tmp_path, cluster, sentence):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    code, _, err = run(cluster, "infer", "iris", "-f", str(request))

    assert code == 1
    assert sentence in err


def test_conformance_tests_a_server_over_http(run, port):
    code, out, _ = run(FakeCluster(), "conformance", f"127.0.0.1:{port}", "-o", "json")

    assert code == 1  # it answers every GET with 200
    assert json.loads(out)["spoken"] == []
