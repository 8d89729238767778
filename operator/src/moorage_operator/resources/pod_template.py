"""The pod template: the container `runtime`, its probes, its model, its safe defaults.

`make_pod_template` stamps the template with the hash of itself, the revision; a pod's label then
says which template it was made from, without ReplicaSets being watched. `spec.podTemplate` is
laid over everything but the labels that the operator selects by.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.config import OperatorConfig
from moorage_operator.memo import by_identity

from . import endpoints
from .merge import merged
from .probes import make_probes, make_readiness_gates
from .spreading import make_topology_spread
from .storage import Storage, make_storage
from .termination import make_drain_env, make_lifecycle

__all__ = ["canonical_hash", "make_pod_template", "revision_of"]

REVISION_LENGTH = 10


@by_identity
def make_pod_template(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    """The whole template, labelled with its revision."""
    storage = make_storage(model.model, config)
    planned = {"spec": _make_pod_spec(model, storage, config)}
    template = merged(planned, model.pod_template)
    # The uid tells this model's pods from a deleted one's of the same name and spec.
    revision = canonical_hash([model.uid, template])[:REVISION_LENGTH]
    owned = {"metadata": {"labels": labels.pod(model.name, revision)}}
    return merged(template, owned)


def revision_of(template: Mapping[str, Any]) -> str:
    """The revision that a template is labelled with."""
    return str(template["metadata"]["labels"][labels.REVISION])


def canonical_hash(value: Any) -> str:
    """SHA-256 of the value as canonical JSON (sorted keys, no blanks, UTF-8), in hexadecimal."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _make_pod_spec(
    model: InferenceModel, storage: Storage, config: OperatorConfig
) -> dict[str, Any]:
    bundled = endpoints.is_bundled(model, config)
    scheduling = model.scheduling
    tmp: list[dict[str, Any]] = [{"name": names.TMP_VOLUME, "emptyDir": {}}] if bundled else []
    return _without_empty(
        {
            "automountServiceAccountToken": False,
            # Else a Service named moorage sets variables that the runtime reads as settings.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": model.health.termination_grace_period_seconds,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "readinessGates": make_readiness_gates(model, config),
            "initContainers": list(storage.init_containers),
            "containers": [_make_container(model, storage, config)],
            "volumes": [*storage.volumes, *tmp],
            "nodeSelector": dict(scheduling.node_selector),
            "tolerations": list(scheduling.tolerations),
            "affinity": dict(scheduling.affinity),
            "topologySpreadConstraints": make_topology_spread(model),
            "priorityClassName": scheduling.priority_class_name,
            "serviceAccountName": scheduling.service_account_name,
            "imagePullSecrets": list(scheduling.image_pull_secrets),
        }
    )


def _make_container(
    model: InferenceModel, storage: Storage, config: OperatorConfig
) -> dict[str, Any]:
    runtime = model.runtime
    bundled = endpoints.is_bundled(model, config)
    tmp = [{"name": names.TMP_VOLUME, "mountPath": "/tmp"}] if bundled else []  # noqa: S108  in the container
    return _without_empty(
        {
            "name": names.RUNTIME_CONTAINER,
            "image": runtime.image or config.runtime_image,
            "imagePullPolicy": config.image_pull_policy if bundled else "",
            "command": list(runtime.command),
            "args": list(runtime.args),
            "env": _make_env(model, storage, config),
            "ports": [
                {"name": names.HTTP_PORT, "containerPort": runtime.ports.http, "protocol": "TCP"},
                {"name": names.GRPC_PORT, "containerPort": runtime.ports.grpc, "protocol": "TCP"},
            ],
            "resources": dict(runtime.resources or config.default_resources),
            "volumeMounts": [*storage.mounts, *tmp],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                # The bundled image writes to /tmp alone; of another image nobody knows.
                **({"readOnlyRootFilesystem": True} if bundled else {}),
            },
            # The last log lines then stand in the pod's status, readable without rights to logs.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "lifecycle": make_lifecycle(model, config),
            **make_probes(model, config),
        }
    )


def _make_env(
    model: InferenceModel, storage: Storage, config: OperatorConfig
) -> list[dict[str, Any]]:
    """The runtime's settings; a variable of the spec with the same name wins."""
    ports = model.runtime.ports
    planned: list[dict[str, Any]] = [
        *storage.env,
        {"name": "MOORAGE_HTTP_PORT", "value": str(ports.http)},
        {"name": "MOORAGE_GRPC_PORT", "value": str(ports.grpc)},
        *(make_drain_env(model) if endpoints.is_bundled(model, config) else ()),
    ]
    written = [dict(item) for item in model.runtime.env]
    return list(merged({"env": planned}, {"env": written})["env"])


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say something: an empty string, list or object is left to Kubernetes."""
    return {key: value for key, value in fields.items() if value not in ("", [], {})}
