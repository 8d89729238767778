"""Every path of a cluster is below its own two folders, and its addresses fit together."""

import ipaddress
import subprocess
import sys
from pathlib import Path

import pytest

from moorage_localcluster import layout
from moorage_localcluster.addresses import IPV4, IPV6
from moorage_localcluster.layout import Ports

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.mark.parametrize("family", [IPV4, IPV6], ids=["IPv4", "IPv6"])
def test_services_and_pods_have_ranges_apart_that_hold_their_fixed_addresses(family):
    pods = ipaddress.ip_network(family.pods)
    services = ipaddress.ip_network(family.services)

    assert not pods.overlaps(services)
    assert ipaddress.ip_interface(f"{family.bridge}/{family.bridge_prefix}").network == pods
    assert ipaddress.ip_address(family.first_pod) in pods
    assert ipaddress.ip_address(family.dns_service) in services
    # the first of the range is always the API server's
    assert ipaddress.ip_address(family.api_service) == services[1]


def test_a_node_has_one_family_of_addresses():
    program = """
from pathlib import Path
from moorage_localcluster import layout, render
node = layout.node(Path("/n"))
print(render.commands(node), render.cni(node), render.dns_objects())
"""
    for variable, other in (("", ("fd00:", "::/0")), ("1", ("10.244.", "10.96.", "0.0.0.0"))):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": str(ROOT / "localcluster"), "CLUSTER_IPV6": variable},
            capture_output=True,
            text=True,
            check=True,
        )
        assert [each for each in other if each in done.stdout] == []
