"""Every path, name and address of one cluster, in one frozen value; pure but for CLUSTER_IPV6.

There are two kinds. A machine can run one full node. It can run any number of control planes
without a node (API server and etcd on loopback), each in its own folder.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from moorage_localcluster import addresses

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_DIR = REPOSITORY / "build" / "localcluster"
DEFAULT_STATE = Path("/var/lib/moorage-local")

NODE_NAME = "moorage-local"
BRIDGE = "moorage0"
ADDRESSES = addresses.chosen(os.environ.get("CLUSTER_IPV6", ""))
BRIDGE_ADDRESS = ADDRESSES.bridge
POD_RANGE = ADDRESSES.pods
SERVICE_RANGE = ADDRESSES.services
API_SERVICE_ADDRESS = ADDRESSES.api_service
DNS_SERVICE_ADDRESS = ADDRESSES.dns_service
# Not 53, which a resolver of the host may use; the DNS Service maps the port.
DNS_PORT = 10053
CLUSTER_DOMAIN = "cluster.local"
# The user with which the API server forwards requests to an API extension.
FRONT_PROXY = "front-proxy-client"
KUBERNETES_VERSION = "v1.34.4"
# 2.1 is the first containerd release with image volumes, which the operator requires of a node.
CONTAINERD_VERSION = "v2.1.9"


class ClusterError(Exception):
    """A failure; the text says what failed, where its log is, and what to do."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on the host; uncommon ones, to avoid conflicts with other clusters."""

    api: int = 16443
    etcd: int = 12379
    etcd_peer: int = 12380
    controller_manager: int = 20257
    scheduler: int = 20259
    kubelet: int = 20250
    kubelet_health: int = 20248
    proxy_health: int = 20256
    proxy_metrics: int = 20249
    dns_ready: int = 20181


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths and addresses of one cluster.

    Attributes:
        state: Folder of all files that it writes, including logs.
        run: Short folder for sockets (a socket's path has at most 107 characters).
        binaries: Folder with the built programs.
        ports: Host ports.
        full: True for the node with containers, False for a control plane without a node.
    """

    state: Path
    run: Path
    binaries: Path
    ports: Ports
    full: bool

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.state / "logs"

    @property
    def pids(self) -> Path:
        """One record per started process."""
        return self.state / "pids"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def config(self) -> Path:
        """Rendered configuration files."""
        return self.state / "config"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; never the user's own file."""
        return self.state / "kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        """Socket of the cluster's own containerd."""
        return self.run / "containerd.sock"

    @property
    def runc(self) -> Path:
        """State of the containers' runtime."""
        return self.run / "runc"

    @property
    def images(self) -> Path:
        """Storage of the image builder."""
        return self.state / "buildah"

    @property
    def server(self) -> str:
        """URL of the API server from this host."""
        return f"https://127.0.0.1:{self.ports.api}"


def node(state: Path = DEFAULT_STATE) -> Layout:
    """The layout of the full node; its run folder has our name, because `down` removes it."""
    name = DEFAULT_STATE.name if state == DEFAULT_STATE else f"{DEFAULT_STATE.name}-{state.name}"
    return Layout(state, Path("/run") / name, BUILD_DIR / "bin", Ports(), full=True)


def control_plane(state: Path, ports: Ports) -> Layout:
    """The layout of a control plane without a node."""
    return Layout(state, state, BUILD_DIR / "bin", ports, full=False)
