"""Every path, name and address of one cluster, in one frozen value; pure.

Two kinds: the full node, of which a machine has one, and a control plane alone (API server and
etcd on loopback), of which any number may run side by side in folders of their own.
"""

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_DIR = REPOSITORY / "build" / "localcluster"
DEFAULT_STATE = Path("/var/lib/moorage-local")

NODE_NAME = "moorage-local"
BRIDGE = "moorage0"
BRIDGE_ADDRESS = "10.244.0.1"
POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"
# Not 53, so that a resolver of the host on that port is left alone; the DNS Service maps it.
DNS_PORT = 10053
CLUSTER_DOMAIN = "cluster.local"
# As whom the API server passes requests on to an extension of its API.
FRONT_PROXY = "front-proxy-client"
KUBERNETES_VERSION = "v1.34.4"
# The first line of containerd that mounts images as volumes: what the operator asks of a node.
CONTAINERD_VERSION = "v2.1.9"


class ClusterError(Exception):
    """Something failed; the text says what, where its log is, and what to do."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on the host; uncommon ones, so that other clusters are not in the way."""

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
    """Where one cluster lives.

    Attributes:
        state: Folder of everything that it writes, logs included.
        run: Short folder for sockets (a socket's path has at most 107 characters).
        binaries: Folder with the built programs.
        ports: Host ports.
        full: True for the node with containers, False for a control plane alone.
    """

    state: Path
    run: Path
    binaries: Path
    ports: Ports
    full: bool

    @property
    def logs(self) -> Path:
        """One log a process."""
        return self.state / "logs"

    @property
    def pids(self) -> Path:
        """One record a process that was started."""
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
    def api_host(self) -> str:
        """The address at which pods (full) or loopback clients reach the API server."""
        return BRIDGE_ADDRESS if self.full else "127.0.0.1"

    @property
    def server(self) -> str:
        """URL of the API server from this host."""
        return f"https://127.0.0.1:{self.ports.api}"


def node(state: Path = DEFAULT_STATE) -> Layout:
    """The layout of the full node; `down` removes its run folder, so that has our name in it."""
    name = DEFAULT_STATE.name if state == DEFAULT_STATE else f"{DEFAULT_STATE.name}-{state.name}"
    return Layout(state, Path("/run") / name, BUILD_DIR / "bin", Ports(), full=True)


def control_plane(state: Path, ports: Ports) -> Layout:
    """The layout of a control plane alone."""
    return Layout(state, state, BUILD_DIR / "bin", ports, full=False)
