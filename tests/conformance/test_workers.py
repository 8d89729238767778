"""Several worker processes behave like one server, over the wire and from outside the process."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from support import vectors
from support.runtime import Runtime, running, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

WORKERS = 2
SECONDS = 30
# Each request has its own connection, so that many reach every worker.
MANY = 40
ECHO = """\
from moorage_runtime.backends.python import PythonModel


class Echo(PythonModel):
    inputs = [("x", "FP32", [1])]
    outputs = [("pid", "INT64", [1])]

    def predict(self, inputs, request):
        import os

        return {"pid": [os.getpid()]}
"""
# All workers except the first wait for a file.
SLOW_IN_ALL_BUT_ONE = """\
import pathlib
import time

from moorage_runtime.backends.python import PythonModel


class Slow(PythonModel):
    inputs = [("x", "FP32", [1])]
    outputs = [("x", "FP32", [1])]

    def load(self, context):
        folder = pathlib.Path(context.parameters["folder"])
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            while not (folder / "go").exists():
                time.sleep(0.05)
        else:
            (folder / "loaded").touch()

    def predict(self, inputs, request):
        return {"x": inputs["x"]}
"""
INPUT = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}


def write_model(root: Path, name: str, code: str, config: str = "") -> None:
    (root / name).mkdir(parents=True)
    (root / name / "model.py").write_text(code)
    (root / name / "model.yaml").write_text(config)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("models")
    write_model(root, "echo", ECHO)
    return root


@contextlib.contextmanager
def workers(repository: Path) -> Iterator[Runtime]:
    control = ("--repository-control=true", "--grps-traffic-control=true")
    options = (f"--workers={WORKERS}", *control, "--drain-seconds=0")
    with serving(repository, *options) as started:
        yield started


@pytest.fixture(scope="module")
def shared(repository):
    """For tests that do not change it."""
    with workers(repository) as started:
        yield started


@pytest.fixture
def runtime(repository):
    """For tests that end some of its processes."""
    with workers(repository) as started:
        yield started


def ask(runtime: Runtime, method: str, path: str, body: dict | None = None) -> tuple[int, str]:
    """Status and text over a new connection, much faster than with an httpx client."""
    connection = http.client.HTTPConnection(runtime.http, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, json.dumps(body or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def post(runtime: Runtime, path: str) -> int:
    return ask(runtime, "POST", path)[0]


def children(runtime: Runtime) -> set[int]:
    """The workers' processes."""
    pid = runtime.process.pid
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def answers(runtime: Runtime, count: int = MANY) -> set[int]:
    """The workers that answered this many requests."""
    pids: set[int] = set()
    for _ in range(count):
        status, text = ask(runtime, "POST", "/v2/models/echo/infer", INPUT)
        assert status == 200, text
        pids.add(json.loads(text)["outputs"][0]["data"][0])
    return pids


def statuses(runtime: Runtime, path: str) -> set[int]:
    return {ask(runtime, "GET", path)[0] for _ in range(MANY)}


def counted(runtime: Runtime) -> float:
    found = re.search(
        r'moorage_inferences_total{model="echo",outcome="ok",version="1"} (\S+)',
        ask(runtime, "GET", "/metrics")[1],
    )
    return float(found[1]) if found else 0.0


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_every_worker_answers_on_both_ports(shared):
    assert answers(shared) == children(shared)

    for _ in range(10):
        with grpc.insecure_channel(shared.grpc) as channel:
            live = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
            assert live(b"", timeout=10) == b"\x08\x01"


def test_metrics_and_the_page_cover_all_workers(shared):
    before = counted(shared)
    answers(shared)

    assert {counted(shared) for _ in range(10)} == {before + MANY}
    for _ in range(10):
        assert f">{before + MANY:.0f}<" in ask(shared, "GET", "/")[1]


def test_a_model_is_ready_when_every_worker_has_it(tmp_path):
    write_model(
        tmp_path / "models", "slow", SLOW_IN_ALL_BUT_ONE, f"parameters: {{folder: {tmp_path}}}\n"
    )
    with running(f"--model-repository={tmp_path / 'models'}", "--workers=2") as runtime:
        eventually(
            "one worker has loaded it", (tmp_path / "loaded").exists, lambda is_it: is_it, SECONDS
        )
        paths = ("/v2/models/slow/ready", "/v2/health/ready")
        assert [statuses(runtime, path) for path in paths] == [{503}, {503}]

        (tmp_path / "go").touch()

        for path in paths:
            eventually(
                f"{path} is 200",
                lambda path=path: ask(runtime, "GET", path)[0],
                lambda status: status == 200,
                SECONDS,
            )
            assert statuses(runtime, path) == {200}


