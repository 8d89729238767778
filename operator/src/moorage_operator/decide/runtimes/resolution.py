"""Decides what a model is with its InferenceRuntime, and whether it follows an edited one; pure.

    spec, runtimes, status.runtime --> resolve --> Resolution --> plan, status

A model gets the newest content of its runtime when its own spec changes. Until then it keeps the
content that its status has, so that neither an edit nor the deletion of a runtime restarts a pod.
With the policy Automatic it follows at its turn: one reconcile records the new content in the
status, and the next one applies it. So a restarted operator resumes at the same point.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.fields import Problem
from moorage_operator.api.inference_runtime import InferenceRuntime, UpdatePolicy
from moorage_operator.api.v1alpha1 import InferenceModel, parse
from moorage_operator.api.written_spec import write_spec
from moorage_operator.values.revisions import read_revisions
from moorage_operator.values.runtimes import (
    Resolution,
    Runtimes,
    RuntimeState,
    RuntimeUse,
    read_runtime_use,
    write_content,
)

from .overlay import combined, without_choice
from .selection import names_a_runtime, select, takes_none

__all__ = ["resolve"]

# What a runtime may contribute. An explicit value counts even if it equals the default of the API.
CONTRIBUTED = ("protocol", "transport", "runtime", "paths", "health", "podTemplate")


def resolve(
    own: InferenceModel,
    spec: Mapping[str, Any],
    status: Mapping[str, Any],
    runtimes: Runtimes,
    *,
    may_follow: bool,
    held: Mapping[str, str] | None = None,
) -> Resolution:
    """Resolve a model.

    Args:
        own: The model as parsed from its own spec.
        spec: That spec as written.
        status: The status at the API server.
        runtimes: All runtimes.
        may_follow: Whether it is the model's turn to follow a runtime with the policy Automatic.
        held: Why no model follows a runtime, by its name; absent if models follow.
    """
    resolution = _resolve(own, spec, status, runtimes, may_follow=may_follow)
    state = resolution.state
    why = (held or {}).get(state.awaits)
    if state.pending is None or not why:
        return resolution
    pending = replace(state.pending, message=f"{state.pending.message}; {why}")
    return replace(resolution, state=replace(state, pending=pending))


def _resolve(
    own: InferenceModel,
    spec: Mapping[str, Any],
    status: Mapping[str, Any],
    runtimes: Runtimes,
    *,
    may_follow: bool,
) -> Resolution:
    if own.deleting or takes_none(spec):
        return Resolution(own)
    kept = read_runtime_use(status)
    found = select(spec, own.namespace, runtimes)
    if kept is None and found is None:
        return Resolution(own)
    mark = _hash_of(own, spec)
    if kept and found is None and runtimes.unreadable:
        kept = replace(kept, spec_hash=mark)
        model = _with_content(own, spec, kept.name, _read_content(kept))
        return Resolution(model, RuntimeState(kept))
    if kept and kept.spec_hash == mark:
        return _unedited(own, spec, kept, found, may_follow=may_follow)
    if found and kept is None and _runs_without(own, spec, status):
        return _introduced(own, spec, mark, found, may_follow=may_follow)
    return _edited(own, spec, mark, kept, found)


def _edited(
    own: InferenceModel,
    spec: Mapping[str, Any],
    mark: str,
    kept: RuntimeUse | None,
    found: InferenceRuntime | Problem | None,
) -> Resolution:
    """Give a new or edited model the newest content."""
    if isinstance(found, Problem):
        return Resolution(replace(own, problems=(found,)), RuntimeState(kept))
    if found is None:
        return Resolution(own)
    model = _with_content(own, spec, found.name, found.content)
    # What is not carried out is not recorded, so that reverting the edit changes nothing.
    is_carried_out = not model.problems and not own.paused
    return Resolution(model, _used(found, mark) if is_carried_out else RuntimeState(kept))


def _unedited(
    own: InferenceModel,
    spec: Mapping[str, Any],
    kept: RuntimeUse,
    found: InferenceRuntime | Problem | None,
    *,
    may_follow: bool,
) -> Resolution:
    """Keep the content that the model was resolved with, and say whether it is the newest."""
    model = _with_content(own, spec, kept.name, _read_content(kept))
    if isinstance(found, Problem):
        return Resolution(model, RuntimeState(kept, _kept_in_spite(kept, found)))
    if found is None:
        finding = Finding(Reason.RUNTIME_NOT_FOUND, _gone_sentence(kept))
        return Resolution(model, RuntimeState(kept, finding))
    newest = _with_content(own, spec, found.name, found.content)
    if _is_same(newest, model):
        if kept.name == found.name:
            return Resolution(model, RuntimeState(kept))
        return Resolution(model, _used(found, kept.spec_hash, is_following=kept.is_following))
    changed = (
        f"the InferenceRuntime {found.name!r} was edited"
        if kept.name == found.name
        else f"the InferenceRuntime is now {found.name!r} instead of {kept.name!r}"
    )
    return _pending(model, kept, found, newest, changed, kept.spec_hash, may_follow=may_follow)


def _introduced(
    own: InferenceModel,
    spec: Mapping[str, Any],
    mark: str,
    found: InferenceRuntime | Problem,
    *,
    may_follow: bool,
) -> Resolution:
    """Keep a model without a runtime as it is when a default runtime appears."""
    if isinstance(found, Problem):
        finding = Finding(Reason(found.reason), f"the model keeps no runtime: {found}")
        return Resolution(own, RuntimeState(pending=finding))
    newest = _with_content(own, spec, found.name, found.content)
    if _is_same(newest, own):
        return Resolution(own, _used(found, mark))
    changed = f"the InferenceRuntime {found.name!r} is now the default"
    return _pending(own, None, found, newest, changed, mark, may_follow=may_follow)


def _pending(  # noqa: PLR0913 -- the two contents and what to say of them
    model: InferenceModel,
    kept: RuntimeUse | None,
    found: InferenceRuntime,
    newest: InferenceModel,
    changed: str,
    mark: str,
    *,
    may_follow: bool,
) -> Resolution:
    """Keep a model with an older content, or let it follow."""
    is_automatic = found.update_policy is UpdatePolicy.AUTOMATIC
    if newest.problems:
        sentences = "; ".join(map(str, newest.problems))
        finding = Finding(
            Reason.RUNTIME_INVALID,
            f"{changed}, and the spec is invalid with it: {sentences}; the model keeps the "
            "content that it was started with; correct the runtime or the spec",
        )
        return Resolution(model, RuntimeState(kept, finding))
    if is_automatic and may_follow and not model.paused:
        state = _used(found, mark, is_following=True)
        return Resolution(model, replace(state, follows=True, awaits=found.name))
    when = "to follow now, edit the spec or set spec.rollout.restartedAt to the current time"
    if is_automatic:
        most = found.max_concurrent_rollouts
        count = f"{most} models are" if most > 1 else "one model is"
        when = f"it follows by itself, while at most {count} being updated; {when}"
    sentence = f"{changed}; the model keeps the content that it was started with; {when}"
    awaits = found.name if is_automatic and not model.paused else ""
    finding = Finding(Reason.RUNTIME_CHANGED, sentence)
    return Resolution(model, RuntimeState(kept, finding, awaits=awaits))


def _kept_in_spite(kept: RuntimeUse, problem: Problem) -> Finding:
    sentence = (
        f"the model keeps the content of the InferenceRuntime {kept.name!r} that it was started "
        f"with; an edit of the spec would be refused: {problem}"
    )
    return Finding(Reason(problem.reason), sentence)


def _gone_sentence(kept: RuntimeUse) -> str:
    return (
        f"the InferenceRuntime {kept.name!r} does not exist or is no longer the default; the "
        "model keeps the content that it was started with until its spec is edited; set "
        "runtime.name to keep a runtime"
    )


def _used(runtime: InferenceRuntime, mark: str, *, is_following: bool = False) -> RuntimeState:
    content = write_content(runtime.content)
    use = RuntimeUse(runtime.name, runtime.generation, mark, content, is_following)
    return RuntimeState(use)


def _is_same(one: InferenceModel, other: InferenceModel) -> bool:
    return bool(one.written.hash) and one.written.hash == other.written.hash


def _runs_without(own: InferenceModel, spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the revision that the status records is this spec without a runtime."""
    recorded = read_revisions(status)
    is_same = bool(own.written.hash) and recorded.spec_hash == own.written.hash
    return bool(recorded.current) and is_same and not names_a_runtime(spec)


