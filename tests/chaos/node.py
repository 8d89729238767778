"""Takes parts of the local cluster away, and gives them back.

The network of a pod is cut by a table of nftables in the pod's own network namespace, so nothing
of the host is touched and the table ends with the pod.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from moorage_localcluster import layout, processes
from support.testbed.api import Object

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "localcluster" / "cluster"
MEND_SECONDS = 150
TABLE = "moorage_chaos"
HEALTH_PORT = 8080
CUT = f"""
table inet {TABLE} {{
  chain output {{
    type filter hook output priority 0; policy drop;
    oif lo accept
    tcp sport {HEALTH_PORT} accept comment "answers to the kubelet's probes"
  }}
}}
"""


class Node:
    """The node of this machine, as root has it."""

    def __init__(self) -> None:
        self.layout = layout.node()
        # the network namespace of each pod that is cut off, by the pod's uid
        self._cut: dict[str, int] = {}

    def kill(self, part: str) -> None:
        """End a part as a crash would."""
        record = processes.read_record(self.layout, part)
        if record is not None and processes.is_alive(self.layout, part):
            os.kill(record.pid, signal.SIGKILL)

    def mend(self) -> None:
        """Start every part that does not run, and wait until the node is ready.

        Raises:
            RuntimeError: The node did not become ready.
        """
        done = subprocess.run(
            [PROGRAM, "up"], capture_output=True, text=True, check=False, timeout=MEND_SECONDS
        )
        if done.returncode:
            raise RuntimeError(f"cluster up: {done.stdout}{done.stderr}")

    def kill_containers(self, pod: Object) -> bool:
        """End the first process of each running container of a pod."""
        found = list(_first_processes(pod))
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return bool(found)

    def cut(self, pod: Object) -> bool:
        """Drop what a pod sends, answers to the kubelet's probes excepted."""
        pid = next(_first_processes(pod), 0)
        if not pid:
            return False
        try:
            network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        except FileNotFoundError:
            return False
        if not _in_network(network, "nft", "-f", "-", stdin=CUT):
            os.close(network)
            return False
        self._cut[pod["metadata"]["uid"]] = network
        return True

    def reconnect(self, uid: str) -> None:
        """Undo the cut of a pod, if there is one."""
        network = self._cut.pop(uid, None)
        if network is not None:
            _in_network(network, "nft", "delete", "table", "inet", TABLE)
            os.close(network)


def _in_network(network: int, *command: str, stdin: str = "") -> bool:
    done = subprocess.run(
        ["nsenter", f"--net=/proc/self/fd/{network}", *command],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        pass_fds=[network],
    )
    return done.returncode == 0


def _first_processes(pod: Object) -> Iterator[int]:
    """Process ids of the first process of each running container, by the cgroup's name."""
    containers = [
        container["containerID"].rpartition("/")[2]
        for container in pod.get("status", {}).get("containerStatuses", ())
        if "running" in container["state"]
    ]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            groups = (entry / "cgroup").read_text()
            status = (entry / "status").read_text()
        except OSError:
            continue  # it has ended meanwhile
        namespaced = next(
            (line.split() for line in status.splitlines() if line.startswith("NSpid:")), []
        )
        if namespaced[2:] == ["1"] and any(container in groups for container in containers):
            yield int(entry.name)
