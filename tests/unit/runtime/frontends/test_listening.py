"""On which addresses a socket listens, and how it stops taking clients."""

import socket

import pytest

from moorage_runtime.frontends.listening import ALL, bind, ignore_new_clients

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


def reached(listening):
    """The addresses of this machine at which a bound socket listens."""
    listening.listen()
    port = listening.getsockname()[1]
    found = set()
    for family, address in ADDRESSES.items():
        with socket.socket(family) as client:
            if client.connect_ex((address, port)) == 0:
                found.add(address)
    return found


def test_all_addresses_are_those_of_both_families():
    with bind(ALL, 0) as listening:
        assert reached(listening) == {"127.0.0.1", "::1"}


def test_all_addresses_are_those_of_ipv4_on_a_machine_without_ipv6(monkeypatch):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    with bind(ALL, 0) as listening:
        assert listening.family is socket.AF_INET
        assert reached(listening) == {"127.0.0.1"}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_one_address_is_that_address(address):
    with bind(address, 0) as listening:
        assert reached(listening) == {address}


def test_only_sockets_that_share_their_port_share_it():
    with bind(ALL, 0, reuse_port=True) as first:
        port = first.getsockname()[1]
        bind(ALL, port, reuse_port=True).close()
        first.listen()
        for host in (ALL, "127.0.0.1"):
            with pytest.raises(OSError, match="in use"):
                bind(host, port)
