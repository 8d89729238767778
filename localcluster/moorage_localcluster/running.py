"""Starts and stops a cluster: the order of its components, and what must be gone afterwards.

Every step is idempotent: it keeps what runs and creates what is missing. `up` therefore also
repairs a crashed cluster, and `down` removes a partially started one.
"""

import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from moorage_localcluster import (
    certificates,
    containers,
    images,
    mounts,
    network,
    ownership,
    ports,
    processes,
    render,
)
from moorage_localcluster import layout as places
from moorage_localcluster.files import write_changed
from moorage_localcluster.layout import ClusterError, Layout

START_SECONDS = 90.0
STOP_PATIENCE_SECONDS = 2.0
STOP_ORDER = (
    "coredns",
    "kube-proxy",
    "kubelet",
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
)
CONTROL_PLANE = ("etcd", "kube-apiserver")


def up(layout: Layout, *, controllers: bool = True) -> None:
    """Start what does not run; return when the node (or the API server) is ready.

    Raises:
        ClusterError: The folder is not a cluster's, a port is in use, or a component did not
            start; the text then ends with its log.
    """
    ownership.claim(layout.state, layout.ports)
    layout.run.mkdir(parents=True, exist_ok=True)
    certificates.make_all(layout)
    write_config(layout)
    lines = render.commands(layout)
    wanted = lines if layout.full or controllers else CONTROL_PLANE
    for name in wanted:
        processes.adopt(layout, name, lines[name])
    ports.refuse_taken(layout, [name for name in wanted if not processes.is_alive(layout, name)])
    if layout.full:
        containers.remember_outside(layout)
        network.up(layout)
    env = render.environment(os.environ)
    processes.start(layout, "etcd", lines["etcd"], env)
    processes.start(layout, "kube-apiserver", lines["kube-apiserver"], env)
    processes.wait_for(
        layout,
        "kube-apiserver",
        "the API server is not ready",
        lambda: api_answers(layout),
        START_SECONDS,
    )
    if controllers:
        processes.start(layout, "kube-controller-manager", lines["kube-controller-manager"], env)
    if layout.full:
        _node_up(layout, lines, env)
    for name in wanted:
        processes.wait_for(
            layout,
            name,
            f"{name} did not keep running",
            lambda name=name: processes.is_alive(layout, name),
            0,
        )


def _node_up(layout: Layout, lines: Mapping[str, list[str]], env: Mapping[str, str]) -> None:
    _apply(layout, as_list(render.dns_objects()))
    for name in ("kube-scheduler", "containerd", "kube-proxy"):
        processes.start(layout, name, lines[name], env)
    processes.wait_for(
        layout,
        "containerd",
        "containerd does not answer",
        lambda: processes.succeeds([*images.ctr(layout), "version"]),
        START_SECONDS,
    )
    images.load_pause(layout)
    processes.start(layout, "kubelet", lines["kubelet"], env)
    processes.start(layout, "coredns", lines["coredns"], env)
    processes.wait_for(
        layout,
        "kubelet",
        "the node is not ready",
        # After a crash, the node's condition is still that of the old kubelet.
        lambda: kubelet_answers(layout) and node_is_ready(layout),
        START_SECONDS,
    )
    processes.wait_for(
        layout,
        "coredns",
        "cluster DNS is not ready",
        lambda: answers(f"http://127.0.0.1:{layout.ports.dns_ready}/ready"),
        START_SECONDS,
    )
    processes.wait_for(
        layout,
        "kube-proxy",
        "Services are not routed",
        # kube-proxy reports healthy before its first rules, without which the address of a
        # Service leads out of this machine.
        lambda: (
            answers(f"http://127.0.0.1:{layout.ports.proxy_health}/healthz")
            and network.routes_services()
        ),
        START_SECONDS,
    )


