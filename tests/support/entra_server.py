"""A token service like Microsoft Entra ID: exchanges a secret or a pod's token for a token.

Source: Microsoft identity platform, "OAuth 2.0 client credentials flow".
"""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

TENANT = "11111111-2222-3333-4444-555555555555"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass
class EntraServer:
    """The service's address, its clients, and the recorded requests.

    Attributes:
        url: Its address.
        knows: Whether a secret or a pod's token belongs to the client.
        forms: The received forms.
    """

    url: str
    knows: Callable[[str], bool]
    forms: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def entra_server(knows: Callable[[str], bool], host: str = "127.0.0.1") -> Iterator[EntraServer]:
    """The service on a free port of the address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the parent's name
            """Say nothing."""

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: each[0] for name, each in parse_qs(text).items()}
            service.forms.append(form)
            proof = form.get("client_secret") or form.get("client_assertion", "")
            valid = (
                self.path == f"/{TENANT}/oauth2/v2.0/token"
                and form["grant_type"] == "client_credentials"
                and form["scope"] == "https://storage.azure.com/.default"
                and form.get("client_assertion_type", ASSERTION) == ASSERTION
            )
            known = valid and service.knows(proof)
            refused = {"error": "invalid_client", "error_description": "AADSTS7000215: wrong"}
            answer = {"access_token": _token(), "expires_in": 3600} if known else refused
            body = json.dumps(answer).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer((host, 0), Handler)
    service = EntraServer(f"http://{host}:{server.server_address[1]}", knows)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _token() -> str:
    """A token for the storage service, without a signature that anybody checks."""
    now = int(time.time())
    issuer = f"https://sts.windows.net/{TENANT}/"
    claims = {"aud": "https://storage.azure.com", "iss": issuer, "iat": now, "nbf": now - 60}
    claims["exp"] = now + 3600
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([*(part.rstrip("=") for part in encoded), "c2lnbmF0dXJl"])
