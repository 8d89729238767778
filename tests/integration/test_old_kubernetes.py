"""The operator's process with an API server of an outdated version."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.operator_cluster import OperatorProcess, eventually

pytestmark = pytest.mark.integration


class ApiServer(ThreadingHTTPServer):
    """Returns its version, and 404 for other paths."""

    daemon_threads = True
    minor = "29"


class Handler(BaseHTTPRequestHandler):
    """One request to an `ApiServer`."""

    server: ApiServer

    def do_GET(self) -> None:
        minor = self.server.minor
        version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}
        is_version = self.path == "/version"
        body = json.dumps(version if is_version else {"message": "not found"}).encode()
        self.send_response(200 if is_version else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Discard the log."""


@pytest.fixture
def api_server() -> Iterator[ApiServer]:
    server = ApiServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_an_outdated_api_server_is_not_served(api_server: ApiServer, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    cluster = {"server": f"http://127.0.0.1:{api_server.server_address[1]}"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    config.write_text(json.dumps(content))
    operator = OperatorProcess(config, tmp_path / "log")
    operator.start()
    try:
        eventually(
            "/readyz reports the version",
            lambda: "Kubernetes v1.29.0" in operator.ask("/readyz")[1],
        )
        assert "upgrade the cluster to 1.30 or later" in operator.log.read_text()
        assert operator.ask("/livez")[0] == 200

        api_server.minor = "30"
        eventually(
            "the version is accepted", lambda: "is not installed" in operator.ask("/readyz")[1]
        )
    finally:
        assert operator.stop() == 0
