"""InferenceRuntime v1alpha1 as a frozen value: a model server that many models use.

    body --> parse_inference_runtime --> InferenceRuntime --> decide.runtimes

`content` is what a runtime contributes, in the shape of a model's spec. It stays a mapping,
because the spec of a model is merged over it before it gets defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from .fields import Fields, Problem
from .label_selectors import LabelSelector, parse_selector
from .model_spec import FORMAT, FORMAT_EXPECTED
from .v1alpha1 import parse

__all__ = ["InferenceRuntime", "ModelFormat", "UpdatePolicy", "parse_inference_runtime"]

# Fields of an InferenceRuntime that are fields of `spec.runtime` of a model.
OF_RUNTIME = ("image", "command", "args", "env", "ports", "resources")
# Those that have the same name in both.
OF_SPEC = ("protocol", "transport", "paths", "health", "podTemplate")
FORMAT_LIMIT = 64
PRIORITY_LIMIT = 1000
ROLLOUT_LIMIT = 1000


class UpdatePolicy(StrEnum):
    """When models follow an edited runtime: at their next edit, or by themselves."""

    ON_EDIT = "OnEdit"
    AUTOMATIC = "Automatic"


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A model format that the server loads; the runtime with the highest priority is used."""

    name: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class InferenceRuntime:
    """One resource with all defaults; a runtime with `problems` is used by no further model.

    Without `allowed_namespaces`, all namespaces may use it. `max_concurrent_rollouts` applies to
    the policy Automatic.
    """

    name: str
    uid: str
    generation: int
    content: Mapping[str, Any]
    formats: tuple[ModelFormat, ...] = ()
    is_default: bool = False
    allowed_namespaces: LabelSelector | None = None
    update_policy: UpdatePolicy = UpdatePolicy.ON_EDIT
    max_concurrent_rollouts: int = 1
    problems: tuple[Problem, ...] = ()

    def priority(self, model_format: str) -> int | None:
        """Return the priority for a format; None if the runtime does not list it."""
        found = (each.priority for each in self.formats if each.name == model_format)
        return next(found, None)

    def allows(self, namespace_labels: Mapping[str, str]) -> bool:
        """Whether models in a namespace with these labels may use the runtime."""
        selector = self.allowed_namespaces
        return selector is None or selector.matches(namespace_labels)


def parse_inference_runtime(body: Mapping[str, Any]) -> InferenceRuntime:
    """Parse a resource; never raises for user input."""
    metadata = cast("Mapping[str, Any]", body["metadata"])
    problems: list[Problem] = []
    spec = Fields(body.get("spec"), "spec", problems)
    content = _parse_content(spec, problems)
    policy = spec.choice("updatePolicy", UpdatePolicy.ON_EDIT)
    if policy is not UpdatePolicy.AUTOMATIC and spec.has("maxConcurrentRollouts"):
        sentence = "applies only to updatePolicy Automatic; remove it or set updatePolicy"
        spec.report("maxConcurrentRollouts", sentence)
    runtime = InferenceRuntime(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation", 0)),
        content=content,
        formats=_parse_formats(spec),
        is_default=spec.flag("default", default=False),
        allowed_namespaces=_parse_allowed(spec),
        update_policy=policy,
        max_concurrent_rollouts=spec.integer("maxConcurrentRollouts", 1, 1, ROLLOUT_LIMIT),
    )
    spec.unknown()
    return replace(runtime, problems=tuple(problems))


def _parse_content(spec: Fields, problems: list[Problem]) -> dict[str, Any]:
    """Read what the runtime contributes, judged as the same fields of a model are."""
    server = {name: part for name in OF_RUNTIME if (part := spec.raw(name)) is not None}
    content = {name: part for name in OF_SPEC if (part := spec.raw(name)) is not None}
    if server:
        content["runtime"] = server
    nobody = {"name": "nobody", "namespace": "", "uid": ""}
    found = parse({"metadata": nobody, "spec": content}, is_whole=False).problems
    for each in found:
        name = each.path.removeprefix("spec.").removeprefix("runtime.")
        problems.append(Problem(f"spec.{name}", each.message))
    return content


def _parse_formats(spec: Fields) -> tuple[ModelFormat, ...]:
    found: list[ModelFormat] = []
    for fields in spec.children("formats", FORMAT_LIMIT, "formats"):
        name = fields.text("name")
        priority = fields.integer("priority", 0, 0, PRIORITY_LIMIT)
        if not name:
            fields.require("name", FORMAT_EXPECTED)
        elif not FORMAT.fullmatch(name):
            fields.reject("name", name, FORMAT_EXPECTED)
        elif name in {each.name for each in found}:
            fields.reject_duplicate("name", name)
        else:
            found.append(ModelFormat(name, priority))
        fields.unknown()
    return tuple(found)


def _parse_allowed(spec: Fields) -> LabelSelector | None:
    if not spec.has("allowedNamespaces"):
        return None
    fields = spec.child("allowedNamespaces")
    if not fields.has("selector"):
        fields.require("selector", "a label selector; {} selects all namespaces")
    selector = parse_selector(fields.child("selector"))
    fields.unknown()
    return selector
