"""Every entry point of a Python model: exceptions, exits, hangs and crashes.

Whatever the model's own code does, the request gets an error, the server keeps running, and the
model's slots are free again.
"""

import concurrent.futures
import os
import re
import signal
import socket
import time
from pathlib import Path

import grpc
import httpx
import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.python.process import IsolatedModel
from moorage_runtime.codec._generated import oip_pb2
from support.runtime import Runtime, running, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

KINDS = [
    "SystemExit(3)",
    "KeyboardInterrupt()",
    "GeneratorExit()",
    "StopIteration()",
    "StopAsyncIteration()",
    "asyncio.CancelledError()",
    "RecursionError()",
    "MemoryError()",
    "TimeoutError()",
    "Unprintable()",
    "BaseException('base')",
]
ISOLATIONS = ["none", "process"]
MODEL = """\
import asyncio
import os
import pathlib
import time

from moorage_runtime.backends.python import PythonModel
from moorage_runtime.inference import HttpReply


class Unprintable(Exception):
    def __str__(self):
        raise SystemExit


def act(inputs):
    what = inputs["what"].reshape(-1)[0].decode()
    if what.startswith("raise "):
        raise eval(what.removeprefix("raise "))
    if what == "abort":
        os.abort()
    if what == "exit":
        os._exit(7)
    if what == "hang":
        while True:
            time.sleep(0.01)


class Model(PythonModel):
    inputs = [("what", "BYTES", [-1])]
    outputs = [("y", "BYTES", [-1])]
    http_path = "/act-NAME"

    def load(self, context):
        self.folder = context.folder

    def predict(self, inputs, request):
        act(inputs)
        return {"y": inputs["what"]}

    def http(self, call):
        what = call.query["what"]
        if what.startswith("part "):
            return HttpReply(self.parts(what.removeprefix("part ")))
        act({"what": __import__("numpy").array([what.encode()], object)})
        return HttpReply(b"fine")

    def parts(self, what):
        try:
            yield b"first "
            if what == "slow":
                for _ in range(1000):
                    time.sleep(0.01)
                    (self.folder / "running").write_text("")
                    yield b"x"
            act({"what": __import__("numpy").array([what.encode()], object)})
        finally:
            (self.folder / "closed").write_text("")
"""
STREAMING = """

    def stream(self, inputs, request):
        yield {"y": inputs["what"]}
        act(inputs)
        yield {"y": inputs["what"]}
"""


def write(root: Path, name: str, config: str, source: str = MODEL) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "model.py").write_text(source.replace("NAME", name))
    (root / name / "model.yaml").write_text(config)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    isolated = "python: {isolation: process, timeout_seconds: 1}\n"
    for name, config in (("none", ""), ("process", isolated)):
        write(folder, name, config)
        write(folder, f"{name}-merged", config + "batching: {enabled: true}\n")
        write(folder, f"{name}-stream", config, MODEL + STREAMING)
    write(folder, "timed", "timeout_seconds: 0.2\n")
    return folder


@pytest.fixture(scope="module")
def runtime(root):
    with serving(root, "--threads=2", "--max-inflight-bytes=1000000") as started:
        yield started


def infer(runtime: Runtime, model: str, what: str = "fine") -> httpx.Response:
    tensor = {"name": "what", "datatype": "BYTES", "shape": [1], "data": [what]}
    return runtime.post(f"/v2/models/{model}/infer", json={"inputs": [tensor]})


