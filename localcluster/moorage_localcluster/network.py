"""The bridge, the addresses and the kernel state of the node; and taking all of it away again."""

from pathlib import Path

from moorage_localcluster import layout as places
from moorage_localcluster.files import write_whole
from moorage_localcluster.layout import ClusterError, Layout
from moorage_localcluster.processes import run, succeeds

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))


def up(layout: Layout) -> None:
    """Make the bridge with its address and let the kernel forward; safe to repeat.

    Raises:
        ClusterError: Somebody else's kube-proxy or address range is in the way.
    """
    remembered = layout.state / "ip_forward.before"
    if not remembered.exists():
        _refuse_foreign_state()
        write_whole(remembered, FORWARDING.read_text())
    FORWARDING.write_text("1")
    if not succeeds(["ip", "link", "show", places.BRIDGE]):
        run(["ip", "link", "add", places.BRIDGE, "type", "bridge"])
    if places.BRIDGE_ADDRESS not in run(["ip", "-o", "address", "show", "dev", places.BRIDGE]):
        run(["ip", "address", "add", f"{places.BRIDGE_ADDRESS}/16", "dev", places.BRIDGE])
    run(["ip", "link", "set", places.BRIDGE, "up"])


def _refuse_foreign_state() -> None:
    for family, table in PROXY_TABLES:
        if succeeds(["nft", "list", "table", family, table]):
            raise ClusterError(
                f"this machine has an nftables table `{family} {table}` already, so another "
                "cluster's kube-proxy works here; stop it or use that cluster (CLUSTER=current)"
            )
    for line in run(["ip", "-o", "-4", "address"]).splitlines():
        if f" {places.BRIDGE_ADDRESS.rsplit('.', 2)[0]}." in line and places.BRIDGE not in line:
            raise ClusterError(
                f"the pods' range {places.POD_RANGE} is in use here: {line.strip()}"
            )


def down(layout: Layout) -> None:
    """Remove bridge, pod interfaces and kube-proxy's tables; restore forwarding.

    Only where `up` noted that none of them was there before: else they are somebody else's.
    """
    remembered = layout.state / "ip_forward.before"
    if not remembered.exists():
        return
    for family, table in PROXY_TABLES:
        succeeds(["nft", "delete", "table", family, table])
    for port in _bridge_ports():
        succeeds(["ip", "link", "delete", port])
    if succeeds(["ip", "link", "show", places.BRIDGE]):
        run(["ip", "link", "delete", places.BRIDGE])
    FORWARDING.write_text(remembered.read_text())


def _bridge_ports() -> list[str]:
    ports = Path("/sys/class/net") / places.BRIDGE / "brif"
    return sorted(entry.name for entry in ports.iterdir()) if ports.exists() else []


def remove_cgroups() -> None:
    """Remove the cluster's group in every hierarchy, deepest first."""
    for root in [Path("/sys/fs/cgroup"), *sorted(Path("/sys/fs/cgroup").iterdir())]:
        group = root / places.NODE_NAME
        if not group.is_dir():
            continue
        below = [path for path in group.rglob("*") if path.is_dir()]
        for path in sorted(below, key=lambda path: -len(path.parts)):
            path.rmdir()
        group.rmdir()
