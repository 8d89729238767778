"""Every name that the operator gives or relies on: children, containers, volumes, annotations.

A child's name is the model's own wherever Kubernetes lets it be, so that users find it.
"""

import re

from .api.v1alpha1 import GROUP
from .shortening import LABEL_LIMIT, with_hash

__all__ = [
    "API_VERSION",
    "APPLIED_HASH",
    "FETCHED_FOLDER",
    "FETCH_CONTAINER",
    "FETCH_MOUNT_PATH",
    "FIELD_MANAGER",
    "GROUP",
    "GRPC_PORT",
    "HTTP_PORT",
    "KIND",
    "MODEL_MOUNT_PATH",
    "MODEL_VOLUME",
    "PLURAL",
    "READINESS_GATE",
    "RUNTIME_CONTAINER",
    "SPEC",
    "STATUS_FIELD_MANAGER",
    "TMP_VOLUME",
    "autoscaler",
    "deployment",
    "deployment_of",
    "disruption_budget",
    "kept_revision",
    "network_policy",
    "route",
    "service",
    "service_of",
]

API_VERSION = f"{GROUP}/v1alpha1"
KIND = "InferenceModel"
PLURAL = "inferencemodels"

FIELD_MANAGER = "moorage"
STATUS_FIELD_MANAGER = "moorage-status"
APPLIED_HASH = f"{GROUP}/applied-hash"
# What a Deployment's template was rendered from; its ReplicaSets keep it.
SPEC = f"{GROUP}/spec"
# A condition of pods, set by the operator.
READINESS_GATE = f"{GROUP}/model-ready"

RUNTIME_CONTAINER = "runtime"
MODEL_VOLUME = "model"
# Where the init container that fetches a model writes, and the folder in it that is the model.
FETCH_CONTAINER = "fetch"
FETCH_MOUNT_PATH = "/mnt/volume"
FETCHED_FOLDER = "model"
MODEL_MOUNT_PATH = "/mnt/models"
TMP_VOLUME = "tmp"
HTTP_PORT = "http"
GRPC_PORT = "grpc"

# A Service's name is an RFC 1035 label; an InferenceModel's may be any RFC 1123 subdomain.
SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def deployment(model_name: str) -> str:
    """Name of the model's Deployment: that of its Service."""
    return service(model_name)


def autoscaler(model_name: str) -> str:
    """Name of the model's HorizontalPodAutoscaler or ScaledObject: that of its Service."""
    return service(model_name)


def deployment_of(model_name: str, revision: str) -> str:
    """Name of the Deployment of one revision, where revisions have one each."""
    readable = f"{service(model_name)}-{revision}"
    return readable if len(readable) <= LABEL_LIMIT else with_hash(readable, readable)


def kept_revision(model_name: str, revision: str) -> str:
    """Name of the ControllerRevision that keeps a revision."""
    return deployment_of(model_name, revision)


def disruption_budget(model_name: str) -> str:
    """Name of the model's PodDisruptionBudget: that of its Service."""
    return service(model_name)


def network_policy(model_name: str) -> str:
    """Name of the model's NetworkPolicy: that of its Service."""
    return service(model_name)


def route(model_name: str) -> str:
    """Name of the model's HTTPRoute: that of its Service."""
    return service(model_name)


def service_of(model_name: str, revision: str) -> str:
    """Name of the Service of one revision, where a route tells them apart."""
    return deployment_of(model_name, revision)


def service(model_name: str) -> str:
    """Name of the model's Service.

    The model's name where that is an RFC 1035 label of at most 63 characters; else a readable
    part of it with a hash, so that two models never share a child.
    """
    if len(model_name) <= LABEL_LIMIT and SERVICE_NAME.fullmatch(model_name):
        return model_name
    readable = model_name.replace(".", "-")
    return with_hash(readable if readable[0].isalpha() else f"m-{readable}", model_name)
