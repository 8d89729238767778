"""The command `moorage-runtime` from the view of a user: settings, loading, failures, shutdown."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import grpc
import httpx
import onnxruntime
import pytest

from support.runtime import COMMAND, ROOT, running, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

DIGITS = ROOT / "examples" / "01-digits"
SAMPLE = json.loads((DIGITS / "samples" / "digit-3.json").read_text())

# ServerLiveResponse with the field live (1), which is true.
LIVE = b"\x08\x01"

# Answers when the file in the request exists.
WAITER = """\
import pathlib
import time

from moorage_runtime.backends.python import PythonModel


class Waiter(PythonModel):
    inputs = [("file", "BYTES", [1])]
    outputs = [("seen", "BOOL", [1])]

    def predict(self, inputs, request):
        file = pathlib.Path(inputs["file"][0].decode())
        file.with_suffix(".started").touch()
        while not file.exists():
            time.sleep(0.01)
        return {"seen": [True]}
"""

PRINTER = """\
from moorage_runtime.backends.python import PythonModel


class Printer(PythonModel):
    inputs = [("x", "FP32", [1])]
    outputs = [("y", "FP32", [1])]

    def predict(self, inputs, request):
        print("saw", inputs["x"][0])
        return {"y": inputs["x"]}
"""


def command(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [COMMAND, *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **variables},
    )


def digits_request(**changes) -> dict:
    return {"inputs": [{**SAMPLE["inputs"][0], **changes}]}


@pytest.fixture(scope="module")
def digits():
    with serving(DIGITS / "model.onnx", "--model-name=digits") as runtime:
        yield runtime


@pytest.fixture
def waiter(tmp_path):
    """A server whose model answers when a file appears, and that file."""
    (tmp_path / "models" / "waiter").mkdir(parents=True)
    (tmp_path / "models" / "waiter" / "model.py").write_text(WAITER)
    with serving(tmp_path / "models", "--drain-seconds=4") as runtime:
        yield runtime, tmp_path / "go"


def ask_waiter(runtime, file: Path) -> httpx.Response:
    tensor = {"name": "file", "shape": [1], "datatype": "BYTES", "data": [str(file)]}
    return runtime.post("/v2/models/waiter/infer", json={"inputs": [tensor]})


def test_help_lists_every_option_and_variable():
    done = command("--help")

    assert done.returncode == 0
    for word in ("--model-repository", "--http-port", "MOORAGE_", "model.onnx", "curl"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("options", "variables", "expected"),
    [
        (["--http-port=many"], {}, "--http-port: 'many'"),
        (["--http-port=70000"], {}, "--http-port: '70000'"),
        ([], {"MOORAGE_GRPC_PORT": "x"}, "MOORAGE_GRPC_PORT: 'x'"),
        (["--workers=0"], {}, "--workers: '0'"),
        (["--drain-seconds=-1"], {}, "--drain-seconds: '-1'"),
        (["--protocols=oip,http"], {}, "--protocols: 'oip,http'"),
        (
            ["--log-level=loud"],
            {},
            "--log-level: 'loud'",
        ),
        (["--execution-provider=tpu"], {}, "--execution-provider: 'tpu'"),
        (["--model-name=m"], {}, "--model-name (MOORAGE_MODEL_NAME) requires"),
        (["--model-repository=/no/such"], {}, "'/no/such' does not exist"),
    ],
)
def test_an_invalid_setting_ends_the_command_with_a_message(options, variables, expected):
    done = command(*options, **variables)

    assert done.returncode == 2
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_option_is_refused():
    done = command("--htp-port=1")

    assert done.returncode == 2
    assert "--htp-port" in done.stderr


def test_a_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("--host=127.0.0.1", f"--http-port={port}", "--grpc-port=0")

    assert done.returncode == 1
    assert f"http_port {port} cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("transport", ["native", "grpcio"])
def test_ipv4_and_ipv6_clients_reach_the_same_ports(transport, workers):
    options = (f"--grpc-transport={transport}", f"--workers={workers}")
    with running(*options, host="::") as runtime:
        for address in ("127.0.0.1", "[::1]"):
            live = httpx.get(f"http://{address}:{runtime.http_port}/v2/health/live", timeout=10)
            assert live.json() == {"live": True}
            with grpc.insecure_channel(f"{address}:{runtime.grpc_port}") as channel:
                ask = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
                assert ask(b"", timeout=10) == LIVE


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_reported(host, workers):
    done = command(f"--host={host}", "--http-port=0", "--grpc-port=0", f"--workers={workers}")

    assert done.returncode == 1
    assert f"--host (MOORAGE_HOST): '{host}' is invalid: " in done.stderr
    assert "use a free port" not in done.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_an_execution_provider_that_is_not_installed_is_reported(workers):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("CUDA is installed")

    done = command(
        "--host=127.0.0.1", "--http-port=0", "--grpc-port=0", f"--workers={workers}",
        MOORAGE_EXECUTION_PROVIDER="cuda",
    )  # fmt: skip

    assert done.returncode == 1
    assert "--execution-provider=cuda requires CUDAExecutionProvider" in done.stderr
    assert "CPUExecutionProvider" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_override_variables():
    with running(
        f"--model-repository={DIGITS / 'model.onnx'}",
        "--model-name=mine",
        env={**os.environ, "MOORAGE_MODEL_NAME": "other", "MOORAGE_LOG_FORMAT": "json"},
    ) as runtime:
        names = [json.loads(line)["logger"] for line in runtime.log.splitlines()]
        assert runtime.get("/v2/models/other").status_code == 404
        assert runtime.get("/v2/models/mine/ready").status_code in (200, 503)
        assert "moorage_runtime.app" in names


def test_a_server_without_models_is_ready():
    with running() as runtime:
        eventually(
            "ready", lambda: runtime.get("/v2/health/ready").status_code, lambda s: s == 200, 10
        )
        assert runtime.get("/v2").json()["name"] == "moorage"


def test_the_metadata_come_from_the_graph(digits):
    assert digits.get("/v2/models/digits").json() == {
        "name": "digits",
        "versions": ["1"],
        "platform": "onnx_onnxv1",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}],
        "outputs": [
            {"name": "label", "datatype": "INT64", "shape": [-1]},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]},
        ],
    }


@pytest.mark.parametrize("expected", [0, 3, 7, 8])
def test_the_digits_are_classified_correctly(digits, expected):
    body = (DIGITS / "samples" / f"digit-{expected}.json").read_bytes()

    outputs = digits.post("/v2/models/digits/infer", content=body).json()["outputs"]

    assert outputs[0] == {"name": "label", "datatype": "INT64", "shape": [1], "data": [expected]}
    assert outputs[1]["data"][expected] == max(outputs[1]["data"])


BAD_REQUESTS = {
    "malformed JSON": (b'{"inputs": [', 400, []),
    "not an object": (b"[]", 400, ["object"]),
    "no inputs": (b"{}", 400, ["inputs"]),
    "wrong shape": (
        json.dumps(digits_request(shape=[1, 64])),
        400,
        ["image", "[1, 64]", "[-1, 8, 8]"],
    ),
    "wrong datatype": (json.dumps(digits_request(datatype="INT64")), 400, ["image", "FP32"]),
    "unknown datatype": (json.dumps(digits_request(datatype="FLOAT")), 400, ["FLOAT", "FP32"]),
    "missing data": (json.dumps(digits_request(data=[])), 400, ["inputs[0].data", "64"]),
    "text for a number": (
        json.dumps(digits_request(data=["a"] * 64)),
        400,
        ["inputs[0].data", "FP32"],
    ),
    "unknown input": (json.dumps(digits_request(name="pic")), 400, ["'pic'", "'image'"]),
    "unknown output": (
        json.dumps({**SAMPLE, "outputs": [{"name": "x"}]}),
        400,
        ["'x'", "'label'"],
    ),
    "huge shape": (json.dumps(digits_request(shape=[2**62, 8, 8])), 400, ["inputs[0].shape"]),
    "deep nesting": (b'{"inputs":' + b"[" * 200_000, 400, ["100"]),
    "too large": (b" " * (64 * 1024 * 1024 + 1), 413, [str(64 * 1024 * 1024)]),
}


@pytest.mark.parametrize("what", BAD_REQUESTS)
def test_invalid_requests_get_an_error_with_what_is_allowed(digits, what):
    body, status, words = BAD_REQUESTS[what]

    answer = digits.post("/v2/models/digits/infer", content=body)

    assert answer.status_code == status, answer.text
    text = answer.json()["error"]
    for word in words:
        assert word in text
    assert "Traceback" not in text
    assert digits.post("/v2/models/digits/infer", json=SAMPLE).status_code == 200


def test_the_error_for_an_unknown_model_lists_the_models(digits):
    answer = digits.post("/v2/models/nosuch/infer", json=SAMPLE)

    assert answer.status_code == 404
    assert "'nosuch'" in answer.json()["error"]
    assert "'digits'" in answer.json()["error"]


def test_metrics_count_requests_and_loads(digits):
    def count() -> float:
        lines = digits.get("/metrics").text.splitlines()
        name = 'moorage_inferences_total{model="digits",outcome="ok",version="1"}'
        return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

    before = count()
    digits.post("/v2/models/digits/infer", json=SAMPLE)

    assert count() == before + 1


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"model.onnx": b"not ONNX"}, "model.onnx is not a valid ONNX model"),
        ({"model.onnx": b""}, "model.onnx is not a valid ONNX model"),
        ({"weights.bin": b""}, "no model file"),
        ({"model.py": b"import nosuch"}, "model.py cannot be imported: ModuleNotFoundError"),
        ({"model.py": b"raise SystemExit(3)"}, "SystemExit"),
        ({"model.py": b"x = 1"}, "model.py has no class that extends PythonModel"),
        ({"a.onnx": b"x", "b.onnx": b"x"}, "several model files (a.onnx, b.onnx)"),
        (
            {
                "model.onnx": b"x",
                "model.yaml": b"inputs: [{name: x, datatype: FLOAT, shape: [1]}]",
            },
            "inputs[0].datatype",
        ),
        ({"model.onnx": b"x", "model.yaml": b"colour: red"}, "colour"),
        (
            {"model.onnx": b"x", "model.yaml": b"default_version: '7'"},
            "version '7' does not exist",
        ),
        ({"model.onnx": b"x", "model.yaml": b"[:"}, "model.yaml is not valid YAML"),
    ],
)
def test_the_server_survives_a_model_that_fails_to_load(tmp_path, files, expected):
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with running(f"--model-repository={tmp_path}", "--model-name=m") as runtime:
        answer = eventually(
            "the load failed",
            lambda: runtime.get("/v2/models/m/ready"),
            lambda seen: "error" in seen.json() and "loading" not in seen.text,
            20,
        )
        assert answer.status_code == 503
        assert expected in answer.json()["error"]
        assert str(tmp_path) not in answer.text
        assert runtime.get("/v2/health/live").status_code == 200
        assert runtime.get("/v2/health/ready").status_code == 503
        refused = runtime.post("/v2/models/m/infer", json=SAMPLE)
        assert refused.status_code == 503
        assert expected in refused.json()["error"]


def test_a_running_model_does_not_delay_health(waiter):
    runtime, file = waiter
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running_requests = [pool.submit(ask_waiter, runtime, file) for _ in range(8)]
        eventually("a request runs", file.with_suffix(".started").exists, bool, 10)

        assert runtime.get("/v2/health/live").status_code == 200
        assert runtime.get("/v2/health/ready").status_code == 200
        assert runtime.get("/v2/models/waiter/ready").status_code == 200

        file.touch()
        assert {request.result().status_code for request in running_requests} == {200}


def test_sigterm_ends_readiness_and_lets_requests_finish(waiter):
    runtime, file = waiter
    with concurrent.futures.ThreadPoolExecutor() as pool:
        request = pool.submit(ask_waiter, runtime, file)
        eventually("the request runs", file.with_suffix(".started").exists, bool, 10)

        runtime.process.send_signal(signal.SIGTERM)
        eventually("the signal is seen", lambda: "SIGTERM" in runtime.log, bool, 10)

        assert runtime.get("/v2/health/ready").status_code == 503
        assert runtime.get("/v2/models/waiter/ready").status_code == 503
        assert runtime.get("/v2/health/live").status_code == 200
        file.touch()
        assert request.result().json()["outputs"][0]["data"] == [True]
        assert runtime.process.wait(20) == 0


def test_persistent_connections_close_before_the_port():
    body = json.dumps(digits_request()).encode()
    with serving(DIGITS, "--model-name=digits", "--drain-seconds=4") as runtime:
        kept = http.client.HTTPConnection("127.0.0.1", runtime.http_port, timeout=10)

        def ask() -> tuple[int, str | None]:
            kept.request("POST", "/v2/models/digits/infer", body)
            answer = kept.getresponse()
            answer.read()
            return answer.status, answer.getheader("connection")

        assert ask() == (200, None)
        runtime.process.send_signal(signal.SIGTERM)
        eventually("the signal is seen", lambda: "SIGTERM" in runtime.log, bool, 10)

        assert ask() == (200, "close")
        assert ask() == (200, "close")  # on a new connection, which is still accepted
        assert runtime.process.wait(20) == 0


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_the_ports_stay_open_while_clients_still_connect(transport):
    with serving(DIGITS, "--model-name=digits", "--drain-seconds=1") as runtime:
        port = runtime.http_port if transport == "http" else runtime.grpc_port
        runtime.process.send_signal(signal.SIGTERM)
        eventually("the signal is seen", lambda: "SIGTERM" in runtime.log, bool, 10)

        refused_after = pause_before_refusal(port, seconds=2.0)
        assert runtime.process.wait(10) == 0

    # a client that a busy machine has kept waiting for longer may be refused
    assert refused_after is None or refused_after > 0.4


def pause_before_refusal(port: int, seconds: float) -> float | None:
    """Connect again and again: the time from one connection to the next, which is refused."""
    begun = last = time.monotonic()
    while last - begun < seconds:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            return time.monotonic() - last
        last = time.monotonic()
        time.sleep(0.02)  # the client's interval
    return None


def test_a_model_that_never_returns_does_not_prevent_shutdown(waiter):
    _, file = waiter
    with running(
        f"--model-repository={file.parent / 'models'}",
        "--drain-seconds=0",
        "--shutdown-grace-seconds=1",
    ) as stuck:
        eventually(
            "ready", lambda: stuck.get("/v2/health/ready").status_code, lambda s: s == 200, 10
        )
        asker = threading.Thread(target=_ask_and_ignore, args=(stuck, file), daemon=True)
        asker.start()
        eventually("the request runs", file.with_suffix(".started").exists, bool, 10)

        assert stuck.terminate() == 0


def _ask_and_ignore(runtime, file: Path) -> None:
    with contextlib.suppress(httpx.HTTPError):
        ask_waiter(runtime, file)


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_what_a_model_prints_is_in_the_log_at_once(isolation, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (tmp_path / "model.py").write_text(PRINTER)
    (tmp_path / "model.yaml").write_text(f"python: {{isolation: {isolation}}}\n")
    request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [7]}]}

    with serving(tmp_path, "--model-name=printer", "--workers=1") as runtime:
        assert runtime.post("/v2/models/printer/infer", json=request).status_code == 200
        eventually("the line is in the log", lambda: runtime.log, lambda log: "saw 7.0" in log, 5)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_a_server_with_closed_standard_streams_starts_and_ends(closed):
    with running(wrapper=("sh", "-c", f'exec "$@" {closed}', "sh")) as runtime:
        assert runtime.get("/v2/health/live").status_code == 200

        assert runtime.terminate() == 0