def test_loading_and_unloading_reach_every_worker(shared, repository):
    runtime = shared
    assert post(runtime, "/v2/repository/models/echo/unload") == 200
    assert statuses(runtime, "/v2/models/echo/ready") == {503}

    assert post(runtime, "/v2/repository/models/echo/load") == 200
    assert statuses(runtime, "/v2/models/echo/ready") == {200}

    write_model(repository, "another", ECHO)
    assert post(runtime, "/v2/repository/models/another/load") == 200
    assert statuses(runtime, "/v2/models/another/ready") == {200}

    status, text = ask(runtime, "POST", "/v2/repository/models/unknown/load")
    assert (status, "unknown" in text) == (404, True)


def test_the_traffic_switch_applies_to_the_whole_server(shared):
    runtime = shared
    assert ask(runtime, "GET", "/grps/v1/health/offline")[0] == 200
    assert statuses(runtime, "/v2/health/ready") == {503}

    assert ask(runtime, "GET", "/grps/v1/health/online")[0] == 200
    assert statuses(runtime, "/v2/health/ready") == {200}


def test_a_killed_worker_is_replaced_while_others_serve(runtime):
    answers(runtime)
    assert counted(runtime) == MANY
    before = children(runtime)
    killed = min(before)

    os.kill(killed, signal.SIGKILL)
    eventually("the process is gone", lambda: has_ended(killed), lambda is_it: is_it, SECONDS)

    assert killed not in answers(runtime)
    assert statuses(runtime, "/v2/health/ready") == {200}
    assert counted(runtime) == 2 * MANY
    after = eventually(
        "the new one answers as well",
        lambda: answers(runtime),
        lambda pids: len(pids) == WORKERS,
        SECONDS,
    )
    assert after == children(runtime)
    assert killed not in after
    assert "ended with status -9 and restarts in 0.5 s" in runtime.log


def test_a_replacement_worker_has_the_changes_of_clients(runtime):
    post(runtime, "/v2/repository/models/echo/unload")
    ask(runtime, "GET", "/grps/v1/health/offline")
    before = children(runtime)

    os.kill(min(before), signal.SIGKILL)
    listening = runtime.log.count("listening on HTTP port")
    eventually(
        "the new one listens",
        lambda: runtime.log.count("listening on HTTP port"),
        lambda count: count > listening,
        SECONDS,
    )

    assert statuses(runtime, "/v2/models/echo/ready") == {503}
    assert statuses(runtime, "/v2/health/ready") == {503}


def test_a_signal_ends_all_processes(runtime):
    processes = children(runtime)

    assert runtime.terminate() == 0

    assert all(map(has_ended, processes))


def test_workers_end_with_a_killed_supervisor(runtime):
    processes = children(runtime)

    runtime.process.kill()

    eventually(
        "no worker is left", lambda: all(map(has_ended, processes)), lambda is_it: is_it, SECONDS
    )


def test_a_failing_worker_start_ends_the_command(repository, tmp_path):
    empty = tmp_path / "token"
    empty.write_text("\n")

    options = (f"--model-repository={repository}", "--workers=2", f"--token-file={empty}")

    with (
        pytest.raises(AssertionError, match=r"the runtime ended: (.|\n)*token"),
        running(*options),
    ):
        pass


def test_a_port_of_another_server_is_refused(repository):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = (f"--model-repository={repository}", "--workers=2", f"--http-port={port}")
        with (
            pytest.raises(AssertionError, match=f"http_port {port} cannot be opened"),
            running(*options),
        ):
            pass


def test_workers_support_the_same_protocols(fixtures):
    found = [vector for vector in vectors.load() if vector.set == "main"]
    with serving(
        vectors.ROOT / "build" / "fixtures", "--workers=2", "--grps-traffic-control=true"
    ) as runtime:
        for vector in found:
            if vector.needs_offline:
                assert vectors.get(runtime.http, "/grps/v1/health/offline") == 200
            vectors.check(vector, runtime.http, runtime.grpc)
            assert vectors.get(runtime.http, "/grps/v1/health/online") == 200

    assert len(found) > MANY
