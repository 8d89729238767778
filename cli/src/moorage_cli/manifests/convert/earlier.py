"""InferenceModels of the shape that `v1alpha1` had before its first release; pure.

    manifest --> moved_fields --> lint
    manifest --> convert_earlier --> texts

A field counts as moved if it is present where the present shape has no such field, or has another
type there: `smokeTests` was a list, and `disruptionBudget` was a string.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from moorage_cli.manifests.fields import mapping
from moorage_cli.manifests.structural import Problem

from .conversion import Conversion, ConversionError, Fate, Note

__all__ = ["convert_earlier", "moved_fields"]

GROUP_VERSION = "moorage.dev/v1alpha1"
KIND = "InferenceModel"

_APPROVED = "moorage.dev/canary-approved"
_REQUEST = "moorage.dev/rollout-request"
# The annotation names a revision, or a revision and a step: 4c1f0a9d2e or 4c1f0a9d2e-2.
_APPROVAL = re.compile(r"([0-9a-z]{1,63})(?:-([1-9][0-9]?))?")
# RFC 3339.
_TIME = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)

# Fields of spec.scaling, and their names in the only entry of spec.scaling.metrics.
_METRIC = {"metric": "type", "target": "target", "metricName": "name"}
_QUERY = ("serverAddress", "query")
_ROUTE = ("parentRefs", "hostnames")


def moved_fields(resource: Mapping[str, Any]) -> list[Problem]:
    """The fields and annotations of an InferenceModel that have moved, with their new places."""
    return [
        Problem(path, f"has moved to {place}: run moorage convert to rewrite the manifest")
        for path, place in (*_moved_spec(mapping(resource.get("spec"))), *_moved_marks(resource))
    ]


def convert_earlier(resource: Mapping[str, Any]) -> Conversion | None:
    """Rewrite an InferenceModel whose fields have moved; None for any other resource.

    Raises:
        ConversionError: A field is set in its earlier and in its present place.
    """
    is_model = resource.get("kind") == KIND and resource.get("apiVersion") == GROUP_VERSION
    if not is_model or not moved_fields(resource):
        return None
    spec = dict(mapping(resource.get("spec")))
    spec = _with_route(spec)
    spec = _with_paths(spec)
    spec = _with_smoke_tests(spec)
    if isinstance(spec.get("disruptionBudget"), str):
        spec["disruptionBudget"] = {"policy": spec["disruptionBudget"]}
    if _moved_scaling(spec):
        spec["scaling"] = _scaling(mapping(spec["scaling"]))
    metadata, verbs, notes = _marks(mapping(resource.get("metadata")))
    if verbs:
        spec["rollout"] = _joined(mapping(spec.get("rollout")), verbs, "spec.rollout")
    converted = {**resource, "metadata": metadata, "spec": spec}
    return Conversion((converted,), tuple(notes))


def _moved_spec(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    canary = mapping(mapping(spec.get("rollout")).get("canary"))
    for name in _ROUTE:
        if name in canary:
            yield f"spec.rollout.canary.{name}", f"spec.route.{name}"
    if "endpoints" in spec:
        yield "spec.endpoints", "spec.paths"
    if isinstance(spec.get("smokeTests"), list):
        yield "spec.smokeTests", "spec.smokeTests.tests"
    if "smokeTestPolicy" in spec:
        yield "spec.smokeTestPolicy", "spec.smokeTests.policy"
    if isinstance(spec.get("disruptionBudget"), str):
        yield "spec.disruptionBudget", "spec.disruptionBudget.policy"
    yield from _moved_scaling(spec)


def _moved_scaling(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    scaling = mapping(spec.get("scaling"))
    moved = [
        (f"spec.scaling.{name}", f"spec.scaling.metrics[0].{place}")
        for name, place in _METRIC.items()
        if name in scaling
    ]
    if "prometheus" in scaling:
        places = "spec.scaling.metrics[0].serverAddress and query"
        moved.append(("spec.scaling.prometheus", places))
    return moved


def _moved_marks(resource: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    annotations = mapping(mapping(resource.get("metadata")).get("annotations"))
    for mark, place in ((_APPROVED, "promote"), (_REQUEST, "restartedAt")):
        if mark in annotations:
            yield f"metadata.annotations[{mark}]", f"spec.rollout.{place}"


def _with_route(spec: dict[str, Any]) -> dict[str, Any]:
    """Move the route out of the canary, and drop sections that this leaves empty."""
    rollout = dict(mapping(spec.get("rollout")))
    canary = dict(mapping(rollout.get("canary")))
    route = {name: canary.pop(name) for name in _ROUTE if name in canary}
    if not route:
        return spec
    if canary:
        rollout["canary"] = canary
    else:
        del rollout["canary"]
    joined = _joined(mapping(spec.get("route")), route, "spec.route")
    after: dict[str, Any] = {}
    for name, value in spec.items():
        if name == "rollout":
            after["route"] = joined
            if rollout:
                after["rollout"] = rollout
        elif name != "route":
            after[name] = value
    return after


def _with_paths(spec: dict[str, Any]) -> dict[str, Any]:
    if "endpoints" not in spec:
        return spec
    if "paths" in spec:
        raise ConversionError("spec.endpoints and spec.paths are both set: remove one of them")
    return {("paths" if name == "endpoints" else name): spec[name] for name in spec}


def _with_smoke_tests(spec: dict[str, Any]) -> dict[str, Any]:
    given = spec.get("smokeTests")
    if not isinstance(given, list) and "smokeTestPolicy" not in spec:
        return spec
    section = {"tests": given} if isinstance(given, list) else dict(mapping(given))
    if "smokeTestPolicy" in spec:
        if "policy" in section:
            sentence = "spec.smokeTestPolicy and spec.smokeTests.policy are both set"
            raise ConversionError(f"{sentence}: remove one of them")
        section = {"policy": spec["smokeTestPolicy"], **section}
    after: dict[str, Any] = {}
    for name, value in spec.items():
        if name in {"smokeTests", "smokeTestPolicy"}:
            after["smokeTests"] = section
        else:
            after[name] = value
    return after


def _scaling(scaling: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section with its single metric as a list; without `metric`, that was CPU."""
    if "metrics" in scaling:
        fields = ", ".join(path for path, _ in _moved_scaling({"scaling": scaling}))
        raise ConversionError(f"spec.scaling.metrics and {fields} are both set: remove one")
    metric = {place: scaling[name] for name, place in _METRIC.items() if name in scaling}
    query = mapping(scaling.get("prometheus"))
    metric |= {name: query[name] for name in _QUERY if name in query}
    moved = {*_METRIC, "prometheus"}
    kept = {name: value for name, value in scaling.items() if name not in moved}
    return {**kept, "metrics": [{"type": "CPU", **metric}]}


