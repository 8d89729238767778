"""All names that the operator assigns or relies on: children, containers, volumes, annotations.

A child has the model's name wherever Kubernetes allows it, so that users find it. A longer name is
shortened to 63 characters: a readable part and a hash of the whole name, which keeps it unique.
"""

import hashlib
import re

from .v1alpha1 import GROUP

__all__ = [
    "API_VERSION",
    "APPLIED_HASH",
    "ENFORCED",
    "FETCHED_FOLDER",
    "FETCH_CONTAINER",
    "FETCH_MOUNT_PATH",
    "FIELD_MANAGER",
    "GROUP",
    "GRPC_PORT",
    "HTTP_PORT",
    "KIND",
    "LABEL_LIMIT",
    "MODEL_MOUNT_PATH",
    "MODEL_VOLUME",
    "PLURAL",
    "READINESS_GATE",
    "RESTARTED_AT",
    "RUNTIME_CONTAINER",
    "RUNTIME_KIND",
    "SPEC",
    "STATUS_FIELD_MANAGER",
    "TLS_MOUNT_PATH",
    "TLS_VOLUME",
    "TMP_VOLUME",
    "TOKEN_MOUNT_PATH",
    "TOKEN_VOLUME",
    "autoscaler",
    "deployment",
    "deployment_of",
    "disruption_budget",
    "fits",
    "ingress",
    "is_of",
    "kept_revision",
    "network_policy",
    "route",
    "service",
    "service_of",
    "shortened",
    "with_hash",
]

API_VERSION = f"{GROUP}/v1alpha1"
KIND = "InferenceModel"
PLURAL = "inferencemodels"
RUNTIME_KIND = "InferenceRuntime"

FIELD_MANAGER = "moorage"
STATUS_FIELD_MANAGER = "moorage-status"
APPLIED_HASH = f"{GROUP}/applied-hash"
# The spec that a Deployment's template was rendered from; its ReplicaSets inherit it.
SPEC = f"{GROUP}/spec"
# On a pod: `spec.rollout.restartedAt`, whose change replaces the pods.
RESTARTED_AT = f"{GROUP}/restarted-at"
# On a pod: a hash of the enforced contract and smoke tests.
ENFORCED = f"{GROUP}/enforced"
# A pod condition that the operator sets.
READINESS_GATE = f"{GROUP}/model-ready"

RUNTIME_CONTAINER = "runtime"
MODEL_VOLUME = "model"
# The volume that the downloading init container writes to, and the model's folder in it.
FETCH_CONTAINER = "fetch"
FETCH_MOUNT_PATH = "/mnt/volume"
FETCHED_FOLDER = "model"
MODEL_MOUNT_PATH = "/mnt/models"
TMP_VOLUME = "tmp"
# Secrets for the server: its certificate, and the tokens of its clients.
TLS_VOLUME = "tls"
TLS_MOUNT_PATH = "/mnt/tls"
TOKEN_VOLUME = "tokens"  # noqa: S105  a name, not a password
TOKEN_MOUNT_PATH = "/mnt/tokens"  # noqa: S105  as above
HTTP_PORT = "http"
GRPC_PORT = "grpc"

# The name of a Service is an RFC 1035 label; that of an InferenceModel an RFC 1123 subdomain.
SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")

LABEL_LIMIT = 63  # of a label value and of a DNS label, in characters
HASH_LENGTH = 8
# The result of `with_hash` for a name that is too long has exactly 63 characters.
HASHED = re.compile(rf".{{{LABEL_LIMIT - HASH_LENGTH - 1}}}-[0-9a-f]{{{HASH_LENGTH}}}")
OF_REVISION = re.compile(r"-[0-9a-f]{10}")


def deployment(model_name: str) -> str:
    """Return the name of the model's Deployment: that of its Service."""
    return service(model_name)


def autoscaler(model_name: str) -> str:
    """Return the name of the model's autoscaler: that of its Service."""
    return service(model_name)


def deployment_of(model_name: str, revision: str) -> str:
    """Return the name of a revision's Deployment, for strategies with one per revision."""
    readable = f"{service(model_name)}-{revision}"
    return shortened(readable)


def kept_revision(model_name: str, revision: str) -> str:
    """Return the name of the ControllerRevision that keeps a revision."""
    return deployment_of(model_name, revision)


def disruption_budget(model_name: str) -> str:
    """Return the name of the model's PodDisruptionBudget: that of its Service."""
    return service(model_name)


def network_policy(model_name: str) -> str:
    """Return the name of the model's NetworkPolicy: that of its Service."""
    return service(model_name)


def ingress(model_name: str) -> str:
    """Return the name of the model's Ingress: that of its Service."""
    return service(model_name)


def route(model_name: str) -> str:
    """Return the name of the model's HTTPRoute and GRPCRoute: that of its Service."""
    return service(model_name)


def service_of(model_name: str, revision: str) -> str:
    """Return the name of a revision's Service, for models with a route."""
    return deployment_of(model_name, revision)


def service(model_name: str) -> str:
    """Return the name of the model's Service.

    This is the model's name if that is an RFC 1035 label and cannot be the shortened form of
    another name. Otherwise it is a readable part of the name with a hash.
    """
    if fits(model_name) and SERVICE_NAME.fullmatch(model_name):
        return model_name
    readable = model_name.replace(".", "-")
    return with_hash(readable if readable[0].isalpha() else f"m-{readable}", model_name)


def is_of(model_name: str, name: str) -> bool:
    """Whether a child of the model may have this name."""
    own = service(model_name)
    if name == own or (name.startswith(own) and OF_REVISION.fullmatch(name[len(own) :])):
        return True
    kept = LABEL_LIMIT - HASH_LENGTH - 1
    return bool(HASHED.fullmatch(name)) and name[:kept] == f"{own}-"[:kept]


def fits(name: str) -> bool:
    """Whether a name can be used unchanged.

    It must have at most 63 characters and must not look like the shortened form of another name.
    """
    return len(name) <= LABEL_LIMIT and not HASHED.fullmatch(name)


def shortened(name: str) -> str:
    """Return the name itself if it fits, otherwise its shortened form with a hash."""
    return name if fits(name) else with_hash(name, name)


def with_hash(readable: str, whole: str) -> str:
    """Return as much of `readable` as fits and a hash of `whole`, at most 63 characters."""
    digest = hashlib.sha256(whole.encode()).hexdigest()[:HASH_LENGTH]
    return f"{readable[: LABEL_LIMIT - HASH_LENGTH - 1]}-{digest}"
