"""A cluster of one model for the commands of moorage, and a model server on a real socket."""

import http.server
import json
import socket

from moorage_cli.ask.cluster import Conflict
from moorage_cli.ask.port_forward import PortForward
from moorage_cli.printing.failures import Failure

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
    place = "test, https://cluster.example"
    found_events = ()
    node = "node-1"

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
        yield "ALL", [MODEL]
        yield "PUT", MODEL
        yield "PUT", {**MODEL, "status": {}}
        yield "DELETED", MODEL
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
                "spec": {
                    "nodeName": self.node,
                    "containers": [{"name": "runtime", "ports": ports}],
                },
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
