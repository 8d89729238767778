"""A security token service that exchanges a pod's web identity for a key pair, or refuses it.

The pair is that of the gateway itself, which does not support sessions, so the session token is
empty.

Source: AWS Security Token Service API Reference, "AssumeRoleWithWebIdentity".
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
GIVEN = """\
<AssumeRoleWithWebIdentityResponse xmlns="{namespace}"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{key}</SecretAccessKey>
<SessionToken></SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""
REFUSED = """\
<ErrorResponse xmlns="{namespace}"><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code>
<Message>no</Message></Error></ErrorResponse>"""


@dataclass
class StsServer:
    """The service's keys, its clients, and the recorded requests.

    Attributes:
        url: Its address.
        access: The access key that it issues.
        key: The secret key of it.
        knows: Whether a web identity token belongs to a pod with the role.
        roles: The requested roles.
    """

    url: str
    access: str
    key: str
    knows: Callable[[str], bool]
    roles: list[str] = field(default_factory=list)


@contextmanager
def sts_server(
    access: str, key: str, knows: Callable[[str], bool], host: str = "127.0.0.1"
) -> Iterator[StsServer]:
    """The service on a free port of the address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the parent's name
            """Say nothing."""

        def do_GET(self) -> None:
            query = {name: each[0] for name, each in parse_qs(urlsplit(self.path).query).items()}
            service.roles.append(query["RoleArn"])
            asked = query["Action"] == "AssumeRoleWithWebIdentity"
            known = asked and service.knows(query["WebIdentityToken"])
            text = GIVEN if known else REFUSED
            body = text.format(namespace=NAMESPACE, access=service.access, key=service.key)
            self.send_response(200 if known else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

    server = ThreadingHTTPServer((host, 0), Handler)
    service = StsServer(f"http://{host}:{server.server_address[1]}", access, key, knows)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
