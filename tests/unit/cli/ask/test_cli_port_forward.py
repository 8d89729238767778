"""The local port of a port-forward, with a pair of sockets in place of the API server."""

import socket
import threading

from moorage_cli.ask.port_forward import PortForward

PATIENCE_SECONDS = 10


def test_a_connection_that_opens_while_the_port_closes_is_closed_too():
    near, far = socket.socketpair()
    far.settimeout(PATIENCE_SECONDS)
    opens, may_open = threading.Event(), threading.Event()

    def connect():
        opens.set()
        may_open.wait(PATIENCE_SECONDS)
        return near, lambda: ""

    with far:
        with PortForward(connect) as forward:
            host, _, number = forward.address.partition(":")
            local = socket.create_connection((host, int(number)), PATIENCE_SECONDS)
            assert opens.wait(PATIENCE_SECONDS)
        may_open.set()

        with local:
            assert far.recv(1) == b""
            assert local.recv(1) == b""
