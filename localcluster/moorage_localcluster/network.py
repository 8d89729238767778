"""The bridge, the addresses and the kernel state of the node; and taking all of it away again."""

from pathlib import Path

from moorage_localcluster import layout as places
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
        remembered.write_text(FORWARDING.read_text())
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
    """Remove bridge, pod interfaces and kube-proxy's tables; restore forwarding."""
    for family, table in PROXY_TABLES:
        succeeds(["nft", "delete", "table", family, table])
    for port in _bridge_ports():
        succeeds(["ip", "link", "delete", port])
    if succeeds(["ip", "link", "show", places.BRIDGE]):
        run(["ip", "link", "delete", places.BRIDGE])
    remembered = layout.state / "ip_forward.before"
    if remembered.exists():
        FORWARDING.write_text(remembered.read_text())


def _bridge_ports() -> list[str]:
    ports = Path("/sys/class/net") / places.BRIDGE / "brif"
    return sorted(entry.name for entry in ports.iterdir()) if ports.exists() else []


def unescape_mount(text: str) -> str:
    """A path as /proc/mounts writes it: blanks and backslashes are octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def mounts_below(mounts: str, folders: list[Path]) -> list[str]:
    """Mount points in or below the folders, deepest first; `mounts` is /proc/mounts; pure."""
    roots = [str(folder) for folder in folders]
    points = [unescape_mount(line.split()[1]) for line in mounts.splitlines() if line.strip()]
    ours = [
        point
        for point in points
        if any(point == root or point.startswith(f"{root}/") for root in roots)
    ]
    return sorted(ours, key=lambda point: (-point.count("/"), point))


def unmount_all(folders: list[Path]) -> None:
    """Unmount everything in or below the folders, mounts upon mounts included."""
    # a point that carries several mounts is listed once for each
    for point in mounts_below(Path("/proc/mounts").read_text(), folders):
        succeeds(["umount", "--lazy", point])


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
