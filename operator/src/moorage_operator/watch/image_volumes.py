"""Detects at startup whether the cluster supports image volumes.

    a Deployment as a dry run --> does the API server keep the field?
    the nodes                 --> do kubelet and container runtime support it?
                                  both --> OperatorConfig.image_volumes, unless the setting
                                  overrides it

Both checks are necessary. The API server drops the fields of a disabled feature, but does not know
the nodes. A node reports its versions, but not its features. So a kubelet must have the version
that enables the feature by default, and the container runtime the one that added it. If a check
fails, image volumes are not used: an init container works everywhere.

The result decides the pods of all models, so it stays until the operator restarts. A right may be
granted just after the operator starts, so a refusal only counts once it lasts. An operator of some
namespaces is not granted the right to read nodes, so it does not wait for it.

Source: Kubernetes feature gate ImageVolume (on by default from 1.35); releases of containerd 2.1
and CRI-O 1.33.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moorage_operator.api.config import OperatorConfig
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient

__all__ = ["Verdict", "find", "judge_nodes", "keeps_image", "settled"]

logger = logging.getLogger(__name__)

REFUSED_TRIES = 5
RETRY_SECONDS = 1.0

UNANSWERED_SECONDS = 20.0
"""How long the check is repeated while it fails for another cause than a missing right."""

UNANSWERED = errors.Unreachable | errors.Throttled | errors.ServerError

KUBELET = (1, 35)
RUNTIMES = {"containerd": (2, 1), "cri-o": (1, 33)}
VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)")
GATE_OFF = "its feature gate ImageVolume is off"
NAME = "moorage-image-volume-trial"
TRIAL_IMAGE = "registry.invalid/model:1"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether image volumes can be used, and why.

    `is_refused` means that the operator lacks a right, and `is_unanswered` that the API server
    cannot answer now, so that nothing is known.
    """

    why: str
    usable: bool = False
    is_refused: bool = False
    is_unanswered: bool = False


async def settled(
    client: KubeClient, config: OperatorConfig, setting: str, namespaces: Sequence[str]
) -> OperatorConfig:
    """Return the configuration with the detected support if the setting is `auto`."""
    if setting != "auto":
        return replace(config, image_volumes=setting == "always")
    namespace = next(iter(namespaces), config.namespace or "default")
    clock = asyncio.get_running_loop().time
    deadline = clock() + UNANSWERED_SECONDS
    found = await find(client, namespace)
    tries = 0 if namespaces else REFUSED_TRIES
    while (found.is_refused and tries) or (found.is_unanswered and clock() < deadline):
        tries -= found.is_refused
        await asyncio.sleep(RETRY_SECONDS)
        found = await find(client, namespace)
    logger.info("image volumes", extra={"used": found.usable, "why": found.why})
    return replace(config, image_volumes=found.usable)


async def find(client: KubeClient, namespace: str) -> Verdict:
    """Check the API server and the nodes without creating anything.

    Args:
        client: The API.
        namespace: A namespace in which the operator may create Deployments.
    """
    try:
        answer = await client.try_out(kinds.DEPLOYMENTS, _make_trial(namespace))
        if not keeps_image(answer):
            return Verdict(why=f"the API server drops image volumes: {GATE_OFF}")
        return judge_nodes(await _read_nodes(client))
    except errors.Invalid:
        return Verdict(why=f"the API server rejects image volumes: {GATE_OFF}")
    except errors.ApiError as error:
        return Verdict(
            why=f"the check failed: {error.message}",
            is_refused=isinstance(error, errors.Forbidden),
            is_unanswered=isinstance(error, UNANSWERED),
        )


def keeps_image(deployment: Mapping[str, Any]) -> bool:
    """Whether the API server's answer still has the requested volume."""
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or [{}]
    return "image" in volumes[0]


def judge_nodes(nodes: Iterable[Mapping[str, Any]]) -> Verdict:
    """Check the nodes: all must support image volumes, because a pod may run on any of them."""
    infos = {node["metadata"]["name"]: node["status"]["nodeInfo"] for node in nodes}
    # Model pods only run on Linux.
    linux = {name: info for name, info in infos.items() if info["operatingSystem"] == "linux"}
    if not linux:
        return Verdict(why="the cluster has no Linux node")
    for name, info in sorted(linux.items()):
        if lack := _lack(info):
            return Verdict(why=f"node {name} {lack}")
    return Verdict(usable=True, why=f"the API server and {len(linux)} nodes support them")


def _lack(info: Mapping[str, Any]) -> str:
    """Return why a node does not support image volumes; "" if it does."""
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
    """Parse the major and minor version; an invalid version is older than all others."""
    found = VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


async def _read_nodes(client: KubeClient) -> list[Mapping[str, Any]]:
    """Read the name and the versions of each node, page by page."""
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
    """Build a Deployment with an image volume and without replicas, for the dry run."""
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
