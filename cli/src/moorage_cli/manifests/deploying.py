"""The objects that `moorage deploy` writes; pure.

PATH or URI, options --> Upload --> ConfigMap, or claim and upload pod; InferenceModel

The name of the uploaded content contains its digest. Changed content is therefore a new location,
which is an edit of the model that rolls out, and earlier revisions keep the content they need.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "CONFIG_MAP_LIMIT_BYTES",
    "DEPLOYED_LABEL",
    "IN_CLUSTER",
    "OPENSHIFT_GROUP",
    "SCHEMES",
    "UPLOAD_PORT",
    "Content",
    "Target",
    "claim_of",
    "config_map_of",
    "content_of",
    "default_size",
    "fits_config_map",
    "folder_of",
    "model_of",
    "unused_uploads",
    "upload_pod",
]

# Kubernetes limits the sum of the files, before base64.
CONFIG_MAP_LIMIT_BYTES = 1 << 20
IN_CLUSTER = ("pvc", "configmap")
SCHEMES = (*IN_CLUSTER, "s3", "gs", "azblob", "hf", "oci", "https")
DEPLOYED_LABEL = "moorage.dev/deployed-model"
MANAGED = {"app.kubernetes.io/managed-by": "moorage-deploy"}
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
DIGEST_LENGTH = 12
# The group of the runtime's image, which may then write to a new volume.
GROUP = 65532
# OpenShift gives every pod a group of its namespace's own range, and refuses others.
OPENSHIFT_GROUP = "security.openshift.io"
UPLOAD_FOLDER = "/mnt/models"
UPLOAD_PORT = 8470
POD_SECONDS = 6 * 3600
GIBIBYTE = 1 << 30
IN_PROGRESS = timedelta(hours=1)
"""A deployment writes its ConfigMap, the model and the owner of the ConfigMap within seconds."""


@dataclass(frozen=True, slots=True)
class Content:
    """Files to upload.

    Args:
        files: Path in the model's folder to the size and the SHA-256 of the file.
        digest: Of all paths and contents.
    """

    files: Mapping[str, tuple[int, str]]
    digest: str

    @property
    def size_bytes(self) -> int:
        """The sum of the files."""
        return sum(size for size, _ in self.files.values())


@dataclass(frozen=True, slots=True)
class Target:
    """The model to write: its name and namespace, and the options of the command.

    Without a namespace, the documents have none, and kubectl uses that of its context. Nodes mount
    an artifact as an empty folder, because it is not a container image: a pod downloads it.
    """

    name: str
    namespace: str
    runtime: str = ""
    replicas: int | None = None
    trusted: bool = False
    credentials: str = ""
    contract: Mapping[str, Any] | None = None
    is_artifact: bool = False


def content_of(files: Mapping[str, tuple[int, str]]) -> Content:
    """Content from the size and SHA-256 of each file."""
    text = json.dumps(sorted((path, *of) for path, of in files.items()))
    return Content(files, hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH])


def folder_of(target: Target, content: Content) -> str:
    """The model's folder of a claim."""
    return f"{target.name}/{content.digest}"


def fits_config_map(content: Content) -> bool:
    """Whether a ConfigMap can hold the files: small, and without folders."""
    return content.size_bytes <= CONFIG_MAP_LIMIT_BYTES and all(
        KEY.fullmatch(path) for path in content.files
    )


def config_map_of(target: Target, content: Content, data: Mapping[str, bytes]) -> dict[str, Any]:
    """An immutable ConfigMap with the files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(target, f"{target.name}-model-{content.digest}"),
        "immutable": True,
        "binaryData": {
            path: base64.b64encode(data[path]).decode() for path in sorted(content.files)
        },
    }


def unused_uploads(
    uploads: Sequence[Mapping[str, Any]],
    model: Mapping[str, Any],
    kept: Sequence[Mapping[str, Any]],
    now: datetime,
) -> list[str]:
    """The names of ConfigMaps that neither the spec nor a kept revision needs any more.

    Args:
        uploads: The ConfigMaps with the model's label. One without an owner may belong to a
            deployment in progress; after an hour, that deployment was interrupted.
        model: The model.
        kept: The objects that keep revisions. Their pod templates name the ConfigMaps.
        now: The current time, aware.
    """
    needed = json.dumps([model["spec"], *kept])

    def is_settled(metadata: Mapping[str, Any]) -> bool:
        created = datetime.fromisoformat(metadata["creationTimestamp"])
        return bool(metadata.get("ownerReferences")) or now - created > IN_PROGRESS

    return [
        name
        for metadata in (each["metadata"] for each in uploads)
        if is_settled(metadata) and (name := metadata["name"]) not in needed
    ]


def claim_of(target: Target, name: str, size: str, storage_class: str | None) -> dict[str, Any]:
    """A claim for uploaded models."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(target, name),
        "spec": spec,
    }


def default_size(content: Content) -> str:
    """A size of a new claim with room for the model and one update."""
    return f"{max(1, math.ceil(2.2 * content.size_bytes / GIBIBYTE))}Gi"


def upload_pod(  # noqa: PLR0913 -- what differs between two pods
    target: Target,
    suffix: str,
    claim: str,
    image: str,
    program: str,
    pull_secrets: Sequence[str],
    *,
    on_openshift: bool = False,
) -> dict[str, Any]:
    """A pod that complies with the restricted profile and runs a Python program on the claim.

    Its name ends with the suffix. The API server does not choose the name: a command that is
    interrupted while it creates the pod could not delete it.
    """
    group = {} if on_openshift else {"fsGroup": GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    same_node = {
        "weight": 1,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": {"moorage.dev/model": target.name}},
            "topologyKey": "kubernetes.io/hostname",
        },
    }
    container = {
        "name": "upload",
        "image": image,
        "command": ["python3", "-c", program, UPLOAD_FOLDER, str(UPLOAD_PORT)],
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "models", "mountPath": UPLOAD_FOLDER}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{target.name[:40].rstrip('-.')}-upload-{suffix}",
            "namespace": target.namespace,
            "labels": {**MANAGED, DEPLOYED_LABEL: target.name},
        },
        "spec": {
            "restartPolicy": "Never",
            # A killed command cannot remove its pod, so the pod ends by itself.
            "activeDeadlineSeconds": POD_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "imagePullSecrets": [{"name": name} for name in pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                **group,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            # A ReadWriteOnce volume that a replica uses can be mounted on its node only.
            "affinity": {
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [same_node]}
            },
            "containers": [container],
            "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def model_of(target: Target, uri: str) -> dict[str, Any]:
    """The InferenceModel."""
    model: dict[str, Any] = {"uri": uri}
    if target.trusted:
        model["trusted"] = True
    if target.credentials:
        model["credentials"] = {"secretName": target.credentials}
    if target.is_artifact:
        model["imageVolume"] = "Never"
    spec: dict[str, Any] = {"model": model}
    if target.runtime:
        spec["runtime"] = {"name": target.runtime}
    if target.replicas is not None:
        spec["replicas"] = target.replicas
    if target.contract:
        spec["contract"] = dict(target.contract)
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": target.name, **_place(target)},
        "spec": spec,
    }


def _metadata(target: Target, name: str) -> dict[str, Any]:
    return {
        "name": name,
        **_place(target),
        "labels": {**MANAGED, DEPLOYED_LABEL: target.name},
    }


def _place(target: Target) -> dict[str, str]:
    return {"namespace": target.namespace} if target.namespace else {}
