"""Ports on the host: free ones for a control plane, and who is in the way of a taken one."""

import random
import re
import socket
from collections.abc import Iterable

from moorage_localcluster import layout as places
from moorage_localcluster.layout import ClusterError, Layout, Ports
from moorage_localcluster.processes import run

# Below what the kernel gives to outgoing connections (32768 on), so that none takes one between
# two starts, and apart from the node's own ports.
CHOICE = range(21000, 32000)


def choose() -> Ports:
    """Four free ports for a control plane alone."""
    candidates = iter(random.SystemRandom().sample(CHOICE, len(CHOICE)))
    free = (port for port in candidates if not is_taken(port))
    return Ports(
        api=next(free), etcd=next(free), etcd_peer=next(free), controller_manager=next(free)
    )


def is_taken(port: int) -> bool:
    """Whether somebody listens on this TCP port, at whatever address of this host."""
    with socket.socket() as probe:
        # connections that are still closing are in nobody's way
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
        ClusterError: It is; the text names port, part and, where known, the one who listens.
    """
    for name in names:
        for port in of_process(layout.ports, name):
            if is_taken(port):
                raise ClusterError(
                    f"port {port}, which {name} needs, is in use{_listener(port)}; end that and "
                    "run this again"
                )


def _listener(port: int) -> str:
    try:
        listed = run(["ss", "-H", "-ltnp", f"sport = :{port}"])
    except ClusterError:
        # only a help for the reader
        return ""
    return parse_listener(listed)


def parse_listener(listed: str) -> str:
    """What to add about who listens, from a line of `ss -ltnp`; "" where it names nobody; pure."""
    found = re.search(r'\("([^"]+)",pid=(\d+)', listed)
    return f" by {found.group(1)} (process {found.group(2)})" if found else ""
