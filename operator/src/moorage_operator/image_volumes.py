"""Whether the pods of this cluster can have an image as a volume; found out at the start.

    a Deployment, tried without being made --> does the API server keep the field?
    the nodes                              --> do kubelet and container runtime mount it?
                                               both --> OperatorConfig.image_volumes, unless
                                               the settings say so themselves

Both have to be asked. The API server forgets the fields of a feature that is off at it, and says
nothing of the nodes; a node tells its versions, and not which features are on. So a kubelet counts
from the version that has the feature on by default, and a container runtime from the one that
mounts images. What cannot be found out counts as no: an init container fetches everywhere.

Source: Kubernetes feature gate ImageVolume (on by default from 1.35); releases of containerd 2.1
and CRI-O 1.33.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .config import OperatorConfig
from .kube import errors, kinds
from .kube.client import KubeClient
from .settings import Settings

__all__ = ["Verdict", "find", "judge_nodes", "keeps_image", "settled"]

logger = logging.getLogger(__name__)

KUBELET = (1, 35)
RUNTIMES = {"containerd": (2, 1), "cri-o": (1, 33)}
VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)")
NAME = "moorage-image-volume-trial"
TRIAL_IMAGE = "registry.invalid/model:1"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why pods can have image volumes or cannot, as a sentence."""

    why: str
    usable: bool = False


async def settled(client: KubeClient, settings: Settings) -> OperatorConfig:
    """The configuration, with what the cluster says where the settings leave it open."""
    config = settings.config
    if settings.image_volumes != "auto":
        return replace(config, image_volumes=settings.image_volumes == "always")
    namespace = next(iter(settings.namespaces), config.namespace or "default")
    found = await find(client, namespace)
    logger.info("image volumes", extra={"used": found.usable, "why": found.why})
    return replace(config, image_volumes=found.usable)


async def find(client: KubeClient, namespace: str) -> Verdict:
    """Ask the API server and look at the nodes; nothing is made.

    Args:
        client: The API.
        namespace: One in which the operator may create Deployments.
    """
    try:
        answer = await client.try_out(kinds.DEPLOYMENTS, _make_trial(namespace))
        if not keeps_image(answer):
            return Verdict(why="the API server drops image volumes: its feature gate is off")
        return judge_nodes(await _read_nodes(client))
    except errors.Invalid:
        return Verdict(why="the API server knows no image volumes: its feature gate is off")
    except errors.ApiError as error:
        return Verdict(why=f"it cannot be found out: {error.message}")


def keeps_image(deployment: Mapping[str, Any]) -> bool:
    """Whether the API server's answer still has the volume that it was asked for."""
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or [{}]
    return "image" in volumes[0]


def judge_nodes(nodes: Iterable[Mapping[str, Any]]) -> Verdict:
    """What the nodes say: the first that is too old speaks for all, as a pod may come to any."""
    infos = {node["metadata"]["name"]: node["status"]["nodeInfo"] for node in nodes}
    # pods of models are of Linux
    linux = {name: info for name, info in infos.items() if info["operatingSystem"] == "linux"}
    if not linux:
        return Verdict(why="there is no node to judge by")
    for name, info in sorted(linux.items()):
        if lack := _lack(info):
            return Verdict(why=f"node {name} {lack}")
    return Verdict(usable=True, why=f"the API server and {len(linux)} nodes have them")


def _lack(info: Mapping[str, Any]) -> str:
    """What a node is too old for; empty where it is not."""
    kubelet = info["kubeletVersion"]
    if _version(kubelet) < KUBELET:
        return f"has kubelet {kubelet}, expected {_text(KUBELET)} or later"
    runtime, _, version = info["containerRuntimeVersion"].partition("://")
    least = RUNTIMES.get(runtime)
    if least is None:
        return f"has the container runtime {runtime}, expected one of {', '.join(RUNTIMES)}"
    if _version(version) < least:
        return f"has {runtime} {version}, expected {_text(least)} or later"
    return ""


def _version(text: str) -> tuple[int, int]:
    """Major and minor; what is no version is older than every one."""
    found = VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


async def _read_nodes(client: KubeClient) -> list[Mapping[str, Any]]:
    """Of each node its name and what it says of itself; the rest is forgotten page by page."""
    found: list[Mapping[str, Any]] = []
    continue_ = ""
    while True:
        page = await client.page(kinds.NODES, continue_=continue_)
        found += [
            {
                "metadata": {"name": node["metadata"]["name"]},
                "status": {"nodeInfo": node["status"]["nodeInfo"]},
            }
            for node in page.items
        ]
        continue_ = page.continue_
        if not continue_:
            return found


def _make_trial(namespace: str) -> dict[str, Any]:
    """A Deployment whose pods would have an image as a volume; of no replicas, and never made."""
    marks = {"app.kubernetes.io/name": NAME}
    mount = {"name": "model", "mountPath": "/model"}
    pod = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "trial",
                "image": TRIAL_IMAGE,
                "volumeMounts": [mount],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "volumes": [{"name": "model", "image": {"reference": TRIAL_IMAGE}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": marks}, "spec": pod},
        },
    }
