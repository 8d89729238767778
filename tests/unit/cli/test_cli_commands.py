"""The commands against a fake cluster and real sockets."""

import contextlib
import http.server
import importlib.metadata
import io
import json
import socket
import sys
import threading
from datetime import UTC, datetime

import pytest
import yaml

from moorage_cli import __main__ as program
from moorage_cli.ask.cluster import Conflict
from moorage_cli.ask.port_forward import PortForward
from moorage_cli.judge.why import EventView
from moorage_cli.printing.failures import Failure
from support.foreign_manifests import MODEL as SERVED
from support.foreign_manifests import kserve

MODEL = {
    "metadata": {"name": "iris", "namespace": "models", "generation": 1},
    "spec": {},
    "status": {
        "observedGeneration": 1,
        "selector": "moorage.dev/model=iris",
        "runtime": {"name": "triton"},
        "protocol": {"detected": "OpenInference"},
        "endpoints": [{"url": "http://iris.models.svc:8000"}],
        "conditions": [
            {"type": "Accepted", "status": "True", "observedGeneration": 1},
            {"type": "Ready", "status": "True", "reason": "Serving", "observedGeneration": 1},
        ],
    },
}
RUNTIME = {"metadata": {"name": "triton"}, "spec": {"image": "triton:1"}}
DOCUMENT = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}


class Server(http.server.BaseHTTPRequestHandler):
    """A model server with metrics and a response to an inference request."""

    code = 200

    def do_GET(self):
        self._answer(b'moorage_inferences_total{model="iris",outcome="ok",version="1"} 7\n')

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer(json.dumps({"path": self.path, "asked": asked}).encode())

    def _answer(self, body):
        self.send_response(self.code)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def port():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


class FakeObjects:
    """The logs of the pod, and the models that are deleted."""

    deleted = ()

    def __init__(self, problem):
        self.problem = problem

    def log(self, namespace, pod, container, *, follow, previous, tail):
        assert (namespace, pod, container, follow, tail) == (
            "models", "iris-a", "runtime", False, 200
        )  # fmt: skip
        if self.problem:
            raise Failure(self.problem)
        yield from ["previous" if previous else "one\x1b[2J", "two"]

    def delete_model(self, namespace, name):
        type(self).deleted = [*self.deleted, (namespace, name)]


