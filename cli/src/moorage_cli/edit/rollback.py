"""`moorage rollback`: the spec of an earlier revision as a patch of the present one; pure.

ReplicaSets, ControllerRevisions --> KeptSpec --> Edit

The operator keeps the spec of each revision in the names of the API and without defaults, with the
version of that format. Fields that are not part of a revision stay as they are. Whatever cannot be
restored exactly is refused.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_cli.edit.model import Edit, Resource, mapping
from moorage_cli.manifests.lint import crd
from moorage_cli.manifests.structural import problems, with_defaults
from moorage_cli.printing.failures import Failure

__all__ = ["KeptSpec", "kept_specs", "rollback"]

FORMAT = 1
# The operator reads no more either: the API server rejects objects of more than 1.5 MiB.
INFLATED_LIMIT_BYTES = 4 << 20
SPEC = "moorage.dev/spec"
REVISION = "moorage.dev/revision"
# Defaults that the operator applies after the fields of an InferenceRuntime, so the CRD has none.
# tests/contract compares them.
OPERATOR_DEFAULTS: Mapping[str, Any] = {
    "protocol": "OpenInference",
    "transport": "HTTP",
    "runtime": {"ports": {"http": 8000, "grpc": 8001}},
    "health": {
        "startupTimeoutSeconds": 600,
        "periodSeconds": 5,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
        "pollIntervalSeconds": 30,
        "terminationGracePeriodSeconds": 30,
        "readinessTarget": "Model",
    },
}
# Fields of the spec that are not part of a revision.
APART = frozenset(
    {
        "replicas", "suspend", "paused", "scaling", "disruptionBudget", "networkPolicy", "route",
        "rollout",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeptSpec:
    """The spec of a revision as the operator wrote it; `created` is a Kubernetes timestamp."""

    revision: str
    created: str
    text: str


def kept_specs(objects: Sequence[Mapping[str, Any]]) -> list[KeptSpec]:
    """The specs in ReplicaSets and ControllerRevisions, the newest first and each one once."""
    found: dict[str, KeptSpec] = {}
    for body in objects:
        metadata = mapping(body.get("metadata"))
        revision = str(mapping(metadata.get("labels")).get(REVISION, ""))
        data = mapping(body.get("data"))
        text = mapping(metadata.get("annotations")).get(SPEC) or data.get("spec")
        if revision and isinstance(text, str):
            created = str(metadata.get("creationTimestamp", ""))
            known = found.get(revision)
            if known is None or created < known.created:
                # A manual edit of the Deployment makes a later ReplicaSet of the same revision.
                found[revision] = KeptSpec(revision, created, text)
    return sorted(found.values(), key=lambda each: each.created, reverse=True)


def rollback(model: Resource, kept: Sequence[KeptSpec], to: str = "") -> Edit:
    """Write the spec of a revision back.

    Args:
        model: The model.
        kept: The specs that can be read.
        to: The revision; empty for the last one that served.

    Raises:
        Failure: The revision does not exist, or its spec cannot be restored exactly.
    """
    target = to or _last_good(model, kept)
    found = next((each for each in kept if each.revision == target), None)
    if found is None:
        raise Failure(f"{model.name}: the spec of revision {target} is not kept{_known(kept)}")
    wanted = _spec_of(model, found)
    _refuse_with_runtime(model, wanted, target)
    schema = _schema()
    operations: list[dict[str, Any]] = []
    for name in sorted({*model.spec, *wanted} - APART):
        if _filled(model.spec, name, schema) == _filled(wanted, name, schema):
            continue
        path = f"/spec/{name}"
        if name in wanted:
            operations.append({"op": "add", "path": path, "value": wanted[name]})
        else:
            operations.append({"op": "remove", "path": path})
    if not operations:
        return Edit(None, f"already has the spec of revision {target}", target)
    _check(model, wanted)
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": model.version}
    return Edit([version, *operations], f"has the spec of revision {target} again", target)


def _last_good(model: Resource, kept: Sequence[KeptSpec]) -> str:
    good, current = model.revision("lastGood"), model.revision("current")
    if not model.is_described:
        raise Failure(
            f"{model.name}: the operator has not processed generation {model.generation} of the "
            "spec yet: run the command again"
        )
    if not good:
        raise Failure(f"{model.name}: no revision has served yet, so there is none to return to")
    if good == current:
        others = [each for each in kept if each.revision != current]
        raise Failure(
            f"{model.name}: revision {good}, the last one that served, has the current spec: "
            f"choose another one with --to{_known(others)}"
        )
    return good


def _known(kept: Sequence[KeptSpec]) -> str:
    """The revisions to choose from, with the times when they were created."""
    if not kept:
        return "; no other revision is kept"
    listed = ", ".join(f"{each.revision} of {each.created}" for each in kept)
    return f"; kept revisions: {listed}"


def _spec_of(model: Resource, kept: KeptSpec) -> Mapping[str, Any]:
    damaged = Failure(f"{model.name}: the kept spec of revision {kept.revision} is damaged")
    try:
        document = mapping(json.loads(_uncompressed(kept.text)))
    except (ValueError, RecursionError, zlib.error) as error:
        raise damaged from error
    if document.get("version") != FORMAT:
        raise Failure(
            f"{model.name}: the spec of revision {kept.revision} is kept in format "
            f"{document.get('version')!r}, but this version of moorage knows format {FORMAT}: "
            "use the version of moorage that belongs to the operator"
        )
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        raise damaged
    return cast("Mapping[str, Any]", spec)


def _refuse_with_runtime(model: Resource, wanted: Mapping[str, Any], target: str) -> None:
    """Refuse a spec that contains the fields of an InferenceRuntime, or would get some.

    Fields that equal a default are not kept, and those of the runtime would take their place.

    Raises:
        Failure: The kept spec, or the model by default, has a runtime.
    """
    kept = mapping(wanted.get("runtime")).get("name")
    by_default = not _names_server(model.spec) and mapping(model.status.get("runtime")).get("name")
    if name := kept or by_default:
        raise Failure(
            f"{model.name}: revision {target} cannot be restored exactly, because the model gets "
            f"fields from the InferenceRuntime {name}, which may have changed since: edit the "
            "spec, or correct the runtime and run moorage restart"
        )


def _names_server(spec: Mapping[str, Any]) -> bool:
    """Whether a spec names its runtime, its format or its image."""
    server, served = mapping(spec.get("runtime")), mapping(spec.get("model"))
    return bool(server.get("name") or server.get("image") or served.get("format"))


def _uncompressed(text: str) -> bytes:
    if text.startswith("{"):
        return text.encode()
    inflate = zlib.decompressobj()
    plain = inflate.decompress(base64.b64decode(text, validate=True), INFLATED_LIMIT_BYTES)
    return plain if inflate.eof else b""


def _schema() -> Mapping[str, Any]:
    (version,) = [each for each in crd()["spec"]["versions"] if each["storage"]]
    return version["schema"]["openAPIV3Schema"]


def _filled(spec: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> Any:
    """A field as the API server stores it; an object with all defaults equals an absent one."""
    below = schema["properties"]["spec"]["properties"].get(name, {})
    value = spec.get(name, {} if below.get("type") == "object" else below.get("default"))
    filled = _with_objects(with_defaults(value, below), below)
    return _over(OPERATOR_DEFAULTS.get(name), filled)


def _over(default: Any, value: Any) -> Any:
    """The value with the defaults of fields that it lacks."""
    if isinstance(default, Mapping) and isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        parts = cast("Mapping[str, Any]", default)
        return {**given, **{name: _over(part, given.get(name)) for name, part in parts.items()}}
    return default if value is None else value


def _with_objects(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with the defaults of the objects that it lacks, to compare it."""
    if not isinstance(value, Mapping) or "properties" not in schema:
        return value
    filled = dict(cast("Mapping[str, Any]", value))
    for name, below in schema["properties"].items():
        if below.get("type") == "object" and "properties" in below:
            part = with_defaults(filled.get(name) or {}, below)
            filled[name] = _with_objects(part, below)
    return {name: part for name, part in filled.items() if part not in ({}, None)}


def _check(model: Resource, wanted: Mapping[str, Any]) -> None:
    """Refuse a spec that the API of this version rejects.

    Raises:
        Failure: It has fields or values that the API does not know.
    """
    rest = {name: part for name, part in model.spec.items() if name in APART}
    found = problems({"metadata": {}, "spec": {**rest, **wanted}}, _schema())
    if found:
        sentences = "; ".join(f"{each.path}: {each.message}" for each in found)
        raise Failure(f"{model.name}: the kept spec is invalid for this API: {sentences}")
