"""A claim `models` on a folder of the node, as an administrator provides it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.kubectl import Kubectl

__all__ = ["models_claim"]


@contextmanager
def models_claim(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """The claim in the namespace of kubectl; `folder` holds its files."""
    # the model's pod runs as another user
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    cluster = Kubectl(kubectl.env, "default")
    cluster.apply(_volume(kubectl.namespace, folder))
    kubectl.apply(_claim())
    try:
        yield
    finally:
        # it waits for the claim, which goes with its namespace
        cluster.run("delete", "pv", f"models-{kubectl.namespace}", "--wait=false")


def _claim() -> dict[str, Any]:
    """A claim for a volume without a storage class, created by an administrator."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {
            "storageClassName": "",
            "accessModes": ["ReadOnlyMany"],
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }


def _volume(namespace: str, folder: Path) -> dict[str, Any]:
    """A volume on the node for only that claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"models-{namespace}"},
        "spec": {
            "storageClassName": "",
            "accessModes": ["ReadOnlyMany"],
            "capacity": {"storage": "1Mi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": "models"},
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
