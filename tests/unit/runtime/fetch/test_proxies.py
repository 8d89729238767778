"""Downloads through a proxy."""

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from moorage_runtime.fetch.decide.failures import Unreachable
from moorage_runtime.fetch.decide.proxies import is_exempt, parse_proxy
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


@pytest.mark.parametrize(
    ("host", "no_proxy", "exempt"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", ".svc, 10.1.2.0/24 ,localhost", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.9/24", True),
        ("fd00::5", "10.0.0.0/8,fd00::/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "", False),
        ("10.1.2.3", "10.0.0.0/99,/,10/x", False),
        ("models.example", "10.0.0.0/8,models.example", False),
        ("", "0.0.0.0/0", False),
    ],
)
def test_an_address_is_exempt_if_a_range_has_it(host, no_proxy, exempt):
    assert is_exempt(host, no_proxy) is exempt


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


@pytest.mark.parametrize(
    "entry", ["127.0.0.0/8", "127.0.0.1", "127.0.0.1:{port}", "*", "example.com,127.0.0.0/8"]
)
def test_no_proxy_is_used_for_an_exempt_address(monkeypatch, entry):
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing listens there
        monkeypatch.setenv("no_proxy", entry.format(port=port))

        with Web().open(f"http://127.0.0.1:{port}/iris", {}) as answer:
            found = answer.body().decode()

    assert found == "/iris None"


@pytest.mark.parametrize(("entry", "exempt"), [("a.invalid:80", True), ("a.invalid:443", False)])
def test_an_entry_with_a_port_is_compared_with_the_port_of_the_scheme(monkeypatch, entry, exempt):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", entry)

    with pytest.raises(Unreachable, match="cannot be resolved" if exempt else "refused"):
        Web().open("http://a.invalid/iris", {})
