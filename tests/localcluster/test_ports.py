"""Ports: free ones are chosen, taken ones are named before anything starts."""

import os
import socket
from contextlib import ExitStack

import pytest

from moorage_localcluster import layout, ports
from moorage_localcluster.layout import ClusterError, Ports


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def taken(request):
    with socket.create_server((request.param, 0)) as server:
        yield server.getsockname()[1]


def test_a_port_with_a_listener_is_taken_and_free_after_it(taken):
    assert ports.is_taken(taken)


def test_a_port_is_free_once_its_listener_and_connections_are_gone():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        client = socket.create_connection(address)
        accepted, _ = server.accept()
        # the server's side closes first and stays in TIME_WAIT
        accepted.close()
        client.close()
    assert not ports.is_taken(address[1])


def test_chosen_ports_are_free_different_and_not_of_the_node():
    with ports.choose() as chosen:
        numbers = of_plane(chosen)

    assert len(numbers) == 4
    assert not any(ports.is_taken(number) for number in numbers)
    node = {port for name in PARTS for port in ports.of_process(Ports(), name)}
    assert not node & set(ports.CHOICE)


def of_plane(chosen: Ports) -> set[int]:
    return {chosen.api, chosen.etcd, chosen.etcd_peer, chosen.controller_manager}


def test_ports_are_chosen_once_until_their_processes_have_started(monkeypatch):
    monkeypatch.setattr(ports, "CHOICE", range(21000, 21040))

    with ExitStack() as chosen:
        planes = [of_plane(chosen.enter_context(ports.choose())) for _ in range(5)]
    with ports.choose() as again:
        assert len(of_plane(again)) == 4

    assert len(set().union(*planes)) == 20


PARTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
)


def test_no_two_parts_share_a_port_and_every_port_has_a_part():
    numbers = [port for name in PARTS for port in ports.of_process(Ports(), name)]

    assert len(numbers) == len(set(numbers))
    fields = {getattr(Ports(), name) for name in Ports.__dataclass_fields__}
    assert fields | {layout.DNS_PORT} == set(numbers)


def test_containerd_listens_on_no_port():
    assert ports.of_process(Ports(), "containerd") == ()


def test_a_taken_port_is_refused_with_its_part_and_its_listener(taken, tmp_path):
    plane = layout.control_plane(tmp_path, Ports(api=taken, etcd=1))

    with pytest.raises(ClusterError) as refused:
        ports.refuse_taken(plane, ["kube-apiserver"])

    assert f"port {taken}, which kube-apiserver needs, is in use" in str(refused.value)
    assert f"process {os.getpid()}" in str(refused.value)


def test_ports_of_parts_that_run_are_not_asked_for(taken, tmp_path):
    ports.refuse_taken(layout.control_plane(tmp_path, Ports(api=taken)), [])


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (
            'LISTEN 0 128 127.0.0.1:16443 0.0.0.0:* users:(("nginx",pid=42,fd=6))',
            " by nginx (process 42)",
        ),
        (
            'LISTEN 0 5 *:80 *:* users:(("a b",pid=7,fd=3),("a b",pid=8,fd=3))',
            " by a b (process 7)",
        ),
        ("LISTEN 0 128 127.0.0.1:16443 0.0.0.0:*", ""),
        ("", ""),
    ],
)
def test_the_listener_is_read_from_ss(line, who):
    assert ports.parse_listener(line) == who
