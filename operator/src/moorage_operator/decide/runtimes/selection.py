"""Selects the InferenceRuntime of a model; pure.

spec.runtime.name | spec.model.format | neither --> select --> runtime, problem or None
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from moorage_operator.api.conditions import Reason
from moorage_operator.api.fields import Problem
from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.runtimes import Runtimes

__all__ = ["could_use", "defaults_at_once", "names_a_runtime", "select", "takes_none"]

NAMES_LIMIT = 20
"""The number of names that a message lists."""

NAME_LABEL = "kubernetes.io/metadata.name"


def takes_none(spec: Mapping[str, Any]) -> bool:
    """Whether a spec takes no runtime: it has an image of its own and names no runtime."""
    server = _part(spec, "runtime")
    return bool(server.get("image")) and not server.get("name")


def names_a_runtime(spec: Mapping[str, Any]) -> bool:
    """Whether a spec asks for a runtime, by name or by format."""
    return bool(_name(spec) or _format(spec))


def could_use(model: InferenceModel, runtime: InferenceRuntime) -> bool:
    """Whether a change of the runtime may matter to a model, in any namespace."""
    if model.runtime.name:
        return model.runtime.name == runtime.name
    if model.runtime.image:
        return False
    if model.model.format:
        return runtime.priority(model.model.format) is not None
    return runtime.is_default


def select(
    spec: Mapping[str, Any], namespace: str, runtimes: Runtimes
) -> InferenceRuntime | Problem | None:
    """Return the runtime of a spec, why it has none, or None if it asks for none.

    Args:
        spec: The spec as written.
        namespace: The namespace of the model.
        runtimes: All runtimes.
    """
    if takes_none(spec):
        return None
    name, model_format = _name(spec), _format(spec)
    if runtimes.unreadable:
        if not (name or model_format):
            return None
        path = "spec.runtime.name" if name else "spec.model.format"
        sentence = f"{name or model_format!r} cannot be looked up: {runtimes.unreadable}"
        reason = Reason.READ_FORBIDDEN if runtimes.is_forbidden else Reason.RUNTIME_NOT_FOUND
        return Problem(path, sentence, reason)
    if name:
        found = _by_name(name, model_format, namespace, runtimes)
    elif model_format:
        found = _by_format(model_format, namespace, runtimes)
    else:
        found = _by_default(namespace, runtimes)
    if isinstance(found, InferenceRuntime) and found.problems:
        sentences = "; ".join(map(str, found.problems))
        sentence = f"the InferenceRuntime {found.name!r} is invalid: {sentences}; correct it"
        return Problem(_path(name, model_format), sentence, Reason.RUNTIME_INVALID)
    return found


def defaults_at_once(runtime: InferenceRuntime, runtimes: Runtimes) -> Sequence[str]:
    """Return the other default runtimes that apply to a namespace of this default runtime."""
    if not runtime.is_default:
        return ()
    known = runtimes.namespace_labels or {}
    return sorted(
        other.name
        for other in runtimes.by_name.values()
        if other.is_default
        and other.name != runtime.name
        and (
            not (runtime.allowed_namespaces or other.allowed_namespaces)
            or any(runtime.allows(labels) and other.allows(labels) for labels in known.values())
        )
    )


def _by_name(
    name: str, model_format: str, namespace: str, runtimes: Runtimes
) -> InferenceRuntime | Problem:
    path = "spec.runtime.name"
    runtime = runtimes.by_name.get(name)
    if runtime is None:
        exist = (
            _listed(runtimes.by_name, "names")
            if runtimes.by_name
            else "no InferenceRuntime exists"
        )
        sentence = f"{name!r} is not the name of an InferenceRuntime; {exist}"
        return Problem(path, sentence, Reason.RUNTIME_NOT_FOUND)
    if refused := _refused(runtime, namespace, runtimes):
        return Problem(path, refused, _refusal(runtimes))
    if model_format and runtime.priority(model_format) is None:
        listed = ", ".join(each.name for each in runtime.formats) or "none"
        sentence = (
            f"{model_format!r} is not a format of the InferenceRuntime {name!r}, whose formats "
            f"are {listed}; set one of these, or remove model.format"
        )
        return Problem("spec.model.format", sentence, Reason.NO_RUNTIME_FOR_FORMAT)
    return runtime


def _by_format(
    model_format: str, namespace: str, runtimes: Runtimes
) -> InferenceRuntime | Problem:
    path = "spec.model.format"
    listing = {
        each.name: (priority, each)
        for each in runtimes.by_name.values()
        if (priority := each.priority(model_format)) is not None
    }
    refused = {name: _refused(each, namespace, runtimes) for name, (_, each) in listing.items()}
    usable = {name: listing[name] for name, sentence in refused.items() if not sentence}
    if listing and not usable:
        sentence = "; ".join(refused[name] for name in sorted(refused)[:NAMES_LIMIT])
        return Problem(path, f"{model_format!r}: {sentence}", _refusal(runtimes))
    if not usable:
        known = {each.name for one in runtimes.by_name.values() for each in one.formats}
        fix = (
            f"{_listed(known, 'formats')}; set one of these, or set runtime.name"
            if known
            else "no InferenceRuntime has formats; set runtime.name"
        )
        sentence = f"{model_format!r} is not a format of any InferenceRuntime; {fix}"
        return Problem(path, sentence, Reason.NO_RUNTIME_FOR_FORMAT)
    highest = max(priority for priority, _ in usable.values())
    best = sorted(name for name, (priority, _) in usable.items() if priority == highest)
    if len(best) > 1:
        sentence = (
            f"{model_format!r} is a format of {_and(best)} with the same priority {highest}; set "
            "runtime.name to one of them, or give one a higher priority"
        )
        return Problem(path, sentence, Reason.RUNTIME_AMBIGUOUS)
    return usable[best[0]][1]


def _by_default(namespace: str, runtimes: Runtimes) -> InferenceRuntime | Problem | None:
    defaults = [each for each in runtimes.by_name.values() if each.is_default]
    if runtimes.namespace_labels is None and any(each.allowed_namespaces for each in defaults):
        first = min(each.name for each in defaults if each.allowed_namespaces)
        return Problem("spec.runtime.name", _undecided(first), _refusal(runtimes))
    found = sorted(each.name for each in defaults if not _refused(each, namespace, runtimes))
    if len(found) > 1:
        sentence = (
            f"is absent, and the default is ambiguous: {_and(found)} have default: true; set "
            "runtime.name to one of them, or remove default from all but one"
        )
        return Problem("spec.runtime.name", sentence, Reason.RUNTIME_AMBIGUOUS)
    return runtimes.by_name[found[0]] if found else None


def _refused(runtime: InferenceRuntime, namespace: str, runtimes: Runtimes) -> str:
    """Say why a namespace may not use a runtime; "" if it may."""
    if runtime.allowed_namespaces is None:
        return ""
    if runtimes.namespace_labels is None:
        return _undecided(runtime.name)
    labels = {NAME_LABEL: namespace, **runtimes.namespace_labels.get(namespace, {})}
    if runtime.allows(labels):
        return ""
    return (
        f"the InferenceRuntime {runtime.name!r} must not be used in the namespace {namespace!r}: "
        "its labels do not match spec.allowedNamespaces of the runtime; label the namespace, or "
        "use another runtime"
    )


def _refusal(runtimes: Runtimes) -> Reason:
    """Return the reason if no runtime may be used: its selector or a missing right."""
    unknown = runtimes.namespace_labels is None
    return Reason.READ_FORBIDDEN if unknown else Reason.RUNTIME_NOT_ALLOWED


def _undecided(runtime: str) -> str:
    return (
        f"the InferenceRuntime {runtime!r} has allowedNamespaces, but the operator may not read "
        "the labels of namespaces; grant it list and watch on namespaces"
    )


def _path(name: str, model_format: str) -> str:
    return "spec.model.format" if model_format and not name else "spec.runtime.name"


def _part(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = spec.get(name)
    return cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}


def _name(spec: Mapping[str, Any]) -> str:
    name = _part(spec, "runtime").get("name")
    return name if isinstance(name, str) else ""


def _format(spec: Mapping[str, Any]) -> str:
    model_format = _part(spec, "model").get("format")
    return model_format if isinstance(model_format, str) else ""


def _listed(names: Collection[str], what: str) -> str:
    first = sorted(names)[:NAMES_LIMIT]
    more = f" and {len(names) - NAMES_LIMIT} more" if len(names) > NAMES_LIMIT else ""
    return f"the {what} are {', '.join(first)}{more}"


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(map(repr, names[:-1]))} and {names[-1]!r}"