def _hash_of(own: InferenceModel, spec: Mapping[str, Any]) -> str:
    """Return the hash of what the user wrote; it changes if a rollout may depend on the edit."""
    explicit = {name: spec[name] for name in CONTRIBUTED if name in spec}
    others = {name: part for name, part in spec.items() if name not in CONTRIBUTED}
    without_defaults = _parse(own, others, is_whole=False).written.hash
    return write_spec(own.uid, {**explicit, "hash": without_defaults}).hash


def _with_content(
    own: InferenceModel, spec: Mapping[str, Any], name: str, content: Mapping[str, Any]
) -> InferenceModel:
    """Return the model with the content of a runtime."""
    bare = without_choice(spec)
    alone = own if bare == spec else _parse(own, bare)
    effective = combined(content, bare)
    if effective == bare:
        return alone
    model = _parse(own, effective)
    if _is_same(model, alone):
        return alone
    server = cast("Mapping[str, Any]", effective.get("runtime") or {})
    return _parse(own, {**effective, "runtime": {**server, "name": name}})


def _parse(
    own: InferenceModel, spec: Mapping[str, Any], *, is_whole: bool = True
) -> InferenceModel:
    metadata = {
        "name": own.name,
        "namespace": own.namespace,
        "uid": own.uid,
        "generation": own.generation,
    }
    return parse({"metadata": metadata, "spec": spec}, is_whole=is_whole)


def _read_content(kept: RuntimeUse) -> Mapping[str, Any]:
    """Read a kept content; none if somebody damaged it."""
    try:
        found: object = json.loads(kept.content)
    except ValueError:
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
