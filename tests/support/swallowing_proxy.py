"""A TCP proxy that can stop forwarding bytes while its connections stay open."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


@dataclass
class _Connection:
    """Both ends, the threads between them, and whether bytes still pass."""

    ends: tuple[socket.socket, socket.socket]
    passes: bool
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        client, server = self.ends
        for source, sink in ((client, server), (server, client)):
            thread = threading.Thread(target=self._pump, args=(source, sink), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.passes:
                    sink.sendall(data)
        # The end of a connection is visible as well, so a swallowing proxy hides it.
        if self.passes:
            self.end()

    def end(self) -> None:
        for each in self.ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class SwallowingProxy:
    """Forwards connections to a loopback port, until it is set to swallow their data."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passes_new = True
        self._connections: list[_Connection] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def swallow(self, *, new: bool = False) -> None:
        """Let nothing more through on the open connections, and with `new` on later ones too."""
        self._passes_new = not new
        for each in self._connections:
            each.passes = False

    def pass_new(self) -> None:
        """Serve connections that are opened from now on."""
        self._passes_new = True

    def close(self) -> None:
        # A close alone would not wake the accepting thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(10)
        self._listener.close()
        for each in self._connections:
            each.end()
            for thread in each.threads:
                thread.join(10)
            for end in each.ends:
                end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                connection = _Connection((client, server), self._passes_new)
                self._connections.append(connection)
                connection.start()


@contextlib.contextmanager
def swallowing_proxy(kubeconfig: Path) -> Iterator[SwallowingProxy]:
    """A proxy in front of the API server of a kubeconfig."""
    server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    port = urlsplit(server).port
    assert port
    proxy = SwallowingProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def kubeconfig_through(proxy: SwallowingProxy, kubeconfig: Path, folder: Path) -> Path:
    """A kubeconfig with the same rights that leads through the proxy."""
    content = json.loads(kubeconfig.read_text())
    for cluster in content["clusters"]:
        cluster["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    through = folder / "kubeconfig-through-proxy"
    through.write_text(json.dumps(content))
    return through
