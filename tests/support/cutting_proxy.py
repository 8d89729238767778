"""A TCP proxy that closes connections after a number of answer bytes, and counts its traffic."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class CuttingProxy:
    """The proxy's port, what is still to be cut, and the bytes of answers that went through."""

    port: int
    cuts: list[int] = field(default_factory=list)
    passed: int = 0


@contextlib.contextmanager
def cutting_proxy(target: int, *cuts: int) -> Iterator[CuttingProxy]:
    """Passes connections on to a port of loopback; the first of them are cut."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = CuttingProxy(listener.getsockname()[1], list(cuts))

    def upwards(client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", target)) as server:
            threading.Thread(target=upwards, args=(client, server), daemon=True).start()
            left = proxy.cuts.pop(0) if proxy.cuts else None
            with contextlib.suppress(OSError):
                while data := server.recv(16384):
                    data = data if left is None else data[:left]
                    client.sendall(data)
                    proxy.passed += len(data)
                    if left is not None:
                        left -= len(data)
                        if left == 0:
                            break
                # a close alone has no effect while the other thread still reads
                client.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield proxy
    finally:
        # a close alone would not wake the accepting thread
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
