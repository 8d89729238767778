"""What each kind of cluster tells helm and kubectl, and what it refuses."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from pathlib import Path

import pytest

import clusters
from choice import DemoError
from clusters import LocalCluster
from docker_clusters import CurrentContext, Kind
from images import Image
from progress import Progress, Tasks

ROOT = Path(__file__).resolve().parents[3]
RUNTIME = Image("runtime", "localhost/moorage-runtime", "0.1.0-bbb")


class Recorded(Tasks):
    """Tasks that are only written down."""

    def __init__(self):
        super().__init__()
        self.needs = {}

    def add(self, name, _work, after=()):
        assert set(after) <= set(self.needs), f"{name} needs {after}"
        self.needs[name] = set(after)

    def before(self, name):
        """Everything that has to be done before a task starts."""
        direct = self.needs[name]
        return direct.union(*(self.before(one) for one in direct))


@pytest.fixture
def local(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters.os, "geteuid", lambda: 0)
    return LocalCluster(ROOT, tmp_path, Progress(tmp_path / "logs"))


def test_compiling_and_building_images_overlap_and_loading_needs_both(local):
    tasks = Recorded()
    local.prepare(tasks, [RUNTIME])

    assert tasks.before("runtime") == {"packages", "base-image"}
    assert tasks.before("up") == {"packages", "binaries"}
    assert tasks.before("load-runtime") == {"packages", "binaries", "base-image", "up", "runtime"}


def test_an_image_of_this_very_tree_is_not_built_again(local, tmp_path):
    (tmp_path / RUNTIME.archive).write_bytes(b"")
    tasks = Recorded()
    local.prepare(tasks, [RUNTIME])

    assert "runtime" not in tasks.needs
    assert "base-image" not in tasks.needs
    assert tasks.before("load-runtime") == {"packages", "binaries", "up"}


def test_without_root_the_local_cluster_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters.os, "geteuid", lambda: 1000)
    local = LocalCluster(ROOT, tmp_path, Progress(tmp_path / "logs"))

    with pytest.raises(DemoError, match=r"needs root: run `sudo make demo`, or set CLUSTER=kind"):
        local.prepare(Recorded(), [RUNTIME])


def test_the_local_clusters_environment_is_what_its_program_prints(local, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    printed = subprocess.run(
        [
            "sh",
            "-c",
            f'eval "$({ROOT}/localcluster/cluster env)"; echo "$KUBECONFIG"; echo "$PATH"',
        ],
        env={"PATH": f"{Path(clusters.sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    env = local.environment()

    assert env["KUBECONFIG"] == printed[0] == local.kubeconfig()
    assert env["PATH"].split(":")[0] == printed[1].split(":")[0]
    assert env["PATH"].endswith(":/usr/bin:/bin")


def test_kind_has_a_kubeconfig_of_the_demos_own(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/home/user/.kube/config")
    kind = Kind(ROOT, tmp_path, Progress(tmp_path / "logs"))
    assert kind.environment()["KUBECONFIG"] == kind.kubeconfig() == str(tmp_path / "kubeconfig")


def test_a_cluster_of_the_users_gets_images_by_the_registry_that_is_named(tmp_path, monkeypatch):
    current = CurrentContext(ROOT, tmp_path, Progress(tmp_path / "logs"))

    monkeypatch.setenv("IMAGE_PREFIX", "registry.example.com/team")
    assert current.registry() == "registry.example.com/team"

    monkeypatch.delenv("IMAGE_PREFIX")
    with pytest.raises(DemoError, match="CLUSTER=current needs IMAGE_PREFIX, a registry path"):
        current.registry()


class Metadata(BaseHTTPRequestHandler):
    """Answers every path like a model `digits`, after some answers of another machine."""

    answers: Iterator[bytes]

    def do_GET(self):
        body = next(self.answers)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        pass


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., str]]:
    """Starts a server that gives these answers on the port of a model server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(clusters, "HTTP_PORT", server.server_port)

        def start(*answers: bytes) -> str:
            monkeypatch.setattr(Metadata, "answers", chain(answers, repeat(answers[-1])), False)
            return "127.0.0.1"

        yield start
        server.shutdown()


def test_the_answers_of_another_machine_are_not_taken_for_the_models(serve, monkeypatch):
    # the proxy of the environment could not reach the cluster either
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    host = serve(b"<html>", b"[]", b'{"name": "other"}', b'{"name": "digits"}')

    clusters._wait_for_model(host, "digits")

    monkeypatch.setattr(clusters, "ROUTE_SECONDS", 0)
    with pytest.raises(DemoError, match=r"does not answer with the model's metadata: .*digits"):
        clusters._wait_for_model(host, "iris")


def test_a_service_that_refuses_is_named_after_a_while(monkeypatch):
    monkeypatch.setattr(clusters, "ROUTE_SECONDS", 0)
    monkeypatch.setattr(clusters, "HTTP_PORT", 1)
    with pytest.raises(DemoError, match=r"http://127\.0\.0\.1:1/v2/models/digits .* refused"):
        clusters._wait_for_model("127.0.0.1", "digits")
