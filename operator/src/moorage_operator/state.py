"""All that is known of one model at one moment, which is what its plan is made from.

    watched, answers, references, refusals --> Observed --> plan.plan --> planned.Plan

The shell fills an `Observed` from its stores. Nothing here decides anything and nothing here
knows an API client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .answers import ProbeResult
from .watched import ChildKey, ChildObserved, DeploymentObserved, PodObserved


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Names one InferenceModel; the key of the work queue."""

    namespace: str
    name: str


class ReferenceKind(StrEnum):
    """Kinds of objects that a model's spec may name."""

    CONFIG_MAP = "ConfigMap"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    SECRET = "Secret"  # noqa: S105  the kind's name, not a password


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """An object in the model's namespace that its pods cannot start without."""

    kind: ReferenceKind
    name: str


class ReferenceState(StrEnum):
    """What the shell knows of a referenced object; `FORBIDDEN`: it may not look."""

    EXISTS = "exists"
    MISSING = "missing"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's refusal of a planned object, kept until an apply of it succeeds.

    `applied_hash` is the annotation of the refused object, so that an edited object is not blamed
    for its predecessor. `reason` is the Status object's (Invalid, Forbidden, ...), or
    `AlreadyExists` where the name belongs to an object that this model does not own; the message
    then says whose it is.
    """

    kind: str
    name: str
    applied_hash: str
    code: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RevisionRecord:
    """What a ReplicaSet keeps of its revision, as JSON.

    `template` is the pod template as the API server has it. `spec` is what
    `revisions.write_spec` made of the model that it was rendered from, empty where that is not
    known.
    """

    template: bytes
    spec: bytes = b""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that `plan` may look at, at one moment, for one model.

    `children` are all that the model owns, `deployment` the one of them that runs its pods;
    `available_kinds` are the optional kinds of children that the cluster has now.
    `probes` is keyed by pod uid. `history` has the revisions that a plan asked for, None for one
    that no ReplicaSet keeps any more. `status` is the status as the API server has it, for
    transition times, `lastFailure`, and verdicts that a restarted operator has not asked for
    again.
    """

    deployment: DeploymentObserved | None = None
    children: Mapping[ChildKey, DeploymentObserved | ChildObserved] = field(
        default_factory=dict[ChildKey, DeploymentObserved | ChildObserved]
    )
    available_kinds: frozenset[str] = frozenset()
    pods: tuple[PodObserved, ...] = ()
    probes: Mapping[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])
    references: Mapping[Reference, ReferenceState] = field(
        default_factory=dict[Reference, ReferenceState]
    )
    refusals: tuple[Refusal, ...] = ()
    history: Mapping[str, RevisionRecord | None] = field(
        default_factory=dict[str, RevisionRecord | None]
    )
    status: Mapping[str, Any] = field(default_factory=dict[str, Any])
