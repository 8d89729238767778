"""The clients of the examples, run as programs against the runtime and an overloaded server."""

import http.server
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.runtime import running
from support.waiting import eventually

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLIENTS = [
    pytest.param([sys.executable, EXAMPLES / "23-clients" / "client.py"], id="python"),
    pytest.param(
        ["node", EXAMPLES / "23-clients" / "client.mjs"],
        id="javascript",
        marks=pytest.mark.skipif(not shutil.which("node"), reason="no Node.js is installed"),
    ),
]
ANSWER = b'{"outputs": [{"name": "label", "data": [3]}]}'


@contextmanager
def server(*statuses: int) -> Iterator[str]:
    """The URL of a server with these answers, which asks clients to repeat a request at once."""
    left = list(statuses)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status = left.pop(0)
            body = ANSWER if status == 200 else b'{"error": "the queue is full"}'
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}"
        assert left == []
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def run(client: list[str], url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*client, url], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_prints_the_digit(client):
    model = EXAMPLES / "01-digits" / "model.onnx"
    with running(f"--model-repository={model}", "--model-name=digits") as runtime:
        eventually(
            "the model is ready",
            lambda: runtime.get("/v2/models/digits/ready").status_code,
            lambda status: status == 200,
            30,
        )
        done = run(client, f"http://{runtime.http}")

    assert done.stdout == "digit: 3\n", done.stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_repeats_what_an_overloaded_server_refuses(client):
    with server(503, 503, 200) as url:
        done = run(client, url)

    assert done.stdout == "digit: 3\n", done.stderr


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("statuses", [(400,), (503, 503, 503)])
def test_a_client_gives_up_with_the_message_of_the_server(client, statuses):
    with server(*statuses) as url:
        done = run(client, url)

    assert done.returncode != 0
    assert f"status {statuses[-1]}" in done.stderr
    assert "the queue is full" in done.stderr
