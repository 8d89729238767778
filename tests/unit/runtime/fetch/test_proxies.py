"""Downloads through a proxy."""

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from moorage_runtime.fetch.decide.proxies import parse_proxy
from moorage_runtime.fetch.web import Web


def basic(pair: str) -> dict[str, str]:
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


@pytest.mark.parametrize(
    ("text", "address", "headers"),
    [
        ("http://proxy.example:3128", "http://proxy.example:3128", {}),
        ("http://proxy.example:3128/", "http://proxy.example:3128", {}),
        ("https://proxy.example", "https://proxy.example", {}),
        ("proxy.example:3128", "http://proxy.example:3128", {}),
        ("http://ann:secret@proxy:1", "http://proxy:1", basic("ann:secret")),
        ("ann:secret@proxy:1", "http://proxy:1", basic("ann:secret")),
        ("http://a%40b:%C3%A9%3A%25@proxy:1", "http://proxy:1", basic("a@b:é:%")),
        ("http://ann@[::1]:1", "http://[::1]:1", basic("ann:")),
    ],
)
def test_the_address_of_a_proxy_may_have_a_user_and_lack_a_scheme(text, address, headers):
    assert parse_proxy(text) == (address, headers)


class Proxy(BaseHTTPRequestHandler):
    """Answers with the requested address and the credentials."""

    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Proxy-Authorization']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_gets_the_credentials_of_its_address(monkeypatch, scheme):
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setenv("http_proxy", f"{scheme}ann:secret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")

        with Web().open("http://models.invalid/iris", {}) as answer:
            found = answer.body().decode()

    assert found == f"http://models.invalid/iris {basic('ann:secret')['Proxy-Authorization']}"