def _marks(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[Note]]:
    """Return the metadata without annotations that moved, their fields, and what was dropped."""
    annotations = dict(mapping(metadata.get("annotations")))
    verbs: dict[str, Any] = {}
    notes: list[Note] = []
    approved, request = annotations.pop(_APPROVED, None), annotations.pop(_REQUEST, None)
    if approved is not None:
        approval = _APPROVAL.fullmatch(str(approved))
        if approval:
            verbs["promote"] = "/".join(part for part in approval.groups() if part)
        else:
            notes.append(_dropped(_APPROVED, approved, "a revision", "spec.rollout.promote"))
    if request is not None:
        if _TIME.fullmatch(str(request)):
            verbs["restartedAt"] = request
        else:
            kind = "a time such as 2026-03-04T05:06:07Z"
            notes.append(_dropped(_REQUEST, request, kind, "spec.rollout.restartedAt"))
    after = {name: value for name, value in metadata.items() if name != "annotations"}
    if annotations:
        after["annotations"] = annotations
    return after, verbs, notes


def _dropped(mark: str, value: Any, kind: str, place: str) -> Note:
    path = f"metadata.annotations[{mark}]"
    return Note(path, value, Fate.LOST, f"is not {kind}; {place} replaces the annotation")


def _joined(present: Mapping[str, Any], moved: Mapping[str, Any], path: str) -> dict[str, Any]:
    for name in moved:
        if name in present:
            raise ConversionError(
                f"{path}.{name} is set in its present place and in its earlier one: remove one"
            )
    return {**present, **moved}
