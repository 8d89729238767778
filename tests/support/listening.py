"""Ports of servers that tests start as processes: a free one, and waiting until it accepts."""

import socket
import subprocess

from support.waiting import eventually


def free_port(host: str = "127.0.0.1") -> int:
    """An unused port of the address."""
    with socket.socket(_family(host)) as listener:
        listener.bind((host, 0))
        return listener.getsockname()[1]


def wait_listening(process: subprocess.Popen[bytes], port: int, host: str = "127.0.0.1") -> None:
    """Until the process accepts on the port; an AssertionError when it ends first."""

    def listens() -> bool:
        assert process.poll() is None, "the server ended"
        with socket.socket(_family(host)) as client:
            return client.connect_ex((host, port)) == 0

    eventually(f"port {port} listens", listens, bool, 30)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
