"""InferenceRuntimes as the store knows them, and what a model's status keeps of its own; pure.

    store --> Runtimes --> decide.runtimes --> RuntimeState --> status.runtime, conditions

A model keeps the content that it was resolved with until it follows. So neither an edit nor the
deletion of a runtime changes a model, and a restarted operator decides the same.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from moorage_operator.api.conditions import Finding
from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.api.v1alpha1 import InferenceModel

__all__ = [
    "NO_RUNTIME",
    "NO_RUNTIMES",
    "Resolution",
    "RuntimeState",
    "RuntimeUse",
    "Runtimes",
    "read_runtime_use",
    "write_content",
    "write_runtime_use",
]


@dataclass(frozen=True, slots=True)
class Runtimes:
    """All runtimes.

    Attributes:
        by_name: The runtimes by name.
        namespace_labels: The labels of each namespace; None if they cannot be read.
        unreadable: Why runtimes cannot be read; "" if they can.
        is_forbidden: Whether that is for lack of a right.
        version: Changes with any of the others.
    """

    by_name: Mapping[str, InferenceRuntime] = field(default_factory=dict[str, InferenceRuntime])
    namespace_labels: Mapping[str, Mapping[str, str]] | None = None
    unreadable: str = ""
    is_forbidden: bool = False
    version: int = 0


NO_RUNTIMES = Runtimes()


@dataclass(frozen=True, slots=True)
class RuntimeUse:
    """`status.runtime`: the runtime that a model was resolved with.

    Attributes:
        name: The name of the runtime.
        generation: The generation of the content.
        spec_hash: The hash of the model's own spec. While it is unchanged, so is the content.
        content: What the runtime contributed, as JSON.
        is_following: Whether the model got the content by following an edit of the runtime, and
            its rollout is not complete.
    """

    name: str
    generation: int
    spec_hash: str
    content: str
    is_following: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """What a status reports of the runtime.

    Attributes:
        use: The runtime of the model; None without one.
        pending: Why the model would get another content; None if it would not.
        follows: Whether `use` has a new content that the next reconcile applies.
        awaits: The runtime with the policy Automatic that it is about to follow; "" if none.
    """

    use: RuntimeUse | None = None
    pending: Finding | None = None
    follows: bool = False
    awaits: str = ""


NO_RUNTIME = RuntimeState()


@dataclass(frozen=True, slots=True)
class Resolution:
    """The model to plan, with the fields of its runtime, and the state to report."""

    model: InferenceModel
    state: RuntimeState = NO_RUNTIME


def read_runtime_use(status: Mapping[str, Any]) -> RuntimeUse | None:
    """Read the runtime from a status; None without one, or if it is damaged."""
    found = cast("Mapping[str, Any]", status.get("runtime") or {})
    name, content = found.get("name"), found.get("content")
    if not isinstance(name, str) or not isinstance(content, str):
        return None
    generation = int(found.get("generation") or 0)
    spec_hash, is_following = str(found.get("specHash", "")), found.get("following") is True
    return RuntimeUse(name, generation, spec_hash, content, is_following)


def write_runtime_use(use: RuntimeUse) -> dict[str, Any]:
    """Render the runtime for the status."""
    return {
        "name": use.name,
        "generation": use.generation,
        "specHash": use.spec_hash,
        "content": use.content,
        **({"following": True} if use.is_following else {}),
    }


def write_content(content: Mapping[str, Any]) -> str:
    """Write what a runtime contributes as JSON with sorted keys."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
