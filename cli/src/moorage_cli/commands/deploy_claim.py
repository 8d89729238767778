"""The upload of `moorage deploy` to a claim, through a temporary pod that mounts it.

Content, paths --> claim, upload pod --> port-forward --> folder of the claim
"""

import argparse
import re
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from moorage_cli.ask import upload
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.manifests import deploying
from moorage_cli.manifests.deploying import Content, Target
from moorage_cli.printing.failures import Failure

__all__ = ["OPERATOR_SELECTOR", "upload_to_claim"]

OPERATOR_SELECTOR = "app.kubernetes.io/part-of=moorage"
IMAGE_VARIABLE = "MOORAGE_RUNTIME_IMAGE"
SECRETS_VARIABLE = "MOORAGE_IMAGE_PULL_SECRETS"
POLL_SECONDS = 0.5
# Reasons with which a container of the upload pod does not start without help.
POD_FAILURES = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    }
)  # fmt: skip


def upload_to_claim(  # noqa: PLR0913, PLR0917 -- who asks, what is sent, and to where
    shell: Shell,
    cluster: ClusterLike,
    target: Target,
    claim: Mapping[str, Any],
    content: Content,
    paths: Mapping[str, Path],
    given: argparse.Namespace,
) -> bool:
    """Write the files to the model's folder of a claim; False if they are there already.

    Args:
        shell: Shows the progress.
        cluster: The cluster.
        target: The model.
        claim: The claim as a document; it is created only if it does not exist.
        content: The files, with their sizes and digests.
        paths: Where they are on this machine.
        given: The options of the command.

    Raises:
        Failure: The pod cannot start, or does not get what it expects.
    """
    name = claim["metadata"]["name"]
    image, pull_secrets = _image_of(cluster, given)  # a new claim without files may cost a disk
    if cluster.objects.find("PersistentVolumeClaim", target.namespace, name) is None:
        cluster.objects.create(claim)
        shell.tell(f"{target.name}: claim {name} is created")
    program = upload.receiver_program()
    on_openshift = cluster.objects.has_group(deploying.OPENSHIFT_GROUP)
    pod = deploying.upload_pod(
        target, token_hex(4), name, image, program, pull_secrets, on_openshift=on_openshift
    )
    pod_name = pod["metadata"]["name"]
    try:
        cluster.objects.create(pod)
        _wait_for_pod(shell, cluster, target, pod_name, given.timeout)
        return upload.send(
            lambda: cluster.forward(target.namespace, pod_name, deploying.UPLOAD_PORT),
            deploying.folder_of(target, content),
            content,
            dict(paths),
            lambda sent: shell.count(sent, content.size_bytes),
        )
    finally:
        cluster.objects.delete("Pod", target.namespace, pod_name)


def _image_of(cluster: ClusterLike, given: argparse.Namespace) -> tuple[str, list[str]]:
    """The image of the upload pod and the Secrets that pull it: those of the bundled runtime.

    Raises:
        Failure: The operator's Deployment cannot be read, or there is none.
    """
    if given.image:
        return given.image, []
    fix = "set --image to an image with Python 3, such as that of the bundled runtime"
    try:
        found = cluster.objects.deployments_everywhere(OPERATOR_SELECTOR)
    except Failure as failure:
        raise Failure(f"the runtime's image is unknown: {failure}: {fix}") from failure
    for deployment in found:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            variables = {each["name"]: each.get("value", "") for each in container.get("env", [])}
            if image := variables.get(IMAGE_VARIABLE):
                secrets = variables.get(SECRETS_VARIABLE, "")
                return image, [each for each in re.split(r"[,\s]+", secrets) if each]
    raise Failure(f"the runtime's image is unknown: the operator's Deployment is missing: {fix}")


def _wait_for_pod(
    shell: Shell, cluster: ClusterLike, target: Target, name: str, seconds: float
) -> None:
    """Wait until the upload pod runs.

    Raises:
        Failure: It cannot start, has ended, or does not start in time.
    """
    deadline, shown = time.monotonic() + seconds, ""
    while True:
        pod = cluster.objects.find("Pod", target.namespace, name)
        if pod is None:
            raise Failure(f"upload pod {name}: it was deleted")
        phase, reason, message = _pod_state(pod)
        if phase == "Running":
            return
        if phase in {"Failed", "Succeeded"} or reason in POD_FAILURES:
            raise Failure(f"upload pod {name}: {reason or phase}: {message or 'it has ended'}")
        line = f"{target.name}: waiting for the upload pod: {reason or phase}"
        if line != shown:
            shell.tell(f"{line}: {message}" if message else line)
            shown = line
        if time.monotonic() > deadline:
            events = cluster.events(target.namespace, [name])
            last = f": {events[-1].reason}: {events[-1].message}" if events else ""
            raise Failure(f"upload pod {name}: it does not start within {seconds:g} s{last}")
        time.sleep(POLL_SECONDS)


def _pod_state(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    """Phase, reason and message of a pod with one container."""
    status = pod.get("status", {})
    for each in status.get("containerStatuses", []):
        for state in each.get("state", {}).values():
            if state.get("reason"):
                return status.get("phase", ""), state["reason"], state.get("message", "")
    for each in status.get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] != "True":
            return status.get("phase", ""), each.get("reason", ""), each.get("message", "")
    return status.get("phase", ""), "", ""