def works(runtime: Runtime, model: str) -> None:
    """Twice as many requests as the model has threads are answered."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: infer(runtime, model), range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4, answers[0].text
    assert runtime.process.poll() is None


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_predict_raises(runtime, isolation, kind):
    answer = infer(runtime, isolation, f"raise {kind}")

    assert answer.status_code == 500
    assert kind.split("(")[0].rpartition(".")[2] in answer.json()["error"]
    works(runtime, isolation)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_merged_run_raises(runtime, isolation, kind):
    model = f"{isolation}-merged"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: infer(runtime, model, f"raise {kind}"), range(8)))

    assert [answer.status_code for answer in answers] == [500] * 8
    works(runtime, model)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["", "part "])
def test_http_raises(runtime, isolation, kind, part):
    path = f"/act-{isolation}"
    if part:
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://{runtime.http}{path}", params={"what": f"part raise {kind}"})
    else:
        answer = httpx.get(f"http://{runtime.http}{path}", params={"what": f"raise {kind}"})
        assert answer.status_code == 500

    fine = httpx.get(f"http://{runtime.http}{path}", params={"what": "fine"})
    assert fine.text == "fine"
    works(runtime, isolation)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_stream_raises(runtime, isolation, kind):
    model = f"{isolation}-stream"

    answer = infer(runtime, model, f"raise {kind}")

    assert answer.status_code == 500
    works(runtime, model)


HEAD = """\
import asyncio

from moorage_runtime.backends.python import PythonModel


class Unprintable(Exception):
    def __str__(self):
        raise SystemExit


"""
BROKEN = {
    "import": "raise KIND\n",
    "class": "class Model(PythonModel):\n    def __init__(self):\n        raise KIND\n",
    "load": "class Model(PythonModel):\n    def load(self, context):\n        raise KIND\n",
    "metadata": "class Odd:\n    def __iter__(self):\n        raise KIND\n\n\n"
    "class Model(PythonModel):\n    inputs = Odd()\n",
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A server with models that fail to load or close, and a working one."""
    root = tmp_path_factory.mktemp("broken")
    for number, kind in enumerate(KINDS):
        for place, body in BROKEN.items():
            for isolation in ISOLATIONS:
                config = f"python: {{isolation: {isolation}}}\n"
                source = HEAD + body.replace("KIND", kind)
                write(root, f"{place}-{number}-{isolation}", config, source)
        write(
            root, f"close-{number}", "", MODEL + f"\n    def close(self):\n        raise {kind}\n"
        )
    write(root, "good", "")
    with running(f"--model-repository={root}", "--repository-control=true") as runtime:
        yield runtime


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("place", BROKEN)
@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
def test_loading_raises(broken, number, place, isolation):
    model = f"{place}-{number}-{isolation}"
    eventually(
        "the load has failed",
        lambda: broken.post("/v2/repository/index", json={}).json(),
        lambda found: [m["state"] for m in found if m["name"] == model] == ["UNAVAILABLE"],
        60,
    )
    index = broken.post("/v2/repository/index", json={}).json()
    (reason,) = [m["reason"] for m in index if m["name"] == model]

    assert KINDS[number].split("(")[0].rpartition(".")[2] in reason
    assert broken.get(f"/v2/models/{model}/ready").status_code == 503


def test_other_models_load_beside_broken_ones(broken):
    eventually(
        "the good model is ready",
        lambda: broken.get("/v2/models/good/ready").status_code,
        lambda status: status == 200,
        60,
    )
    works(broken, "good")


@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
def test_close_raises(broken, number):
    model = f"close-{number}"
    eventually(
        "the model is ready",
        lambda: broken.get(f"/v2/models/{model}/ready").status_code,
        lambda status: status == 200,
        60,
    )

    answer = broken.post(f"/v2/repository/models/{model}/unload", json={})

    assert answer.status_code == 200
    works(broken, "good")


@pytest.mark.parametrize(("what", "status"), [("abort", 500), ("exit", 500), ("hang", 504)])
def test_a_process_that_dies_or_hangs_is_replaced(runtime, what, status):
    before = runtime.process.pid

    answer = infer(runtime, "process", what)

    assert answer.status_code == status
    works(runtime, "none")
    eventually(
        "the model's process is back",
        lambda: infer(runtime, "process").status_code,
        lambda found: found == 200,
        20,
    )
    works(runtime, "process")
    assert runtime.process.pid == before


