"""`moorage bench` against servers of this machine, with real connections."""

import http.server
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from moorage_cli import __main__ as program
from support.manifests import DIGITS
from support.runtime import serving
from support.waiting import eventually

MOORAGE = Path(sys.executable).parent / "moorage"
METADATA = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}


class Server(http.server.ThreadingHTTPServer):
    """Answers like an Open Inference server, with a stall or failures."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *, stall_at=-1, stall_seconds=0.0, fail_every=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.stall_at, self.stall_seconds = stall_at, stall_seconds
        self.fail_every, self.count = fail_every, 0
        self.turn = threading.Lock()
        self.waiting = self.most = 0
        self.never = threading.Event()

    def handle_error(self, request, client_address):
        """Report an error, unless the tool has closed a connection in the middle of an answer.

        The output of the thread would become that of a later test.
        """
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, METADATA if self.path == "/v2/models/iris" else {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        server.waiting += 1
        with server.turn:
            server.count = count = server.count + 1
            server.most = max(server.most, server.waiting)
            server.waiting -= 1
            if count == server.stall_at:
                server.never.wait(server.stall_seconds)
        fails = server.fail_every and count > 1 and count % server.fail_every == 0
        self.answer(503 if fails else 200, {"outputs": [], "asked": asked})

    def answer(self, code, document):
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def servers():
    """The servers that were started."""
    started = []
    yield started
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def serve(servers):
    """Starts servers; returns the URL of the model of each."""

    def serve(**options):
        server = Server(**options)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}/v2/models/iris"

    return serve


@pytest.fixture
def bench(capsys):
    """Runs the command; returns status, output and errors."""

    def bench(*arguments):
        code = program.main(["bench", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return bench


def test_a_stall_delays_all_requests_that_were_scheduled_meanwhile(bench, serve, servers):
    url = serve(stall_at=20, stall_seconds=1.0)

    code, out, _ = bench(url, "--rate", 50, "--duration", 2, "-o", "json")

    document = json.loads(out)
    assert (code, document["sent"], document["failed"]) == (0, 100, 0)
    # a client that waits for each response would have a single slow one
    assert document["latencySeconds"]["p90"] > 0.5
    assert servers[0].most > 20


def test_failures_are_named_by_their_status(bench, serve):
    code, out, err = bench(serve(fail_every=4), "--rate", 40, "--duration", 1)

    assert (code, "HTTP 503" in out) == (1, True)
    assert "40 sent, 30 succeeded, 10 failed" in out
    assert "Ctrl-C ends it" in err


def test_a_request_without_a_response_in_time_is_a_failure(bench, serve):
    url = serve(stall_at=3, stall_seconds=5.0)
    options = ("--rate", 10, "--duration", 0.5, "--timeout", 0.5)

    code, out, _ = bench(url, *options, "-o", "json")

    failures = json.loads(out)["failures"]
    assert (code, list(failures)) == (1, ["no response within 0.5 s"])


def test_the_request_of_a_file_is_sent(bench, serve, tmp_path):
    file = tmp_path / "request.json"
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [7, 8]}
    file.write_text(json.dumps({"inputs": [tensor]}))
    options = ("--rate", 20, "--duration", 0.5)

    assert bench(serve(), "--data", file, *options)[0] == 0
    file.write_text("{}")
    code, out, err = bench(serve(), "--data", file, *options)
    assert (code, out, "inputs must be a list of tensors" in err) == (1, "", True)


@pytest.mark.parametrize(
    ("arguments", "status", "fact"),
    [
        (["http://127.0.0.1:1/v2/models/iris"], 1, "no response from /v2/models/iris"),
        (["http://127.0.0.1:1"], 2, "--model: is required"),
        (["ftp://a/b"], 2, "http://, https://, grpc://, grpcs://"),
        (["grpc://localhost", "--model=a"], 2, "has no port"),
        (["http://a/v2/models/b", "--transport=GRPC"], 2, "is for HTTP"),
        (["http://a/v2/models/b", "--ca-file=x"], 2, "requires an address with https://"),
        (["http://a/v2/models/b", "--rate=99999", "--duration=9999"], 2, "5000000 requests"),
        (["http://a", "--model=b", "--protocol=GRPS"], 1, "set --data"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_fix(bench, arguments, status, fact):
    code, out, err = bench(*arguments)

    assert (code, out, fact in err) == (status, "", True), err


def test_a_model_that_refuses_the_request_is_not_measured(bench, serve):
    url = serve().replace("iris", "rose")

    code, _, err = bench(url)

    assert (code, "the tensors of the model are not known: set --data" in err) == (1, True)


def test_an_interrupt_ends_it_with_the_results_so_far(serve, servers):
    command = [MOORAGE, "bench", serve(), "--rate", "20", "--duration", "600", "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        (server,) = servers
        eventually("it sends requests", lambda: server.count, lambda count: count > 3, 60)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait(10)
    document = json.loads(out)
    assert (process.returncode, document["interrupted"]) == (130, True)
    assert 0 < document["sent"] < 12_000


def test_both_transports_of_the_runtime_are_measured_with_a_sample_of_its_metadata(bench):
    options = ("--rate", 20, "--duration", 1, "-o", "json")
    with serving(DIGITS, "--model-name=digits") as runtime:
        for url in (f"http://{runtime.http}", f"grpc://{runtime.grpc}"):
            code, out, err = bench(url, "--model=digits", *options)
            assert (code, json.loads(out)["succeeded"]) == (0, 20), err
        code, _, err = bench(f"grpc://{runtime.grpc}", "--model=rose", *options)
        assert (code, "NOT_FOUND" in err) == (1, True)
