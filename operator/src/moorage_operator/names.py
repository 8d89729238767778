"""Every name that the operator gives or relies on: children, containers, volumes, annotations.

A child's name is the model's own wherever Kubernetes lets it be, so that users find it.
"""

import hashlib
import re

__all__ = [
    "APPLIED_HASH",
    "FIELD_MANAGER",
    "RUNTIME_CONTAINER",
    "STATUS_FIELD_MANAGER",
    "deployment",
    "service",
    "shortened",
]

GROUP = "moorage.dev"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "InferenceModel"
PLURAL = "inferencemodels"

FIELD_MANAGER = "moorage"
STATUS_FIELD_MANAGER = "moorage-status"
APPLIED_HASH = f"{GROUP}/applied-hash"

RUNTIME_CONTAINER = "runtime"
MODEL_VOLUME = "model"
MODEL_MOUNT_PATH = "/mnt/models"
TMP_VOLUME = "tmp"
HTTP_PORT = "http"
GRPC_PORT = "grpc"

LABEL_LIMIT = 63  # of a label value and of a DNS label, in characters
HASH_LENGTH = 8
# A Service's name is an RFC 1035 label; an InferenceModel's may be any RFC 1123 subdomain.
SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def deployment(model_name: str) -> str:
    """Name of the model's Deployment: that of its Service."""
    return service(model_name)


def service(model_name: str) -> str:
    """Name of the model's Service.

    The model's name where that is an RFC 1035 label of at most 63 characters; else a readable
    part of it with a hash, so that two models never share a child.
    """
    if len(model_name) <= LABEL_LIMIT and SERVICE_NAME.fullmatch(model_name):
        return model_name
    readable = model_name.replace(".", "-")
    return _with_hash(readable if readable[0].isalpha() else f"m-{readable}", model_name)


def shortened(name: str) -> str:
    """The name itself where it fits a label value (63 characters), else cut, with a hash."""
    return name if len(name) <= LABEL_LIMIT else _with_hash(name, name)


def _with_hash(readable: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode()).hexdigest()[:HASH_LENGTH]
    return f"{readable[: LABEL_LIMIT - HASH_LENGTH - 1].rstrip('-.')}-{digest}"