def test_readiness_says_that_a_process_restarts(runtime):
    # after the second crash within a minute, the delay is long enough for the checks
    for _ in range(2):
        eventually(
            "the model answers",
            lambda: infer(runtime, "process").status_code,
            lambda found: found == 200,
            30,
        )
        infer(runtime, "process", "abort")
        answer = eventually(
            "the model is not ready",
            lambda: runtime.get("/v2/models/process/ready").status_code,
            lambda found: found == 503,
            10,
        )
        assert answer == 503
        # the others still serve
        assert runtime.get("/v2/health/ready").status_code == 200
        assert runtime.get("/v2/health/live").status_code == 200
        refused = infer(runtime, "process")
        assert refused.status_code in (500, 503)

    eventually(
        "the model is ready again",
        lambda: runtime.get("/v2/models/process/ready").status_code,
        lambda found: found == 200,
        60,
    )


SLOW = """\
import os
import pathlib
import time

from moorage_runtime.backends.python import PythonModel


class Model(PythonModel):
    def load(self, context):
        (context.folder / f"{os.getpid()}.pid").touch()
        while (context.folder / "wait").exists():
            time.sleep(0.01)

    def predict(self, inputs, request):
        return inputs
"""


def test_a_process_that_restarts_ends_with_its_model(tmp_path):
    (tmp_path / "model.py").write_text(SLOW)
    model = IsolatedModel(ModelSource("slow", "1", tmp_path / "model.py"))
    (first,) = pids(tmp_path)
    (tmp_path / "wait").touch()
    os.kill(first, signal.SIGKILL)
    (second,) = eventually("it restarts", lambda: pids(tmp_path) - {first}, bool, 20)

    model.close()

    place = Path(f"/proc/{second}")
    eventually("the process ends", place.exists, lambda found: not found, 20)


def pids(folder: Path) -> set[int]:
    """The processes that have begun to load the model of a folder."""
    return {int(file.stem) for file in folder.glob("*.pid")}


