"""Lays the fields of a model over those of its InferenceRuntime; pure.

    content, spec --> combined --> the effective spec, in the names of the API

Objects merge field by field, `env` by name, and `podTemplate` as a pod template does. Any other
list replaces that of the runtime. The result names the runtime only if the runtime contributes
something, so that a runtime without content changes no pod.
"""

from collections.abc import Mapping
from typing import Any, cast

from moorage_operator.api import names
from moorage_operator.resources.merge import overlaid

__all__ = ["combined", "without_choice"]

# Fields of a model that its pod template takes over; the runtime has them in `podTemplate` only.
SCHEDULING = (
    "nodeSelector", "tolerations", "affinity", "priorityClassName", "serviceAccountName",
    "imagePullSecrets",
)  # fmt: skip
CONTAINER = ("image", "command", "args", "env", "resources")
GRACE = "terminationGracePeriodSeconds"


def without_choice(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec without the fields that only choose a runtime."""
    bare = dict(spec)
    for holder, name in (("runtime", "name"), ("model", "format")):
        part = bare.get(holder)
        if isinstance(part, Mapping) and name in part:
            bare[holder] = {
                key: value for key, value in cast("Mapping[str, Any]", part).items() if key != name
            }
            if not bare[holder]:
                del bare[holder]
    return bare


def combined(content: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec over the content of a runtime.

    Args:
        content: What the runtime contributes.
        spec: The model's spec without the choice of a runtime.
    """
    lower = dict(content)
    template = lower.pop("podTemplate", None)
    upper = {name: part for name, part in spec.items() if name != "podTemplate"}
    result = overlaid(lower, upper)
    own = spec.get("podTemplate")
    if template is None:
        return {**result, "podTemplate": own} if own is not None else result
    template = _yielding(cast("Mapping[str, Any]", template), spec)
    if isinstance(own, Mapping):
        template = overlaid(template, cast("Mapping[str, Any]", own))
    return {**result, "podTemplate": template}


def _yielding(template: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the runtime's pod template with the fields that the model sets elsewhere.

    A pod template lies over all other fields. So without this, the runtime's would win over the
    node selector or the environment of the model.
    """
    pod = template.get("spec")
    if not isinstance(pod, Mapping):
        return template
    pod = cast("Mapping[str, Any]", pod)
    above = {name: spec[name] for name in SCHEDULING if name in pod and name in spec}
    health = spec.get("health")
    if isinstance(health, Mapping) and GRACE in pod and GRACE in health:
        above[GRACE] = health[GRACE]
    if container := _yielding_container(pod, spec):
        above["containers"] = [container]
    return overlaid(template, {"spec": above})


def _yielding_container(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the model's fields of the container that the runtime's template sets as well."""
    server = spec.get("runtime")
    listed = pod.get("containers")
    if not isinstance(server, Mapping) or not isinstance(listed, list):
        return None
    for each in cast("list[Any]", listed):
        if isinstance(each, Mapping) and each.get("name") == names.RUNTIME_CONTAINER:
            found = {key: server[key] for key in CONTAINER if key in each and key in server}
            return {"name": names.RUNTIME_CONTAINER, **found}
    return None
