"""The commands against a cluster that is a list of objects, and real sockets."""

import contextlib
import http.server
import json
import socket
import threading

import pytest

from moorage_cli import __main__ as program
from moorage_cli.failures import Failure
from moorage_cli.port_forward import PortForward

MODEL = {
    "metadata": {"name": "iris", "namespace": "models", "generation": 1},
    "spec": {},
    "status": {
        "observedGeneration": 1,
        "selector": "moorage.dev/model=iris",
        "protocol": {"detected": "OpenInference"},
        "endpoints": [{"url": "http://iris.models.svc:8000"}],
        "conditions": [
            {"type": "Accepted", "status": "True", "observedGeneration": 1},
            {"type": "Ready", "status": "True", "reason": "Serving", "observedGeneration": 1},
        ],
    },
}
DOCUMENT = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}


class Server(http.server.BaseHTTPRequestHandler):
    """Plays a model server: metrics, and an answer to an inference request."""

    def do_GET(self):
        self._answer(b'moorage_inferences_total{model="iris",outcome="ok",version="1"} 7\n')

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer(json.dumps({"path": self.path, "asked": asked}).encode())

    def _answer(self, body):
        self.send_response(200)
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


class FakeCluster:
    """A cluster of one model with one pod, whose port is the server's."""

    namespace = "models"

    def __init__(self, port=0, *, problem="", ready="True", metrics=True):
        self.port, self.problem, self.ready, self.metrics = port, problem, ready, metrics

    def models(self, namespace):
        return [MODEL] if namespace in (None, "models") else []

    def model(self, namespace, name):
        if (namespace, name) != ("models", "iris"):
            raise Failure(f"inferencemodel {namespace}/{name}: not found")
        return MODEL

    def changes(self, namespace, name):
        del namespace, name
        yield from (MODEL, MODEL, {**MODEL, "status": {}})
        raise KeyboardInterrupt

    def events(self, namespace, names):
        assert (namespace, names) == ("models", ["iris"])
        return []

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

    def _connect(self):
        if self.problem:
            raise ConnectionError(self.problem)
        return socket.create_connection(("127.0.0.1", self.port), 5), lambda: ""


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command line against a fake cluster: the status, what it printed, what it said."""

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


def test_what_does_not_exist_is_told_with_status_1(run):
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
        ["completion", "fish"],
        ["nope"],
        [],
    ],
)
def test_wrong_usage_is_status_2(run, arguments):
    code, out, err = run(FakeCluster(), *arguments)

    assert (code, out) == (2, "")
    assert err


def test_a_watch_shows_each_change_once_until_it_is_interrupted(run):
    code, out, _ = run(FakeCluster(), "status", "--watch")

    assert code == 130
    assert len([line for line in out.splitlines() if line.startswith("iris")]) == 2


def test_why_asks_for_the_models_events(run):
    code, out, _ = run(FakeCluster(), "why", "iris")

    assert code == 0
    assert out.startswith("models/iris is ready: Serving")


def test_infer_goes_through_the_forwarded_port(run, port, tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    code, out, err = run(FakeCluster(port), "infer", "iris", "-f", str(request))

    assert (code, err) == (0, "")
    assert json.loads(out) == {"path": "/v2/models/iris/infer", "asked": DOCUMENT}


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (FakeCluster(problem="pods/portforward is forbidden"), "pods/portforward is forbidden"),
        (FakeCluster(ready="False"), "none of its 1 pods is ready; see moorage why iris"),
    ],
)
def test_a_failure_on_the_way_has_its_own_words(run, tmp_path, cluster, sentence):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(DOCUMENT))
    code, _, err = run(cluster, "infer", "iris", "-f", str(request))

    assert code == 1
    assert sentence in err


def test_a_file_that_is_not_there_is_told(run, tmp_path):
    missing = str(tmp_path / "missing")

    for arguments in (["lint", missing], ["infer", "iris", "-f", missing]):
        code, _, err = run(FakeCluster(), *arguments)
        assert code == 1
        assert f"{missing}: cannot be read" in err


@pytest.mark.parametrize("metrics", [True, False])
def test_top_has_what_it_can_get(run, port, metrics):
    code, out, _ = run(FakeCluster(port, metrics=metrics), "top")

    row = out.splitlines()[1].split()
    assert code == 0
    assert row == ["iris", "iris-a", *(["250m", "64Mi"] if metrics else ["-", "-"]), "7", "0", "-"]
    assert ("metrics.k8s.io" in out) is not metrics


def test_conformance_asks_a_server_over_http(run, port):
    code, out, _ = run(FakeCluster(), "conformance", f"127.0.0.1:{port}", "-o", "json")

    assert code == 1  # it answers every GET with 200
    assert json.loads(out)["spoken"] == []


def test_colours_are_for_terminals_that_want_them(run, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in run(FakeCluster(), "status")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b[32mTrue" in run(FakeCluster(), "status")[1]
    assert "\x1b" not in run(FakeCluster(), "status", "-o", "json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(FakeCluster(), "status")[1]


def test_as_a_plugin_it_speaks_of_itself_as_kubectl_does(run, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-moorage"])

    assert run(FakeCluster(), "status", "rose")[2].startswith("kubectl moorage: ")


def test_a_forwarded_port_carries_bytes_both_ways_and_closes():
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
