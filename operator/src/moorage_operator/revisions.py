"""Which revisions of a model there are, as status and ReplicaSets remember them; pure.

    status.revisions --> Revisions --> rollout --> Revisions --> status.revisions
    ReplicaSet --> RevisionRecord --> the spec and the template of an earlier revision

A revision is the hash of a pod template, and a template is made from two things: the spec, and how
this version of the operator writes templates. `spec_hash` tells them apart. As long as it stays
the same, the spec's revision stays what it was first rendered as, so that a newer operator
restarts no pod; and a revision that failed stays rejected.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any, cast

import msgspec

from . import labels
from .api.v1alpha1 import InferenceModel, parse
from .memo import by_identity
from .resources.pod_template import REVISION_LENGTH, canonical_hash
from .state import RevisionRecord

__all__ = [
    "CanaryProgress",
    "Rejection",
    "Retirement",
    "Revisions",
    "read_revisions",
    "read_spec",
    "read_template",
    "spec_hash",
    "write_revisions",
    "write_spec",
]

# What a template does not depend on, or what only says which object is meant.
APART = {
    "namespace", "name", "uid", "generation", "deleting", "problems", "replicas", "suspend",
    "scaling", "disruption_budget", "network_policy", "canary_approved",
}  # fmt: skip

# What is kept of a model has none of these; they come from the model that it is read for.
PRESENT = APART - {"deleting", "problems"} | {"rollout_request", "rollout"}

# Annotations of an object may have 256 KiB together, and others write theirs.
SPEC_LIMIT_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class Rejection:
    """A revision that was given up, with the reason that was against it then.

    `time` is a Kubernetes timestamp.
    """

    revision: str
    reason: str
    message: str
    time: str


@dataclass(frozen=True, slots=True)
class Retirement:
    """A revision that serves no more and is kept for a while.

    `time` is when what requests go by had been changed; empty before.
    """

    revision: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class CanaryProgress:
    """How far a new revision has come on its way to all requests.

    Attributes:
        revision: The revision.
        step: The number of its step, from 1; 0 before it gets any request, one more than the last
            when it gets all.
        weight: Its share of the requests, in percent.
        since: When the gateway had taken that share up; empty before.
    """

    revision: str
    step: int = 0
    weight: int = 0
    since: str = ""


@dataclass(frozen=True, slots=True)
class Revisions:
    """What is remembered from pass to pass; empty texts where there is nothing yet.

    Attributes:
        current: The spec's revision.
        spec_hash: Of the spec and the rollout request that `current` was made for.
        last_good: The revision that last served with all wanted replicas.
        rejected: The current revision, once it has failed.
        retiring: One that gets no more requests and had a Deployment of its own.
        canary: How far the revision has come that shares requests with the last good one.
    """

    current: str = ""
    spec_hash: str = ""
    last_good: str = ""
    rejected: Rejection | None = None
    retiring: Retirement | None = None
    canary: CanaryProgress | None = None

    def of(self, wanted: str) -> "Revisions":
        """The same, of a spec with this hash: what was known of another is forgotten."""
        if self.spec_hash == wanted:
            return self
        return replace(self, current="", spec_hash=wanted, rejected=None)


def read_revisions(status: Mapping[str, Any]) -> Revisions:
    """What a status remembers."""
    told = cast("Mapping[str, Any]", status.get("revisions") or {})
    rejected, retiring = told.get("rejected"), told.get("retiring")
    canary = cast("Mapping[str, Any]", told.get("canary") or {})
    return Revisions(
        current=str(told.get("current", "")),
        spec_hash=str(told.get("specHash", "")),
        last_good=str(told.get("lastGood", "")),
        rejected=Rejection(**_texts(Rejection, rejected)) if rejected else None,
        retiring=Retirement(**_texts(Retirement, retiring)) if retiring else None,
        canary=_read_canary(canary) if canary else None,
    )


def _read_canary(told: Mapping[str, Any]) -> CanaryProgress:
    return CanaryProgress(
        revision=str(told.get("revision", "")),
        step=int(told.get("step", 0)),
        weight=int(told.get("weight", 0)),
        since=str(told.get("since", "")),
    )


def _texts(kind: type, told: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a class that has texts alone."""
    return {each.name: str(told.get(each.name, "")) for each in fields(kind)}


