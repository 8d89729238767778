"""`moorage rollback`: the spec of an earlier revision as a patch of the present one; pure.

ReplicaSets, ControllerRevisions --> KeptSpec --> Edit

The operator keeps the spec of each revision in the names of the API and without defaults, with the
version of that format. Fields that are not part of a revision stay as they are. Whatever cannot be
restored exactly is refused.

A revision that was given up, or replaced before it served, is skipped. If the model has already
returned from it, a second rollback would restore the failure and is refused. Both apply only to
the automatic choice: a revision that you name is restored.

The order in which revisions ran is that of the Deployment controller: it gives a ReplicaSet the
next number whenever the Deployment gets its template, also again. BlueGreen and Canary have a
Deployment for each revision, which follow each other in time.
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
NUMBER = "deployment.kubernetes.io/revision"
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
        "objectMetadata", "rollout",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeptSpec:
    """The spec of a revision as the operator wrote it.

    Args:
        revision: Name of the revision.
        created: When its object was created, as a Kubernetes timestamp.
        text: The spec, with the version of its format.
        ran: Its place in the order in which revisions ran: the time of the Deployment's first
            ReplicaSet, and the last number that the Deployment gave it.
    """

    revision: str
    created: str
    text: str
    ran: tuple[str, int] = ("", 0)


def kept_specs(objects: Sequence[Mapping[str, Any]]) -> list[KeptSpec]:
    """The specs in ReplicaSets and ControllerRevisions, each one once; the last to run first."""
    found: dict[str, KeptSpec] = {}
    first = _first_times(objects)
    for body in objects:
        metadata = mapping(body.get("metadata"))
        revision = str(mapping(metadata.get("labels")).get(REVISION, ""))
        annotations = mapping(metadata.get("annotations"))
        text = annotations.get(SPEC) or mapping(body.get("data")).get("spec")
        if not revision or not isinstance(text, str):
            continue
        created = str(metadata.get("creationTimestamp", ""))
        number = str(annotations.get(NUMBER, ""))
        ran = (first.get(_owner(body), ""), int(number) if number.isdecimal() else 0)
        known = found.get(revision)
        if known is not None:
            # A manual edit of the Deployment makes a later ReplicaSet of the same revision.
            ran = max(ran, known.ran)
            if known.created <= created:
                created, text = known.created, known.text
        found[revision] = KeptSpec(revision, created, text, ran)
    return sorted(found.values(), key=lambda each: (each.ran, each.created), reverse=True)


def _owner(body: Mapping[str, Any]) -> str:
    """The identity of the Deployment of a ReplicaSet; empty for other objects."""
    owners = mapping(body.get("metadata")).get("ownerReferences")
    for owner in cast("list[Any]", owners) if isinstance(owners, list) else []:
        if mapping(owner).get("kind") == "Deployment":
            return str(mapping(owner).get("uid", ""))
    return ""


def _first_times(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """When the first ReplicaSet of each Deployment was created."""
    first: dict[str, str] = {}
    for body in objects:
        if owner := _owner(body):
            created = str(mapping(body.get("metadata")).get("creationTimestamp", ""))
            first[owner] = min(first.get(owner, created), created)
    return first


def rollback(model: Resource, kept: Sequence[KeptSpec], to: str = "") -> Edit:
    """Write the spec of a revision back.

    Args:
        model: The model.
        kept: The specs that can be read, the last to run first.
        to: The revision; empty for the previous one, which is the last one that served during or
            after a rollout that has not succeeded, otherwise the one that ran before and served.

    Raises:
        Failure: The revision does not exist, did not serve, or cannot be restored exactly.
    """
    if to:
        found = next((each for each in kept if each.revision == to), None)
        if found is None:
            raise Failure(f"{model.name}: the spec of revision {to} is not kept{_known(kept)}")
        return _restored(model, found, "")
    good, current = model.revision("lastGood"), model.revision("current")
    if not model.is_described:
        raise Failure(
            f"{model.name}: the operator has not processed generation {model.generation} of the "
            "spec yet: run the command again"
        )
    if not good:
        raise Failure(f"{model.name}: no revision has served yet, so there is none to return to")
    if good != current:
        edit = rollback(model, kept, good)
        why = ": the last one that served"
        return Edit(edit.patch, f"{edit.done}{why if edit.patch else ''}", edit.pinned)
    return _previous(model, kept, current)


def _previous(model: Resource, kept: Sequence[KeptSpec], current: str) -> Edit:
    """Restore the revision that ran before the current one, served, and has another spec."""
    others = [each for each in kept if each.revision != current]
    began = next((each.created for each in kept if each.revision == current), "")
    passed: list[str] = []
    for each in others:
        why = f": it ran before and was created {each.created}"
        if passed:
            why += f"; {', '.join(passed)} ran later, but did not serve"
        edit = _restored(model, each, why)
        if edit.patch is None:  # a restart has the same spec
            continue
        if each.revision not in model.unproven:
            return edit
        if each.created >= began:  # to the second
            raise Failure(
                f"{model.name}: revision {each.revision}, which ran before revision {current}, "
                "was given up or replaced before it served, so the model has returned from it "
                f"already: name a revision with --to{_known(others)}"
            )
        passed.append(each.revision)
    if passed:
        raise Failure(
            f"{model.name}: no earlier revision with another spec that served is kept: name one "
            f"with --to{_known(others)}"
        )
    same = f"; revisions with the same spec: {', '.join(each.revision for each in others)}"
    raise Failure(
        f"{model.name}: no earlier revision with another spec is kept, so there is none to return "
        f"to: apply the earlier manifest{same if others else ''}"
    )


def _restored(model: Resource, kept: KeptSpec, why: str) -> Edit:
    """Write a kept spec back; `why` says how it was chosen."""
    target = kept.revision
    wanted = _spec_of(model, kept)
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
    if model.rollout.get("abort") == target:  # the operator would give it up at once
        operations.append({"op": "remove", "path": "/spec/rollout/abort"})
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": model.version}
    current = model.revision("current") if model.is_described else ""
    instead = f" instead of {current}" if current not in {"", target} else ""
    done = f"has the spec of revision {target} again{instead}{why}"
    return Edit([version, *operations], done, target)


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
