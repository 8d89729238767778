"""Ports on the host: finds free ones, and names the process that uses a taken one."""

import random
import re
import socket
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager

from moorage_localcluster import layout as places
from moorage_localcluster.layout import ClusterError, Layout, Ports
from moorage_localcluster.processes import run

# Below the range for outgoing connections (32768 and up), so that no connection takes a port
# between two starts, and different from the ports of the node.
CHOICE = range(21000, 32000)


@contextmanager
def choose() -> Generator[Ports]:
    """Four free ports for a control plane without a node, reserved within the block.

    Between the choice and the start of its processes, no other program of this kind on this host
    chooses any of them.
    """
    with ExitStack() as reserved:
        candidates = random.SystemRandom().sample(CHOICE, len(CHOICE))
        # Reserved before the look: whoever ended a reservation in between listens by now.
        free = (port for port in candidates if _reserve(port, reserved) and not is_taken(port))
        yield Ports(
            api=next(free), etcd=next(free), etcd_peer=next(free), controller_manager=next(free)
        )


def _reserve(port: int, reserved: ExitStack) -> bool:
    """Reserve a port unless another process has; by a name that ends with this process."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        # The zero byte makes it a name of the kernel instead of a file (unix(7), "abstract").
        mark.bind(f"\0moorage-port-{port}")
    except OSError:
        mark.close()
        return False
    reserved.enter_context(mark)
    return True


def is_taken(port: int) -> bool:
    """Whether a process listens on this TCP port at any address of this host."""
    with socket.socket() as probe:
        # Connections that are still closing do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def of_process(ports: Ports, name: str) -> tuple[int, ...]:
    """TCP ports that a process of the cluster listens on; pure."""
    return {
        "etcd": (ports.etcd, ports.etcd_peer),
        "kube-apiserver": (ports.api,),
        "kube-controller-manager": (ports.controller_manager,),
        "kube-scheduler": (ports.scheduler,),
        "kubelet": (ports.kubelet, ports.kubelet_health),
        "kube-proxy": (ports.proxy_health, ports.proxy_metrics),
        "coredns": (ports.dns_ready, places.DNS_PORT),
    }.get(name, ())


def refuse_taken(layout: Layout, names: Iterable[str]) -> None:
    """Fail before anything starts when a port of these processes is in use.

    Raises:
        ClusterError: One is; the text names port, component and, if known, the process.
    """
    for name in names:
        for port in of_process(layout.ports, name):
            if is_taken(port):
                raise ClusterError(
                    f"port {port}, which {name} needs, is in use{_listener(port)}; stop that "
                    "process and try again"
                )


def _listener(port: int) -> str:
    try:
        listed = run(["ss", "-H", "-ltnp", f"sport = :{port}"])
    except ClusterError:
        # The name is only a hint for the reader.
        return ""
    return parse_listener(listed)


def parse_listener(listed: str) -> str:
    """The listening process from a line of `ss -ltnp`, as text, or ""; pure."""
    found = re.search(r'\("([^"]+)",pid=(\d+)', listed)
    return f" by {found.group(1)} (process {found.group(2)})" if found else ""
