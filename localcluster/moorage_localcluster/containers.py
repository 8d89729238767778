"""Ending containers and everything that the node writes to fixed places outside its folders.

containerd's shims outlive it, and containers outlive their shims; both on purpose. runc keeps a
file per container, below the cluster's own folder, with the process id and start time of its
first process: when that ends, the kernel ends the rest.
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

# Places that kubelet, CNI and shims write to whatever they are told.
OUTSIDE = (
    Path("/run/containerd"),
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    Path("/var/log/pods"),
)
# The control group that containerd makes for containers.
CONTAINERD_GROUP = "k8s.io"
GROUP_SECONDS = 10.0


def remember_outside(layout: Layout) -> None:
    """Note which of the outside places exist before the cluster writes to them."""
    note = layout.state / "outside.before"
    if not note.exists():
        write_whole(note, json.dumps([str(place) for place in OUTSIDE if place.exists()]))


def remove_outside(layout: Layout) -> None:
    """Remove the outside places that were not there before, and our files in those that were.

    Without the note nothing was started here, and all of it is somebody else's.
    """
    note = layout.state / "outside.before"
    if not note.exists():
        return
    kept = set(json.loads(note.read_text()))
    for place in OUTSIDE:
        # ours are unmounted by now: a mount means that another cluster moved in since
        if str(place) not in kept and not mounts.is_mounted_below(place):
            shutil.rmtree(place, ignore_errors=True)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(str(layout.logs)):
            link.unlink()
    for file in Path("/var/lib/cni").glob("*/moorage-local-*"):
        file.unlink()


def end_all(layout: Layout) -> None:
    """End containerd, its shims and every container, however many of them still live."""
    processes.stop(layout, "containerd", render.commands(layout)["containerd"])
    for shim in processes.find(lambda words: is_shim(words, layout.containerd_socket)):
        processes.end(shim, patience_seconds=0)
    left: list[Path] = []
    for file in layout.runc.glob("*/*/state.json"):
        try:
            state = json.loads(file.read_text())
        except (OSError, ValueError):
            # half written when the machine went down: that process went with it
            continue
        processes.end(first_process(state), patience_seconds=0)
        left += groups(state)
    # the kernel takes a moment for a container's other processes
    deadline = time.monotonic() + GROUP_SECONDS
    while (left := [group for group in left if not _remove_group(group)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(processes.POLL_SECONDS)


def is_shim(words: Sequence[str], socket: Path) -> bool:
    """Whether a command line is that of a shim of the containerd at this socket; pure."""
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
    """Remove a group, those below it, and its parent when that was made for containers alone.

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
        # gone already, or in use
        return