def _apply(layout: Layout, objects: str) -> None:
    """Apply objects, and retry for a while if the API server refuses.

    An interrupted start may still be applying them. It may also have reserved the address without
    creating the Service, which the API server repairs within a minute.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            kubectl(layout, "apply", "-f", "-", stdin=objects)
        except ClusterError:
            if time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(processes.POLL_SECONDS)


def write_config(layout: Layout) -> None:
    """Render every configuration file."""
    (layout.config / "cni").mkdir(parents=True, exist_ok=True)
    _write(layout.kubeconfig, render.kubeconfig(layout, "admin"))
    users = [subject.file for subject in certificates.subjects(layout)]
    for user in users:
        if user.startswith("kube") or user == "coredns":
            _write(layout.config / f"{user}.kubeconfig", render.kubeconfig(layout, user))
    if not layout.full:
        return
    cgroup_v1 = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    _write(layout.config / "containerd.toml", render.containerd(layout))
    _write(layout.config / "cni" / "10-moorage.conflist", render.cni(layout))
    _write(layout.config / "kubelet.json", render.kubelet(layout, cgroup_v1=cgroup_v1))
    _write(layout.config / "kube-proxy.json", render.kube_proxy(layout))
    _write(layout.config / "Corefile", render.corefile(layout))
    # Pods do not use the host's resolver directly; cluster DNS forwards to it.
    _write(layout.config / "resolv.conf", f"nameserver {places.BRIDGE_ADDRESS}\n")


def _write(path: Path, text: str) -> None:
    write_changed(path, text, 0o600)


def api_answers(layout: Layout) -> bool:
    """Whether the API server reports ready, including its post-start hooks."""
    context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    return answers(f"{layout.server}/readyz", context)


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether a GET of the address, without a proxy, succeeds within two seconds."""
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def kubelet_answers(layout: Layout) -> bool:
    """Whether the kubelet reports healthy."""
    return answers(f"http://127.0.0.1:{layout.ports.kubelet_health}/healthz")


def node_is_ready(layout: Layout) -> bool:
    """Whether the node's Ready condition is true."""
    template = '{.status.conditions[?(@.type=="Ready")].status}'
    try:
        said = kubectl(layout, "get", "node", places.NODE_NAME, "-o", f"jsonpath={template}")
    except ClusterError:
        return False
    return said.strip() == "True"


def kubectl(layout: Layout, *words: str, stdin: str | None = None) -> str:
    """Output of kubectl against the cluster."""
    program = layout.binaries / "kubectl"
    return processes.run(
        [program, f"--kubeconfig={layout.kubeconfig}", "--request-timeout=10s", *words],
        stdin=stdin,
    )


def as_list(objects: list[dict[str, object]]) -> str:
    """Objects as one document for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def status(layout: Layout) -> dict[str, object]:
    """Which processes run, and whether all required ones do."""
    parts = {name: processes.is_alive(layout, name) for name in render.commands(layout)}
    wanted = parts if layout.full else {name: parts[name] for name in CONTROL_PLANE}
    healthy = all(wanted.values()) and api_answers(layout)
    if layout.full and healthy:
        healthy = node_is_ready(layout)
    return {
        "healthy": healthy,
        "processes": parts,
        "kubeconfig": str(layout.kubeconfig),
        "logs": str(layout.logs),
    }


def down(layout: Layout, *, purge: bool = True) -> None:
    """Stop and remove everything; with `purge` also the storage of the image builder."""
    ownership.refuse_foreign(layout.state)
    lines = render.commands(layout)
    for name in STOP_ORDER:
        if name in lines:
            # Nothing is kept, so no process must finish; the API server would wait for watches.
            processes.stop(layout, name, lines[name], STOP_PATIENCE_SECONDS)
    if layout.full:
        containers.end_all(layout)
        network.down(layout)
    mounts.unmount_all([layout.state, layout.run])
    if layout.full:
        network.remove_cgroups()
        containers.remove_outside(layout)
        shutil.rmtree(layout.run, ignore_errors=True)
    if purge or not layout.images.exists():
        shutil.rmtree(layout.state, ignore_errors=True)
        return
    for entry in layout.state.iterdir():
        if entry in {layout.images, layout.state / ownership.MARK}:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