def write_revisions(revisions: Revisions) -> dict[str, Any]:
    """What the next pass is to remember, as the status has it; empty fields are left out."""
    rejected = revisions.rejected
    tried = revisions.current != revisions.last_good and rejected is None
    told: dict[str, Any] = {
        "current": revisions.current,
        "specHash": revisions.spec_hash,
        "candidate": revisions.current if tried else "",
        "lastGood": revisions.last_good,
        "rejected": asdict(rejected) if rejected else "",
        "retiring": _written(revisions.retiring) if revisions.retiring else "",
        "canary": _written(revisions.canary) if revisions.canary else "",
    }
    return {name: value for name, value in told.items() if value}


def _written(told: CanaryProgress | Retirement) -> dict[str, Any]:
    # An empty text is no date-time.
    return {name: value for name, value in asdict(told).items() if value != ""}


@by_identity
def spec_hash(model: InferenceModel) -> str:
    """Hash of what the user asks to be rolled out: the spec but for its size, and the request.

    A field with its default counts as absent, so that a newer version's new fields, which the API
    server fills in by itself, change nothing.
    """
    return canonical_hash([model.uid, _said_of(model, APART)])[:REVISION_LENGTH]


@by_identity
def write_spec(model: InferenceModel) -> str:
    """What a revision was rendered from, as JSON; empty where it is too large to be kept.

    What is as in `_blank` is left out: the text goes into each event of a Deployment and of its
    ReplicaSets.
    """
    nobody, blank = _blank()
    anybody = replace(model, **{name: getattr(nobody, name) for name in PRESENT})
    said = _beyond(msgspec.to_builtins(anybody), blank)
    text = msgspec.json.encode(said, order="deterministic")
    return text.decode() if len(text) <= SPEC_LIMIT_BYTES else ""


@by_identity
def read_spec(record: RevisionRecord, model: InferenceModel) -> InferenceModel | None:
    """The model as it was when a revision was rendered, with its present name, size and rollout.

    None where it was not kept, or was kept by a version of the operator that this one does not
    understand.
    """
    try:
        said = msgspec.json.decode(record.spec, type=dict[str, Any])
        _, blank = _blank()
        then = msgspec.convert(_completed(said, blank), type=InferenceModel)
    except msgspec.MsgspecError:
        return None
    return replace(then, **{name: getattr(model, name) for name in PRESENT})


@cache
def _blank() -> tuple[InferenceModel, dict[str, Any]]:
    """A model of which nothing is said, and the same as JSON has it."""
    model = parse({"metadata": {"name": "", "namespace": "", "uid": ""}, "spec": {}})
    blank = replace(model, problems=())
    return blank, msgspec.to_builtins(blank)


def _beyond(value: Any, blank: Any) -> Any:
    """What a value says that a blank one does not."""
    if not (isinstance(value, dict) and isinstance(blank, dict)):
        return value
    parts = cast("dict[str, Any]", value).items()
    known = cast("dict[str, Any]", blank)
    return {
        name: _beyond(part, known.get(name))
        for name, part in parts
        if name not in known or part != known[name]
    }


def _completed(said: Any, blank: Any) -> Any:
    """The value of which `_beyond` left so much."""
    if not (isinstance(said, dict) and isinstance(blank, dict)):
        return said
    parts = cast("dict[str, Any]", said).items()
    known = cast("dict[str, Any]", blank)
    return {**known, **{name: _completed(part, known.get(name)) for name, part in parts}}


@by_identity
def read_template(record: RevisionRecord) -> dict[str, Any]:
    """The pod template of a revision, as a Deployment has it."""
    template: dict[str, Any] = msgspec.json.decode(record.template)
    marks = dict(template["metadata"]["labels"])
    marks.pop(labels.TEMPLATE_HASH, None)
    # An empty creationTimestamp is how the API server writes the metadata of a template.
    metadata = {**template["metadata"], "labels": marks}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": metadata}


def _said(value: Any) -> Any:
    """A value as JSON, without what is empty or has its default."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return _said_of(value)
    if isinstance(value, Mapping):
        return {str(key): _said(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    return [_said(part) for part in cast("Sequence[Any]", value)]


def _said_of(value: Any, apart: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a dataclass that say something, but for some."""
    parts = {
        name: _said(part)
        for name, default in _defaults(type(value))
        if name not in apart and (part := getattr(value, name)) != default
    }
    return {name: part for name, part in parts.items() if part not in (None, "", [], {})}


@lru_cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a class with their defaults, one that nothing equals where there is none."""
    return tuple((each.name, each.default) for each in fields(kind))
