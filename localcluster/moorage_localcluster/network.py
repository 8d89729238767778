"""Creates and removes the bridge, the addresses and the kernel settings of the node."""

from ipaddress import ip_interface, ip_network
from pathlib import Path

from moorage_localcluster import layout as places
from moorage_localcluster.addresses import IPV4, IPV6
from moorage_localcluster.files import write_whole
from moorage_localcluster.layout import ClusterError, Layout
from moorage_localcluster.processes import run, succeeds

BRIDGE_MAC = "02:00:0a:f4:00:01"
PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))


def up(layout: Layout) -> None:
    """Create the bridge with its address and enable forwarding; idempotent.

    Raises:
        ClusterError: Another cluster's kube-proxy or address range conflicts.
    """
    remembered = layout.state / places.ADDRESSES.remembered
    forwarding = places.ADDRESSES.forwarding
    if not remembered.exists():
        _refuse_foreign_state()
        write_whole(remembered, forwarding.read_text())
    forwarding.write_text("1")
    if not succeeds(["ip", "link", "show", places.BRIDGE]):
        # With an address of its own, the bridge keeps it when pods come and go. Otherwise, other
        # pods send to its previous address for half a minute.
        run(["ip", "link", "add", places.BRIDGE, "address", BRIDGE_MAC, "type", "bridge"])
    if places.BRIDGE_ADDRESS not in run(["ip", "-o", "address", "show", "dev", places.BRIDGE]):
        own = f"{places.BRIDGE_ADDRESS}/{places.ADDRESSES.bridge_prefix}"
        # An address of IPv6 would otherwise be unusable for a second, while the kernel looks for
        # duplicates.
        probing = ["nodad"] if places.ADDRESSES is IPV6 else []
        run(["ip", "address", "add", own, "dev", places.BRIDGE, *probing])
    run(["ip", "link", "set", places.BRIDGE, "up"])


def routes_services() -> bool:
    """Whether kube-proxy has written its rules."""
    family = "ip6" if places.ADDRESSES is IPV6 else "ip"
    return succeeds(["nft", "list", "chain", family, "kube-proxy", "services"])


def _refuse_foreign_state() -> None:
    for family, table in PROXY_TABLES:
        if succeeds(["nft", "list", "table", family, table]):
            raise ClusterError(
                f"the nftables table `{family} {table}` exists, so another cluster's kube-proxy "
                "runs on this machine: stop that cluster, or use it with CLUSTER=current"
            )
    pods = ip_network(places.POD_RANGE)
    for line in run(["ip", "-o", "address"]).splitlines():
        used = ip_interface(line.split()[3]).ip
        if used in pods and line.split()[1] != places.BRIDGE:
            raise ClusterError(
                f"the pod range {places.POD_RANGE} is in use on this machine: {line.strip()}"
            )


def down(layout: Layout) -> None:
    """Remove bridge, pod interfaces and kube-proxy's tables; restore forwarding.

    Only if `up` recorded that none of them existed before; otherwise they are not ours.
    """
    # CLUSTER_IPV6 may have changed since then
    before = {
        each.forwarding: file
        for each in (IPV4, IPV6)
        if (file := layout.state / each.remembered).exists()
    }
    if not before:
        return
    for family, table in PROXY_TABLES:
        succeeds(["nft", "delete", "table", family, table])
    for port in _bridge_ports():
        succeeds(["ip", "link", "delete", port])
    if succeeds(["ip", "link", "show", places.BRIDGE]):
        run(["ip", "link", "delete", places.BRIDGE])
    for forwarding, file in before.items():
        forwarding.write_text(file.read_text())


def _bridge_ports() -> list[str]:
    ports = Path("/sys/class/net") / places.BRIDGE / "brif"
    return sorted(entry.name for entry in ports.iterdir()) if ports.exists() else []


def remove_cgroups() -> None:
    """Remove the cluster's control group from every hierarchy, deepest first."""
    for root in [Path("/sys/fs/cgroup"), *sorted(Path("/sys/fs/cgroup").iterdir())]:
        group = root / places.NODE_NAME
        if not group.is_dir():
            continue
        below = [path for path in group.rglob("*") if path.is_dir()]
        for path in sorted(below, key=lambda path: -len(path.parts)):
            path.rmdir()
        group.rmdir()
