"""Every path of a cluster is below its own two folders, and its addresses fit together."""

import ipaddress
from pathlib import Path

import pytest

from moorage_localcluster import layout
from moorage_localcluster.layout import Ports

NODE = layout.node(Path("/srv/some-node"))
PLANE = layout.control_plane(Path("/tmp/plane"), Ports(api=30001))


@pytest.mark.parametrize("cluster", [NODE, PLANE], ids=["node", "plane"])
@pytest.mark.parametrize("name", ["logs", "pids", "pki", "config", "kubeconfig", "images"])
def test_what_is_written_is_below_the_state_folder(cluster, name):
    assert getattr(cluster, name).is_relative_to(cluster.state)


@pytest.mark.parametrize(
    ("state", "run"),
    [
        ("/var/lib/moorage-local", "/run/moorage-local"),
        ("/srv/some-node", "/run/moorage-local-some-node"),
        # never a folder of the system's, since `down` removes it
        ("/srv/systemd", "/run/moorage-local-systemd"),
        ("/srv/moorage-local", "/run/moorage-local-moorage-local"),
    ],
)
def test_the_nodes_sockets_are_in_a_short_folder_of_its_own(state, run):
    node = layout.node(Path(state))

    assert node.run == Path(run)
    assert node.containerd_socket.parent == node.run
    assert node.runc.is_relative_to(node.run)


def test_clients_of_a_control_plane_alone_use_loopback_and_its_own_port():
    assert PLANE.server == "https://127.0.0.1:30001"


def test_services_and_pods_have_ranges_apart_that_hold_their_fixed_addresses():
    pods = ipaddress.ip_network(layout.POD_RANGE)
    services = ipaddress.ip_network(layout.SERVICE_RANGE)

    assert not pods.overlaps(services)
    assert ipaddress.ip_address(layout.BRIDGE_ADDRESS) in pods
    assert ipaddress.ip_address(layout.DNS_SERVICE_ADDRESS) in services
    # the first of the range is always the API server's
    assert ipaddress.ip_address(layout.API_SERVICE_ADDRESS) == services[1]