@pytest.mark.parametrize("option", ["--workers=1", "--workers=2"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_model_in_the_current_folder_can_have_files_named_like_modules(
    tmp_path, isolation, option
):
    write(tmp_path, "here", f"python: {{isolation: {isolation}}}\n")
    (tmp_path / "here" / "logging.py").write_text("")
    there = ("env", "-C", str(tmp_path / "here"))
    with running("--model-repository=.", option, wrapper=there) as runtime:
        eventually(
            "the model is ready",
            lambda: runtime.get("/v2/models/here/ready").status_code,
            lambda status: status == 200,
            20,
        )
        assert infer(runtime, "here").status_code == 200


def test_a_model_that_changes_the_current_folder_keeps_the_repository(tmp_path):
    leaving = "    def load(self, context):\n        os.chdir('/')\n"
    write(tmp_path / "models", "leaving", "", MODEL + "\n" + leaving)
    there = ("env", "-C", str(tmp_path))
    options = ("--model-repository=models", "--poll-seconds=0.1")
    with running(*options, wrapper=there) as runtime:
        eventually(
            "the model is ready",
            lambda: runtime.get("/v2/models/leaving/ready").status_code,
            lambda status: status == 200,
            20,
        )
        write(tmp_path / "models", "added", "")
        eventually(
            "the added model is ready",
            lambda: runtime.get("/v2/models/added/ready").status_code,
            lambda status: status == 200,
            20,
        )


def test_a_server_ends_although_a_model_closes_the_standard_streams(tmp_path):
    closing = (
        "    def load(self, context):\n"
        "        import io, sys\n"
        "        for name in ('stdout', 'stderr'):\n"
        "            setattr(sys, name, io.StringIO())\n"
        "            getattr(sys, name).close()\n"
    )
    write(tmp_path, "closing", "", MODEL + "\n" + closing)
    with (
        serving(tmp_path, "--drain-seconds=0", "--shutdown-grace-seconds=0") as runtime,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(infer, runtime, "closing", "hang")
        eventually(
            "the request runs",
            lambda: runtime.get("/metrics").text,
            lambda text: re.search(r'in_flight{model="closing",version="1"} 1', text),
            10,
        )

        assert runtime.terminate() == 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_model_that_configures_logging_leaves_the_log_of_the_server(tmp_path, fails):
    configuring = (
        "    def load(self, context):\n"
        "        import logging.config\n"
        "        logging.config.dictConfig({'version': 1, 'root': {'level': 'ERROR'}})\n"
    )
    end = "        raise ValueError('bad weights')\n" if fails else ""
    write(tmp_path, "configuring", "", MODEL + "\n" + configuring + end)
    with running(f"--model-repository={tmp_path}", "--drain-seconds=0") as runtime:
        eventually(
            "the model is loaded or has failed",
            lambda: runtime.log,
            lambda log: ("in load\\n" if fails else "is ready after") in log,
            20,
        )
        if not fails:
            infer(runtime, "configuring", "raise ValueError('bad input')")
            assert "in predict" in runtime.log

        assert runtime.terminate() == 0
        assert "received SIGTERM" in runtime.log


FORKING = """\
import concurrent.futures
import multiprocessing
import os

from moorage_runtime.backends.python import PythonModel


class Model(PythonModel):
    inputs = [("what", "BYTES", [-1])]
    outputs = [("pid", "INT64", [-1])]
    executor = None

    def predict(self, inputs, request):
        what = inputs["what"][0]
        if what == b"pool":
            with multiprocessing.get_context("fork").Pool(1) as pool:
                return {"pid": [pool.apply(os.getpid)]}
        if what == b"exit":
            os._exit(7)
        if self.executor is None:
            context = multiprocessing.get_context("fork")
            self.executor = concurrent.futures.ProcessPoolExecutor(1, context)
        return {"pid": [self.executor.submit(os.getpid).result()]}
"""


def forked(runtime: Runtime, model: str, what: str) -> int:
    """The process that a model has forked for a request."""
    answer = infer(runtime, model, what)
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"][0]


def runs(pid: int) -> bool:
    """Whether a process still runs, rather than having ended or become a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_model_that_ends_its_own_processes_does_not_end_the_server(tmp_path, isolation):
    write(tmp_path, "forking", f"python: {{isolation: {isolation}}}\n", FORKING)
    with serving(tmp_path) as runtime:
        for _ in range(3):
            forked(runtime, "forking", "pool")

        assert runtime.get("/v2/health/ready").status_code == 200
        assert "received SIGTERM" not in runtime.log


def test_a_forked_process_keeps_neither_ports_nor_connections(tmp_path):
    write(tmp_path, "forking", "", FORKING)
    with serving(tmp_path) as runtime:
        address = ("127.0.0.1", runtime.http_port)
        with socket.create_connection(address, 10) as idle:
            # answered, so that the server has accepted the connection
            idle.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n")
            assert idle.recv(1000)
            pid = forked(runtime, "forking", "executor")
            runtime.process.kill()
            runtime.process.wait(10)
            try:
                assert runs(pid)
                idle.settimeout(10)
                assert idle.recv(1000) == b""
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(address, 10)
            finally:
                os.kill(pid, signal.SIGKILL)


def test_a_killed_worker_with_a_forked_process_is_replaced(tmp_path):
    write(tmp_path, "forking", "", FORKING)
    with serving(tmp_path, "--workers=2", "--drain-seconds=0") as runtime:
        pid = forked(runtime, "forking", "executor")
        worker = int(re.search(r"PPid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])

        os.kill(worker, signal.SIGKILL)

        try:
            eventually(
                "the worker restarts",
                lambda: runtime.log,
                lambda log: "ended with status -9 and restarts" in log,
                10,
            )
            assert runtime.terminate() == 0
        finally:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_processes_of_a_model_end_with_the_server(tmp_path, isolation):
    write(tmp_path, "forking", f"python: {{isolation: {isolation}}}\n", FORKING)
    with serving(tmp_path, "--drain-seconds=0") as runtime:
        pid = forked(runtime, "forking", "executor")

        assert runtime.terminate() == 0
        assert "restarting" not in runtime.log

    eventually("the process ends", lambda: runs(pid), lambda found: not found, 10)


def test_processes_of_a_model_end_with_its_process(tmp_path):
    write(tmp_path, "forking", "python: {isolation: process}\n", FORKING)
    with serving(tmp_path) as runtime:
        pid = forked(runtime, "forking", "executor")

        answer = infer(runtime, "forking", "exit")

        assert answer.status_code == 500
        assert "ended during the request" in answer.json()["error"]
        eventually("the process ends", lambda: runs(pid), lambda found: not found, 10)


def test_a_request_that_takes_too_long_gets_504(runtime):
    started = time.monotonic()

    answer = infer(runtime, "timed", "hang")

    assert answer.status_code == 504
    assert "within 0.2 s" in answer.json()["error"]
    assert time.monotonic() - started < 5


def test_requests_beyond_the_byte_budget_are_refused_at_once(tmp_path):
    write(tmp_path, "slow", "timeout_seconds: 3\n")
    write(tmp_path, "other", "")
    with (
        serving(tmp_path, "--threads=1", "--max-inflight-bytes=100000") as runtime,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        tensor = {"name": "what", "datatype": "BYTES", "shape": [2], "data": ["hang", "x" * 90000]}
        path = f"http://{runtime.http}/v2/models/slow/infer"
        # answered when the model's timeout expires
        pool.submit(httpx.post, path, json={"inputs": [tensor]}, timeout=30)
        eventually(
            "the first request runs",
            lambda: runtime.get("/metrics").text,
            lambda text: re.search(r'in_flight{model="slow",version="1"} 1', text),
            10,
        )

        refused = infer(runtime, "other", "y" * 20000)
        small = infer(runtime, "other", "y")

    assert refused.status_code == 503
    assert "100000" in refused.json()["error"]
    assert "--max-inflight-bytes" in refused.json()["error"]
    assert small.status_code == 200


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_client_that_leaves_ends_the_generator(runtime, root, isolation):
    folder = root / isolation
    (folder / "closed").unlink(missing_ok=True)
    with socket.create_connection(("127.0.0.1", runtime.http_port), 10) as connection:
        head = f"GET /act-{isolation}?what=part%20slow HTTP/1.1\r\nHost: h\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100)
        eventually("the generator runs", (folder / "running").exists, bool, 10)

    eventually("the generator is closed", (folder / "closed").exists, bool, 5)
    works(runtime, isolation)


def test_a_worker_that_hangs_is_replaced(tmp_path):
    write(tmp_path, "good", "")
    options = ("--workers=2", "--worker-timeout-seconds=4")
    with serving(tmp_path, *options) as runtime:
        children = Path(f"/proc/{runtime.process.pid}/task/{runtime.process.pid}/children")
        before = set(children.read_text().split())
        hung = int(min(before))
        os.kill(hung, signal.SIGSTOP)

        eventually(
            "the worker is replaced",
            lambda: set(children.read_text().split()),
            lambda found: len(found) == 2 and str(hung) not in found,
            30,
        )
        eventually(
            "the server is ready",
            lambda: runtime.get("/v2/health/ready").status_code,
            lambda status: status == 200,
            30,
        )
        assert "has not responded for 4 s" in runtime.log


def test_grpc_says_why_a_request_was_given_up(runtime):
    request = oip_pb2.ModelInferRequest(model_name="timed")
    tensor = request.inputs.add(name="what", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"hang")
    with grpc.insecure_channel(runtime.grpc) as channel:
        infer_ = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=oip_pb2.ModelInferRequest.SerializeToString,
        )
        with pytest.raises(grpc.RpcError) as raised:
            infer_(request, timeout=20)

    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert raised.value.details() == "the model did not answer within 0.2 s"
