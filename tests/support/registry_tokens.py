"""A token service for `docker-registry`: whoever logs in gets a token, signed for the registry.

Source: Distribution, "Token Authentication Specification" and "Token Authentication
Implementation".
"""

import base64
import datetime as dt
import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

ISSUER = "moorage-tests"
SERVICE = "registry"


@dataclass
class TokenService:
    """The service: who may log in, and what was asked for.

    Attributes:
        basic: The Authorization header that it accepts.
        refresh_token: The identity token that it accepts.
        seconds: Lifetime of a token.
        scopes: The scope of each token given.
    """

    url: str
    certificate: Path
    basic: str = ""
    refresh_token: str = ""
    seconds: int = 300
    scopes: list[str] = field(default_factory=list)

    @property
    def config(self) -> dict[str, str]:
        """The part `auth.token` of the registry's configuration."""
        bundle = str(self.certificate)
        return {
            "realm": self.url,
            "service": SERVICE,
            "issuer": ISSUER,
            "rootcertbundle": bundle,
        }


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _certificate(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


@contextmanager
def token_service(folder: Path) -> Generator[TokenService]:
    """The service on a free loopback port; its certificate goes to the folder."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = _certificate(key)
    file = folder / "tokens.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    chain = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()

    def token(scope: str) -> str:
        kind, name, actions = scope.split(":")
        now = int(time.time())
        header = {"typ": "JWT", "alg": "RS256", "x5c": [chain]}
        claims = {
            "iss": ISSUER, "sub": "tester", "aud": SERVICE, "nbf": now - 10, "iat": now,
            "exp": now + service.seconds, "jti": str(len(service.scopes)),
            "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
        }  # fmt: skip
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = dict(parse_qsl(urlsplit(self.path).query))
            self._answer(query, allowed=self.headers.get("Authorization") == service.basic)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = dict(parse_qsl(body))
            self._answer(form, allowed=form.get("refresh_token") == service.refresh_token)

        def _answer(self, asked: dict[str, str], *, allowed: bool) -> None:
            if allowed:
                service.scopes.append(asked["scope"])
                status, body = 200, {"token": token(asked["scope"])}
            else:
                status, body = 401, {"errors": [{"message": "wrong user or password"}]}
            answer = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service = TokenService(f"http://127.0.0.1:{server.server_address[1]}/token", file)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield service
        finally:
            server.shutdown()
