"""The pod template: the container `runtime`, its probes, its model and safe defaults.

`make_pod_template` labels the template with its own hash, the revision. So the label of a pod
shows its template without a watch of ReplicaSets. `spec.podTemplate` can override everything
except the labels that the operator selects by.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from moorage_operator.api import labels, names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol

from . import endpoints
from .explicit import explicit
from .merge import merged
from .probes import make_probes, make_readiness_gates
from .server_secrets import make_secret_env, make_secret_mounts, make_secret_volumes
from .spreading import make_topology_spread
from .storage import NAME_VARIABLE, PATH_VARIABLE, Storage, make_storage
from .termination import make_drain_env, make_lifecycle

__all__ = ["canonical_hash", "make_pod_template", "revision_of"]

REVISION_LENGTH = 10
PICKLE_VARIABLE = "MOORAGE_ALLOW_PICKLE"


def make_pod_template(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    """Build the whole template, labelled with its revision."""
    storage = make_storage(model.model, config)
    planned = {"spec": _make_pod_spec(model, storage, config)}
    whole = merged(merged(planned, model.pod_template), _make_marks(model))
    template = _completed(whole, planned)
    # The uid distinguishes this model's pods from those of a deleted one with the same spec.
    revision = canonical_hash([model.uid, template])[:REVISION_LENGTH]
    owned = {"metadata": {"labels": labels.pod(model.name, revision)}}
    return merged(template, owned)


def _make_marks(model: InferenceModel) -> dict[str, Any]:
    """Build the annotations whose change creates a new revision."""
    restarted = model.rollout.restarted_at
    marks = {
        **_mark_of_checks(model),
        **({names.RESTARTED_AT: restarted} if restarted else {}),
    }
    return {"metadata": {"annotations": marks}} if marks else {}


def _mark_of_checks(model: InferenceModel) -> dict[str, str]:
    """Build the annotation of enforced checks.

    As with an edited readiness probe, new pods have to pass the edited checks before the serving
    pods are removed.
    """
    if not model.enforces:
        return {}
    contract = msgspec.to_builtins(model.contract) if model.contract.is_enforced else None
    tests = model.smoke_digest if model.smoke_tests.is_enforced else ""
    digest = canonical_hash([contract, tests])[:REVISION_LENGTH]
    return {names.ENFORCED: digest}


def revision_of(template: Mapping[str, Any]) -> str:
    """Return the revision label of a template."""
    return str(template["metadata"]["labels"][labels.REVISION])


def canonical_hash(value: Any) -> str:
    """Return the hexadecimal SHA-256 of a value as canonical JSON (sorted keys, no blanks)."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _completed(template: dict[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
    """Add the readiness gate, which no overlay can remove, and explicit defaults."""
    spec: object = template.get("spec")
    if not isinstance(spec, Mapping):
        return template  # the API server reports what is wrong with it
    gates = planned["spec"].get("readinessGates")
    whole = cast("Mapping[str, Any]", spec)
    if gates:
        whole = merged(whole, {"readinessGates": gates})
    return {**template, "spec": explicit(whole)}


def _make_pod_spec(
    model: InferenceModel, storage: Storage, config: OperatorConfig
) -> dict[str, Any]:
    bundled = endpoints.is_bundled(model, config)
    scheduling = model.scheduling
    tmp: list[dict[str, Any]] = [{"name": names.TMP_VOLUME, "emptyDir": {}}] if bundled else []
    return _without_empty(
        {
            "automountServiceAccountToken": False,
            # Otherwise a Service named moorage would set variables that look like settings.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": model.health.termination_grace_period_seconds,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "readinessGates": make_readiness_gates(model, config),
            "initContainers": list(storage.init_containers),
            "containers": [_make_container(model, storage, config)],
            "volumes": [*storage.volumes, *make_secret_volumes(model), *tmp],
            "nodeSelector": dict(scheduling.node_selector),
            "tolerations": list(scheduling.tolerations),
            "affinity": dict(scheduling.affinity),
            "topologySpreadConstraints": make_topology_spread(model),
            "priorityClassName": scheduling.priority_class_name,
            "serviceAccountName": scheduling.service_account_name,
            "imagePullSecrets": _make_pull_secrets(model, storage, config),
        }
    )


def _make_pull_secrets(
    model: InferenceModel, storage: Storage, config: OperatorConfig
) -> list[dict[str, Any]]:
    """Return the installation's pull Secrets, if its image is used, and the model's own."""
    own = [dict(item) for item in model.scheduling.image_pull_secrets]
    if not (endpoints.is_bundled(model, config) or storage.init_containers):
        return own
    named = {item.get("name") for item in own}
    shared = [{"name": name} for name in config.image_pull_secrets if name not in named]
    return [*shared, *own]


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
            "volumeMounts": [*storage.mounts, *make_secret_mounts(model), *tmp],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                # The bundled image writes only to /tmp; other images may write elsewhere.
                **({"readOnlyRootFilesystem": True} if bundled else {}),
            },
            # The pod's status then has the last log lines, which needs no right to read logs.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "lifecycle": make_lifecycle(model, config),
            **make_probes(model, config),
        }
    )


def _make_env(
    model: InferenceModel, storage: Storage, config: OperatorConfig
) -> list[dict[str, Any]]:
    """Build the runtime's settings; a variable of the spec with the same name takes precedence."""
    ports = model.runtime.ports
    planned: list[dict[str, Any]] = [
        *(storage.env or _make_name_env(model)),
        *_make_path_env(model, storage),
        {"name": "MOORAGE_HTTP_PORT", "value": str(ports.http)},
        {"name": "MOORAGE_GRPC_PORT", "value": str(ports.grpc)},
        *make_secret_env(model),
        # also for an image of the user: the bundled runtime with other backends is one
        *([{"name": PICKLE_VARIABLE, "value": "true"}] if model.model.trusted else ()),
        *(make_drain_env(model) if endpoints.is_bundled(model, config) else ()),
    ]
    written = [dict(item) for item in model.runtime.env]
    return list(merged({"env": planned}, {"env": written})["env"])


def _make_name_env(model: InferenceModel) -> list[dict[str, Any]]:
    """Build the model's name for an OpenAI server in whose image the model is, or for a runtime.

    The server gets the name from this variable. A changed name needs new pods, because running
    pods keep serving the old name.
    """
    if model.protocol is not Protocol.OPENAI and not model.runtime.name:
        return []
    return [{"name": NAME_VARIABLE, "value": model.model.name}]


def _make_path_env(model: InferenceModel, storage: Storage) -> list[dict[str, Any]]:
    """Build the model's path for the command and arguments of an InferenceRuntime."""
    if not model.runtime.name or not storage.path:
        return []
    return [{"name": PATH_VARIABLE, "value": storage.path}]


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Remove empty strings, lists and objects, so that the defaults of Kubernetes apply."""
    return {key: value for key, value in fields.items() if value not in ("", [], {})}
