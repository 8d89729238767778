"""TLS in front of a plaintext server, like a proxy in front of a registry."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHUNK_BYTES = 1 << 16


@contextmanager
def tls_front(certificate: Path, host: str, port: int) -> Iterator[int]:
    """A free port of the host that speaks TLS and passes all on to this port of loopback.

    Args:
        certificate: A file of certificate and key.
        host: The address to listen on.
        port: Where the server listens.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server((host, 0))

    def serve(accepted: socket.socket) -> None:
        # whoever does not trust the certificate goes away in the middle
        with contextlib.suppress(OSError), accepted:
            client = context.wrap_socket(accepted, server_side=True)
            with client, socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
                back.start()
                _pass_on(client, server)
                back.join(5)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                threading.Thread(target=serve, args=(accepted,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        # a close alone would not wake the accepting thread
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
