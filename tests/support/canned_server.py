"""A socket server that answers each request with given bytes, also those of other protocols."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass
class CannedServer:
    """Its port, and the request lines so far."""

    port: int
    asked: list[str] = field(default_factory=list)


def http_answer(status: HTTPStatus, body: bytes, *headers: str) -> bytes:
    """A whole response in HTTP/1.1."""
    head = [f"HTTP/1.1 {status.value} {status.phrase}", f"content-length: {len(body)}"]
    head += ["connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


@contextmanager
def answering(*answers: bytes, then_close: bool = True) -> Iterator[CannedServer]:
    """A server whose last answer is repeated; without `then_close`, connections stay open."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = CannedServer(listener.getsockname()[1])
    ended = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the test has ended
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            server.asked.append(head.split(b"\r\n")[0].decode())
            connection.sendall(answers[min(len(server.asked), len(answers)) - 1])
            if not then_close:
                ended.wait(60)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def kubeconfig_of(port: int) -> str:
    """A kubeconfig for such a server."""
    return (
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "users: [{name: u, user: {}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u, namespace: models}}]\n"
        "current-context: x\n"
    )
