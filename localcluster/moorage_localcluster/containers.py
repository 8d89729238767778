"""Ends containers and removes the files that the node writes outside its own folders.

By design, containerd's shims outlive it, and containers outlive their shims. runc keeps a file per
container in the cluster's folder, with the process id and start time of its first process. When
that process ends, the kernel ends the others.
"""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage_localcluster import mounts, processes, render
from moorage_localcluster.files import write_whole
from moorage_localcluster.layout import Layout

# Fixed paths of the kubelet, CNI and shims, which no setting changes.
OUTSIDE = (
    Path("/run/containerd"),
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    Path("/var/log/pods"),
)
# The control group that containerd creates for containers.
CONTAINERD_GROUP = "k8s.io"
GROUP_SECONDS = 10.0


def remember_outside(layout: Layout) -> None:
    """Record which of these paths exist before the cluster writes to them."""
    note = layout.state / "outside.before"
    if not note.exists():
        write_whole(note, json.dumps([str(place) for place in OUTSIDE if place.exists()]))


def remove_outside(layout: Layout) -> None:
    """Remove the paths that did not exist before, and our files from those that did.

    Without the record, no cluster was started here, so nothing is ours.
    """
    note = layout.state / "outside.before"
    if not note.exists():
        return
    kept = set(json.loads(note.read_text()))
    for place in OUTSIDE:
        # Ours are already unmounted: a mount belongs to another cluster.
        if str(place) not in kept and not mounts.is_mounted_below(place):
            shutil.rmtree(place, ignore_errors=True)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(str(layout.logs)):
            link.unlink()
    for file in Path("/var/lib/cni").glob("*/moorage-local-*"):
        file.unlink()


def end_all(layout: Layout) -> None:
    """End containerd, its shims and every container."""
    processes.stop(layout, "containerd", render.commands(layout)["containerd"])
    for shim in processes.find(lambda words: is_shim(words, layout.containerd_socket)):
        processes.end(shim, patience_seconds=0)
    left: list[Path] = []
    for file in layout.runc.glob("*/*/state.json"):
        try:
            state = json.loads(file.read_text())
        except (OSError, ValueError):
            # Partially written when the machine crashed, so that process is gone too.
            continue
        processes.end(first_process(state), patience_seconds=0)
        left += groups(state)
    # The kernel needs a moment to end the container's other processes.
    deadline = time.monotonic() + GROUP_SECONDS
    while (left := [group for group in left if not _remove_group(group)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(processes.POLL_SECONDS)


def is_shim(words: Sequence[str], socket: Path) -> bool:
    """Whether a command line is a shim of the containerd with this socket; pure."""
    return (
        bool(words)
        and Path(words[0]).name.startswith("containerd-shim")
        and str(socket) in words[1:]
    )


def first_process(state: Mapping[str, Any]) -> processes.Record:
    """The first process of a container, from runc's file; pure."""
    return processes.Record(int(state["init_process_pid"]), int(state["init_process_start"]))


def groups(state: Mapping[str, Any]) -> list[Path]:
    """A container's control groups, from runc's file; pure."""
    return sorted({Path(path) for path in (state.get("cgroup_paths") or {}).values()})


def _remove_group(group: Path) -> bool:
    """Remove a group, its descendants, and its parent if it exists only for containers.

    Returns:
        Whether the group is gone.
    """
    below = [path for path in group.rglob("*") if path.is_dir()] if group.is_dir() else []
    for path in [*sorted(below, key=lambda path: -len(path.parts)), group]:
        _rmdir(path)
    if group.parent.name == CONTAINERD_GROUP:
        _rmdir(group.parent)
    return not group.exists()


def _rmdir(group: Path) -> None:
    try:
        group.rmdir()
    except OSError:
        # Already removed, or in use.
        return
