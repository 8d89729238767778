"""The port-forward of the `kubernetes` package, against a server with its WebSocket protocol.

Sources: RFC 6455; Kubernetes, subprotocol v4.channel.k8s.io: the first byte of a message is the
channel; a port has one channel for data and one for errors, which start with the port's number.
"""

import base64
import hashlib
import json
import socket
import struct
import threading

import pytest
import yaml

from moorage_cli.ask.cluster import Cluster
from moorage_cli.printing.failures import Failure

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
POD_PORT = 8000


class FakeApiServer:
    """Accepts one port-forward and answers in capitals, or refuses it."""

    def __init__(self, error="", refuse=False, body=b""):
        self.error, self.refuse, self.body = error, refuse, body
        self.asked = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(10)
        self._listener.close()
        assert not self._thread.is_alive(), "the forward did not close its connection"

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as lines:
            head = b""
            while (line := lines.readline()) != b"\r\n":
                head += line
            self.asked = head.split(b" ")[1]
            if self.refuse:
                size = b"content-length: %d" % len(self.body)
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\n%s\r\n\r\n" % size + self.body)
                return
            key = next(
                line.split(b": ")[1].strip()
                for line in head.splitlines()
                if line.lower().startswith(b"sec-websocket-key")
            )
            accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
            connection.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
                b"connection: Upgrade\r\nsec-websocket-protocol: v4.channel.k8s.io\r\n"
                b"sec-websocket-accept: " + accept + b"\r\n\r\n"
            )
            for channel in (b"\x00", b"\x01"):
                connection.sendall(frame(channel + struct.pack("<H", POD_PORT)))
            if self.error:
                connection.sendall(frame(b"\x01" + self.error.encode()))
            while (message := read_frame(lines)) is not None:
                if not self.error:
                    connection.sendall(frame(b"\x00" + message[1:].upper()))


def frame(payload):
    """A binary message from a server: final, not masked, shorter than 126 bytes."""
    return bytes([0x82, len(payload)]) + payload


def read_frame(stream):
    """A masked message from a client, or None when it closes."""
    head = stream.read(2)
    if len(head) < 2 or head[0] == 0x88:
        return None
    mask = stream.read(4)
    payload = stream.read(head[1] & 0x7F)
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


@pytest.fixture
def kubeconfig(tmp_path):
    """Writes a kubeconfig for a port, with its own namespace."""

    def write(port):
        path = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "models"}}
        config = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
        path.write_text(yaml.safe_dump({**config, "users": [{"name": "u", "user": {}}]}))
        return str(path)

    return write


def ask(forward):
    """The response to a word through the local port."""
    host, _, port = forward.address.partition(":")
    with socket.create_connection((host, int(port)), 10) as local:
        local.settimeout(60)
        local.sendall(b"question")
        try:
            return local.recv(100)
        except ConnectionResetError:  # closed before the question was read
            return b""


def test_bytes_are_forwarded_both_ways(kubeconfig):
    with FakeApiServer() as server:
        cluster = Cluster(kubeconfig(server.port))
        with cluster.forward("models", "iris-a", POD_PORT) as forward:
            assert ask(forward) == b"QUESTION", forward.problem
            assert forward.problem == ""

    assert cluster.namespace == "models"
    assert server.asked == b"/api/v1/namespaces/models/pods/iris-a/portforward?ports=8000"


def test_an_error_of_the_kubelet_is_kept(kubeconfig):
    with FakeApiServer(error="connection refused in the pod") as server:
        cluster = Cluster(kubeconfig(server.port))
        with cluster.forward("models", "iris-a", POD_PORT) as forward:
            assert ask(forward) == b""
            assert "connection refused in the pod" in forward.problem


def test_an_error_of_the_api_server_is_kept(kubeconfig):
    with FakeApiServer(refuse=True) as server:
        cluster = Cluster(kubeconfig(server.port))
        with cluster.forward("models", "iris-a", POD_PORT) as forward:
            assert ask(forward) == b""
            assert "403" in forward.problem
            assert "content-length" not in forward.problem


def test_the_message_of_the_api_server_is_that_of_the_error(kubeconfig):
    message = 'cannot get resource "pods/portforward"'
    body = json.dumps({"kind": "Status", "message": message}).encode()
    with FakeApiServer(refuse=True, body=body) as server:
        cluster = Cluster(kubeconfig(server.port))
        with cluster.forward("models", "iris-a", POD_PORT) as forward:
            assert ask(forward) == b""
            assert forward.problem == f"port-forward: {message}"


def test_a_missing_kubeconfig_is_refused(tmp_path):
    with pytest.raises(Failure, match=r"--kubeconfig: .*missing is not a usable kubeconfig"):
        Cluster(str(tmp_path / "missing"))


def test_a_malformed_kubeconfig_is_refused(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")

    with pytest.raises(Failure, match="broken is not a usable kubeconfig"):
        Cluster(str(broken))


def test_a_missing_context_is_refused_with_the_existing_ones(kubeconfig):
    with pytest.raises(Failure, match="'y' does not exist: must be one of x"):
        Cluster(kubeconfig(1), "y")
