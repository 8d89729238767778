"""How a listening socket stops taking clients."""

import socket

import pytest

from moorage_runtime.frontends.listening import ignore_new_clients

ADDRESSES = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@pytest.mark.parametrize("family", ADDRESSES, ids=["IPv4", "IPv6"])
def test_a_socket_that_ignores_new_clients_keeps_those_in_its_queue(family):
    listening, early = socket.socket(family), socket.socket(family)
    with listening, early:
        listening.bind((ADDRESSES[family], 0))
        listening.listen()
        address = listening.getsockname()
        early.connect(address)
        ignore_new_clients(listening)
        with socket.socket(family) as late:
            late.settimeout(0.1)
            with pytest.raises(TimeoutError):
                late.connect(address)
        listening.settimeout(0)
        accepted, _ = listening.accept()
        with pytest.raises(BlockingIOError):
            listening.accept()
        with accepted:
            early.sendall(b"asked before the end")
            assert accepted.recv(100) == b"asked before the end"
    with socket.socket(family) as late, pytest.raises(ConnectionRefusedError):
        late.connect(address)