class FakeCluster:
    """A cluster with one model and one pod, whose port is the server's."""

    namespace = "models"
    found_events = ()

    def __init__(self, port=0, *, problem="", ready="True", metrics=True):
        self.port, self.problem, self.ready, self.metrics = port, problem, ready, metrics

    def models(self, namespace):
        return [MODEL] if namespace in (None, "models") else []

    def model(self, namespace, name):
        if (namespace, name) != ("models", "iris"):
            raise Failure(f"inferencemodel {namespace}/{name}: not found")
        return MODEL

    def runtimes(self):
        return [RUNTIME]

    def runtime(self, name):
        if name != "triton":
            raise Failure(f"inferenceruntime {name}: not found")
        return RUNTIME

    def changes(self, namespace, name):
        del namespace, name
        yield from (MODEL, MODEL, {**MODEL, "status": {}})
        raise KeyboardInterrupt

    def events(self, namespace, names):
        assert namespace == "models"
        assert names in (["iris"], ["iris", "iris-a"])
        return self.found_events

    def pods(self, namespace, selector):
        assert (namespace, selector) == ("models", "moorage.dev/model=iris")
        ports = [{"name": "http", "containerPort": 8000}]
        return [
            {
                "metadata": {"name": "iris-a"},
                "spec": {"containers": [{"name": "runtime", "ports": ports}]},
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": self.ready}],
                },
            }
        ]

    def pod_metrics(self, namespace, selector):
        del namespace, selector
        if not self.metrics:
            raise Failure("the metrics API (metrics.k8s.io): not found")
        usage = {"cpu": "250m", "memory": "64Mi"}
        return [{"metadata": {"name": "iris-a"}, "containers": [{"usage": usage}]}]

    def forward(self, namespace, pod, port):
        assert (namespace, pod, port) == ("models", "iris-a", 8000)
        return PortForward(self._connect)

    @property
    def objects(self):
        return FakeObjects(self.problem)

    def _connect(self):
        if self.problem:
            raise ConnectionError(self.problem)
        return socket.create_connection(("127.0.0.1", self.port), 5), lambda: ""


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command line against a fake cluster; returns status, output and errors."""

    def run(cluster, *arguments):
        monkeypatch.setattr(program, "Cluster", lambda *_: cluster)
        try:
            code = program.main(arguments)
        except SystemExit as ended:
            code = ended.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


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


def test_a_missing_model_is_status_1(run):
    code, out, err = run(FakeCluster(), "status", "rose", "-n", "other")

    assert (code, out) == (1, "")
    assert err == "moorage: inferencemodel other/rose: not found\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "iris", "-A"],
        ["conformance", "ftp://host"],
        ["conformance", "http://"],
        ["infer", "iris"],
        ["infer", "iris", "-f", "x", "--timeout", "0"],
        ["infer", "iris", "-f", "x", "--protocol", "SOAP"],
        ["completion", "tcsh"],
        ["nope"],
    ],
)
def test_invalid_usage_is_status_2(run, arguments):
    code, out, err = run(FakeCluster(), *arguments)

    assert (code, out) == (2, "")
    assert err


def test_without_a_command_the_help_is_printed(run):
    code, out, err = run(FakeCluster())

    assert (code, err) == (0, "")
    assert "usage: " in out
    assert "status" in out


def test_version_prints_the_version(run):
    code, out, err = run(FakeCluster(), "--version")

    assert (code, err) == (0, "")
    assert importlib.metadata.version("moorage-cli") in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["lint", "/"], "is a directory"),
        (["lint", "{onnx}", "--model", "/"], "is a directory"),
        (["lint", "{onnx}"], "is not UTF-8"),
        (["conformance", "127.0.0.1:1"], "connection refused"),
    ],
)
def test_an_error_of_the_system_has_no_number_and_no_class_name(run, tmp_path, arguments, reason):
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\xff\xfe")
    code, _, err = run(FakeCluster(), *(word.format(onnx=binary) for word in arguments))

    assert code == 1
    assert reason in err
    assert "Errno" not in err
    assert "Error" not in err


def test_an_unreachable_api_server_is_one_line_without_library_names(tmp_path, capfd):
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
    kubeconfig.write_text(json.dumps({**config, "users": [{"name": "u", "user": {}}]}))
    code = program.main(["status", "--kubeconfig", str(kubeconfig)])
    err = capfd.readouterr().err

    assert code == 1
    assert err.splitlines() == [err.rstrip()]
    assert "connection refused" in err
    for noise in ("HTTPSConnection", "urllib3", "Errno", "retries"):
        assert noise not in err


def test_a_watch_shows_each_change_once_until_interrupted(run):
    code, out, _ = run(FakeCluster(), "status", "--watch")

    assert code == 130
    assert len([line for line in out.splitlines() if line.startswith("iris")]) == 2


def test_why_reads_the_events_of_the_model(run):
    code, out, _ = run(FakeCluster(), "why", "iris")

    assert code == 0
    assert out.startswith("models/iris is ready: Serving")


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


def test_a_missing_file_is_reported_without_an_error_number(run, tmp_path):
    missing = str(tmp_path / "missing")

    for arguments in (["lint", missing], ["infer", "iris", "-f", missing]):
        code, _, err = run(FakeCluster(), *arguments)
        assert code == 1
        assert f"{missing} cannot be read: no such file or directory" in err


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


def test_conformance_tests_a_server_over_http(run, port):
    code, out, _ = run(FakeCluster(), "conformance", f"127.0.0.1:{port}", "-o", "json")

    assert code == 1  # it answers every GET with 200
    assert json.loads(out)["spoken"] == []


def test_colours_need_a_terminal_without_no_color(run, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in run(FakeCluster(), "status")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b[32mTrue" in run(FakeCluster(), "status")[1]
    assert "\x1b" not in run(FakeCluster(), "status", "-o", "json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(FakeCluster(), "status")[1]


def test_a_plugin_has_the_name_of_kubectl_in_errors(run, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-moorage"])

    assert run(FakeCluster(), "status", "rose")[2].startswith("kubectl moorage: ")


def test_a_forwarded_port_transfers_bytes_both_ways_and_closes():
    near, far = socket.socketpair()
    with contextlib.ExitStack() as stack:
        stack.callback(far.close)
        forward = stack.enter_context(PortForward(lambda: (near, lambda: "")))
        host, _, number = forward.address.partition(":")
        with socket.create_connection((host, int(number)), 5) as local:
            local.sendall(b"question")
            local.shutdown(socket.SHUT_WR)
            assert far.recv(100) == b"question"
            assert far.recv(100) == b""
            far.sendall(b"answer")
            far.shutdown(socket.SHUT_WR)
            assert local.recv(100) == b"answer"
            assert local.recv(100) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((host, int(number)), 5)


EARLIER = """\
apiVersion: moorage.dev/v1alpha1
kind: InferenceModel
metadata: {name: iris}
spec: {model: {uri: "pvc://a/b"}, disruptionBudget: None}   # our own
"""


def test_convert_prints_the_manifest_and_names_what_is_lost(tmp_path, capsys):
    path, other = tmp_path / "iris.yaml", tmp_path / "other.yaml"
    path.write_text(EARLIER)
    other.write_text("kind: Other   # stays\n")

    assert program.main(["convert", str(path), str(other)]) == 0

    out, err = capsys.readouterr()
    assert "disruptionBudget: {policy: None}" in out
    assert out.endswith("---\nkind: Other   # stays\n")
    assert f"{path}: iris: comments" in err
    assert path.read_text() == EARLIER


def test_convert_in_place_writes_only_what_changes(tmp_path, capsys):
    earlier, other = tmp_path / "iris.yaml", tmp_path / "other.yaml"
    earlier.write_text(EARLIER)
    other.write_text("kind: Other   # stays\n")

    assert program.main(["convert", "--in-place", str(earlier), str(other)]) == 0

    assert "policy: None" in earlier.read_text()
    assert other.read_text() == "kind: Other   # stays\n"
    assert capsys.readouterr().out == f"{earlier}: converted\n{other}: unchanged\n"


def test_convert_writes_no_file_if_one_cannot_be_converted(tmp_path, capsys):
    earlier, wrong = tmp_path / "iris.yaml", tmp_path / "wrong.yaml"
    earlier.write_text(EARLIER)
    wrong.write_text(EARLIER.replace("disr", "endpoints: {}, paths: {}, disr"))

    assert program.main(["convert", "--in-place", str(earlier), str(wrong)]) == 1

    assert earlier.read_text() == EARLIER
    assert f"{wrong}: iris: spec.endpoints and spec.paths" in capsys.readouterr().err


FOREIGN = yaml.safe_dump(kserve({"model": SERVED, "timeout": 30}))


def test_strict_writes_nothing_if_a_field_is_lost(tmp_path, capsys):
    path = tmp_path / "iris.yaml"
    path.write_text(FOREIGN)

    assert program.main(["convert", "--strict", str(path)]) == 1
    assert program.main(["convert", "--strict", "--in-place", str(path)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert f"{path}: iris: spec.predictor.timeout: 30: lost: " in err
    assert "--strict allows no lost fields" in err
    assert path.read_text() == FOREIGN


def test_strict_accepts_what_is_only_changed(tmp_path, capsys):
    path = tmp_path / "iris.yaml"
    path.write_text(yaml.safe_dump(kserve({"model": {**SERVED, "protocolVersion": "v2"}})))

    assert program.main(["convert", "--strict", str(path)]) == 0

    out, err = capsys.readouterr()
    assert "protocol: OpenInference" in out
    assert "changed" in err


def test_settings_that_a_server_reads_are_not_replaced(tmp_path, capsys):
    path = tmp_path / "detector" / "config.pbtxt"
    path.parent.mkdir()
    path.write_text('backend: "python"')

    assert program.main(["convert", "--in-place", str(path)]) == 2
    assert program.main(["convert", str(path), "--uri", "pvc://models/detector"]) == 0

    assert path.read_text() == 'backend: "python"'
    out, err = capsys.readouterr()
    assert "which the model server reads" in err
    assert "metadata: {name: detector}" in out
    assert "pvc://models/detector" in out


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["convert", "--in-place", "-"], 2, "--in-place cannot be combined"),
        (["convert", "missing.yaml"], 1, "missing.yaml cannot be read"),
    ],
)
def test_convert_refuses_what_it_cannot_do(arguments, status, sentence, capsys):
    assert program.main(arguments) == status

    assert sentence in capsys.readouterr().err


def test_convert_reads_standard_input_and_refuses_invalid_yaml(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a: ["))

    assert program.main(["convert", "-"]) == 1

    assert "-: is not valid YAML: line 1" in capsys.readouterr().err


class EditedCluster(FakeCluster):
    """A cluster whose model has a canary, and in which others edit the model meanwhile."""

    def __init__(self, conflicts=0, *, candidates=("new",), follow=()):
        super().__init__()
        self.patches, self.conflicts = [], conflicts
        self.candidates, self.reads, self.followed = candidates, 0, follow

    def model(self, namespace, name):
        found = super().model(namespace, name)
        at = min(self.reads, len(self.candidates) - 1)
        self.reads += 1
        revisions = {"candidate": self.candidates[at], "current": "new", "lastGood": "old"}
        rollout = {"strategy": "Canary", "canary": {"steps": [{"weight": 10}]}}
        return {
            **found,
            "metadata": {**found["metadata"], "resourceVersion": str(self.reads)},
            "spec": {"route": {"parentRefs": [{"name": "web"}]}, "rollout": rollout},
            "status": {**found["status"], "revisions": revisions, "runtime": {}},
        }

    def patch(self, namespace, name, patch):
        assert (namespace, name) == ("models", "iris")
        self.patches.append(patch)
        if len(self.patches) <= self.conflicts:
            raise Conflict("inferencemodel models/iris: the object has been modified")

    def revisions(self, namespace, selector):
        assert (namespace, selector) == ("models", "moorage.dev/model=iris")
        spec = json.dumps({"version": 1, "spec": {"model": {"uri": "pvc://a/b"}}})
        labels = {"moorage.dev/revision": "old"}
        return [{"metadata": {"labels": labels, "annotations": {"moorage.dev/spec": spec}}}]

    def follow(self, namespace, name, seconds):
        assert (namespace, name, seconds) == ("models", "iris", 7.0)
        yield from self.followed


def test_an_edit_is_decided_again_if_the_model_has_changed(run):
    cluster = EditedCluster(conflicts=2)

    code, out, err = run(cluster, "promote", "iris")

    assert (code, err) == (0, "")
    assert "revision new is promoted" in out
    assert [each["metadata"]["resourceVersion"] for each in cluster.patches] == ["1", "2", "3"]
    assert {each["spec"]["rollout"]["promote"] for each in cluster.patches} == {"new"}


def test_a_repeated_edit_never_names_another_revision(run):
    cluster = EditedCluster(conflicts=1, candidates=("new", "newer"))

    code, out, err = run(cluster, "abort", "iris")

    assert (code, out, len(cluster.patches)) == (1, "", 1)
    assert "revision new is not rolled out: the candidate is newer" in err


def test_an_edit_gives_up_after_some_conflicts(run):
    code, _, err = run(EditedCluster(conflicts=99), "pause", "iris")

    assert code == 1
    assert "has been modified" in err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["restart", "iris"], "rollout"),
        (["pause", "iris"], "paused"),
        (["abort", "iris", "new"], "rollout"),
        (["promote", "iris", "new/1", "-o", "json"], "rollout"),
    ],
)
def test_each_verb_patches_one_field(run, arguments, field):
    cluster = EditedCluster()

    assert run(cluster, *arguments)[0] == 0

    (patch,) = cluster.patches
    assert list(patch["spec"]) == [field]


def test_a_model_that_is_not_paused_is_not_patched(run):
    cluster = EditedCluster()

    code, out, _ = run(cluster, "resume", "iris")

    assert (code, out, cluster.patches) == (0, "iris: is not paused\n", [])


def test_a_rollback_can_be_printed_without_a_change(run):
    cluster = EditedCluster()

    code, out, _ = run(cluster, "rollback", "iris", "--dry-run")
    assert (code, cluster.patches) == (0, [])
    printed = json.loads(out)
    assert run(EditedCluster(), "rollback", "iris")[0] == 0
    assert run(cluster, "rollback", "iris")[0] == 0

    assert [each["path"] for each in printed] == ["/metadata/resourceVersion", "/spec/model"]
    (patch,) = cluster.patches
    assert patch[1:] == printed[1:]


def waited(*conditions):
    items = [
        {"type": type_, "status": status, "reason": reason, "observedGeneration": 1,
         "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_, status, reason in conditions
    ]  # fmt: skip
    return {**MODEL, "status": {**MODEL["status"], "conditions": items}}


ROLLING = waited(("Ready", "True", "ServingPreviousRevision"), ("UpToDate", "False", "RollingOut"))
BROKEN = waited(
    ("ModelReady", "False", "ModelLoadFailed"),
    ("Ready", "False", "ModelLoadFailed"),
    ("UpToDate", "False", "RollingOut"),
    ("Stalled", "True", "ModelLoadFailed"),
)
BACK = waited(("Ready", "True", "ServingPreviousRevision"), ("UpToDate", "False", "RolledBack"))
DONE = waited(("Ready", "True", "Serving"), ("UpToDate", "True", "RolloutComplete"))


@pytest.mark.parametrize(
    ("follow", "expected", "fact"),
    [
        ((ROLLING, DONE, BACK), 0, "is ready: Serving"),
        ((ROLLING, BACK, DONE), 3, "RolledBack"),
        ((BROKEN, DONE), 3, "Cause: ModelLoadFailed"),
        ((ROLLING,), 1, "not up to date and ready within 7 seconds"),
    ],
)
def test_wait_ends_with_the_outcome_of_the_rollout(run, follow, expected, fact):
    code, out, err = run(EditedCluster(follow=follow), "wait", "iris", "--timeout", "7")

    assert (code, err) == (expected, "")
    assert fact in out


@pytest.mark.parametrize(
    ("follow", "expected", "lines", "fact"),
    [
        ((ROLLING, ROLLING, DONE), 0, ["RollingOut:", "Serving:"], ""),
        ((ROLLING, BACK, DONE), 3, ["RollingOut:", "RolledBack:"], "Note: RolledBack"),
        ((ROLLING,), 1, ["RollingOut:"], "not up to date and ready within 7 seconds"),
    ],
)
def test_a_rollout_has_a_line_for_each_change_and_the_exit_status_of_wait(
    run, follow, expected, lines, fact
):
    options = ("rollout", "iris", "--watch", "--timeout", "7")

    code, out, err = run(EditedCluster(follow=follow), *options)

    changes, _, end = out.partition("\n\n")
    assert (code, err) == (expected, "")
    assert changes.splitlines() == [f"iris: {each}" for each in lines]
    assert fact in end


def test_a_rollout_as_json_has_a_document_for_each_change(run):
    cluster = EditedCluster(follow=(ROLLING, ROLLING, BACK, DONE))

    code, out, _ = run(cluster, "rollout", "iris", "--watch", "--timeout", "7", "-o", "json")

    documents, decoder = [], json.JSONDecoder()
    while out.strip():
        document, end = decoder.raw_decode(out.lstrip())
        documents.append(document["outcome"])
        out = out.lstrip()[end:]
    assert (code, documents) == (3, ["pending", "failed"])


def test_a_rollout_without_watch_prints_the_tree_with_the_kept_revisions(run):
    code, out, _ = run(EditedCluster(), "rollout", "iris")

    assert code == 1
    assert [line.split()[1:3] for line in out.splitlines() if "─" in line] == [
        ["new", "candidate"], ["old", "last"]
    ]  # fmt: skip


def test_logs_have_the_name_of_the_pod_before_each_line_and_no_control_characters(run):
    code, out, err = run(FakeCluster(), "logs", "iris")

    assert (code, err) == (0, "")
    assert out == "iris-a | one\N{REPLACEMENT CHARACTER}[2J\niris-a | two\n"
    assert run(FakeCluster(), "logs", "iris", "--previous")[1].startswith("iris-a | previous\n")


def test_logs_that_cannot_be_read_are_status_1_with_the_reason(run):
    code, out, err = run(FakeCluster(problem="the container has not started"), "logs", "iris")

    assert (code, out) == (1, "")
    assert err == "moorage: the container has not started\n"


def test_logs_of_a_revision_without_pods_name_the_revision(run):
    code, _, err = run(FakeCluster(), "logs", "iris", "--revision", "old")

    assert code == 1
    assert "there are no pods of revision old" in err


def test_the_log_of_an_unknown_container_is_refused_with_those_of_the_pods(run):
    code, out, err = run(FakeCluster(), "logs", "iris", "--container", "fech")

    assert (code, out) == (1, "")
    assert "--container: the pods have no container 'fech': must be one of runtime" in err


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
    assert out == (
        "iris: is deleted; claims and the files in them stay\n"
        "rose: is deleted; claims and the files in them stay\n"
    )
    assert err == "moorage: inferencemodel models/lily: not found\n"
    assert FakeObjects.deleted == [("models", "iris"), ("models", "rose")]
    assert run(several, "delete", "iris", "rose", "--yes")[0] == 0


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
