"""The request for a token of a registry."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest

from moorage_runtime.fetch.stores.registry_token import RegistryToken
from moorage_runtime.fetch.web import Web


class Registry(BaseHTTPRequestHandler):
    """A registry and its token service, whose tokens are the query of the request."""

    parameters = ""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        is_token = parts.path == "/token"
        self.send_response(200 if is_token else 401)
        realm = f"http://{self.headers['Host']}/token{self.parameters}"
        self.send_header("WWW-Authenticate", f'Bearer realm="{realm}",service="r&d"')
        body = json.dumps({"token": parts.query}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("parameters", ["", "?account=team", "?account=team&x="])
def test_the_address_of_a_token_service_may_have_parameters(monkeypatch, parameters):
    monkeypatch.setattr(Registry, "parameters", parameters)
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"

        found = RegistryToken(base, "team/iris", "", Web()).headers()["Authorization"]
        server.shutdown()

    own = [("account", "team")] if parameters else []
    asked = [*own, ("service", "r&d"), ("scope", "repository:team/iris:pull")]
    assert parse_qsl(found.removeprefix("Bearer ")) == asked
