"""Traces that a cluster could leave on the machine, as a set that can be compared."""

import subprocess
from pathlib import Path

PLACES = (
    "/opt/containerd",
    "/run/containerd",
    "/run/moorage-local",
    "/run/nri",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/moorage-local",
    "/var/log/containers",
    "/var/log/pods",
)
STATE_PLACES = ("/run/moorage-local", "/var/lib/moorage-local")
# The programs of a node; only those that a cluster on this machine could have started.
PROGRAMS = {"containerd", "containerd-shim-runc-v2", "coredns", "kube-proxy", "kubelet", "pause"}
PROGRAMS |= {"moorage-operator", "moorage-runtime", "kube-scheduler"}
# The parts of a control group's path that only a node makes.
GROUPS = {"k8s.io", "kubepods", "moorage-local"}


def traces() -> set[str]:
    """Processes, mounts, interfaces, rules, control groups, files, and whether packets forward."""
    return {
        *_processes(),
        *(f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines()),
        *(f"interface {path.name}" for path in Path("/sys/class/net").iterdir()),
        *(f"rules {line}" for line in _lines("nft", "list", "tables")),
        *(f"group {path}" for path in Path("/sys/fs/cgroup").rglob("*") if _is_ours(path)),
        *(f"file {place}" for place in PLACES if Path(place).exists()),
        f"forwarding {Path('/proc/sys/net/ipv4/ip_forward').read_text().strip()}",
    }


def _is_ours(group: Path) -> bool:
    """A control group of a node; others may change while the machine is in use."""
    return group.is_dir() and not GROUPS.isdisjoint(group.parts)


def _processes() -> set[str]:
    """Processes of a node and of its containers, not those that others started on this host."""
    own = Path("/proc/self/ns/pid").readlink()
    found: set[str] = set()
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            contained = (entry / "ns" / "pid").readlink() != own
        except OSError:
            continue
        names = {Path(word).name for word in words[:2]} & PROGRAMS
        of_node = any(place in word for word in words for place in STATE_PLACES)
        if entry.name.isdigit() and names and (contained or of_node):
            found.add(f"process {entry.name} {min(names)}")
    return found


def _lines(*command: str) -> list[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.splitlines()
    except FileNotFoundError:
        return []
