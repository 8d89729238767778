"""The selection of the gRPC transport, and the libraries that each of them imports."""

import asyncio
import ssl
import subprocess
import sys

import pytest

from moorage_runtime.frontends.credentials import Certificate
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.frontends.grpc.nghttp2.server import Nghttp2Server

ASK = """
import sys
{before}
from moorage_runtime.frontends.grpc.transport import Listening, make_listener
listening = Listening(host="127.0.0.1", port=0, max_message_bytes=1)
server = make_listener("{transport}", [], listening)
print(type(server).__name__, "grpc" in sys.modules, sys.modules.get("ngh2") is not None)
"""


def made(transport: str, before: str = "") -> tuple[str, str]:
    """The server's class, whether each library is imported, and the log."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(transport=transport, before=before)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("transport", "expected"),
    [("native", "Nghttp2Server False True"), ("grpcio", "GrpcioServer True False")],
)
def test_only_the_library_that_serves_is_loaded(transport, expected):
    assert made(transport) == (expected, "")


def test_without_ngh2_native_falls_back_to_grpcio_with_a_warning():
    server, logged = made("native", "sys.modules['ngh2'] = None")
    assert server == "GrpcioServer True False"
    assert "grpc_transport is native" in logged


@pytest.fixture
def certificate(tmp_path):
    """A self-signed certificate for localhost."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    files = ["-nodes", "-keyout", key, "-out", certificate, "-days", "2"]
    subprocess.run([*new, *subject, *files], check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize(
    ("offered", "is_served"), [(["h2"], True), (["http/1.1"], False), ([], False)]
)
async def test_tls_needs_http2_by_alpn(certificate, offered, is_served):
    context = Certificate(*certificate).http2_context
    server = Nghttp2Server([], "localhost", 0, limits=Limits(), tls=context)
    port = await server.start()
    client = ssl.create_default_context(cafile=certificate[0])
    if offered:
        client.set_alpn_protocols(offered)
    try:
        reader, writer = await asyncio.open_connection("localhost", port, ssl=client)
        first = await asyncio.wait_for(reader.read(9), 10)
        writer.close()
    except ConnectionError:
        first = b""
    # a SETTINGS frame, or nothing
    assert (first[3:4] == b"\4") == is_served
    await server.stop(0)
