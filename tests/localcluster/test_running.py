"""How the cluster program asks whether a part of the cluster answers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from moorage_localcluster import running


class Healthy(BaseHTTPRequestHandler):
    """Answers only /healthz."""

    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_words):
        pass


def test_the_proxy_of_the_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}"

        assert running.answers(f"{here}/healthz")
        assert not running.answers(f"{here}/other")
        server.shutdown()
    assert not running.answers(f"{here}/healthz")
