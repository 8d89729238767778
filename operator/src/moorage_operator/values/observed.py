"""The observed state of one model, which is the input of its plan.

    objects, answers, references, refusals --> Observed --> decide.plan --> values.plan.Plan

The store creates an `Observed`. This module makes no decisions and uses no API client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .answers import ProbeResult
from .gateways import NO_GATEWAYS, GatewaysObserved
from .objects import ChildKey, ChildObserved, DeploymentObserved, PodObserved
from .runtimes import NO_RUNTIME, RuntimeState

REFUSAL_RETRY_SECONDS = 15.0
"""The delay before a refused object is retried, because no event reports when it would succeed."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Identifies an InferenceModel; the key of the work queue."""

    namespace: str
    name: str


class ReferenceKind(StrEnum):
    """Kinds of objects that a model's spec may refer to."""

    CONFIG_MAP = "ConfigMap"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    SECRET = "Secret"  # noqa: S105  the kind's name, not a password


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """An object in the model's namespace that its pods require."""

    kind: ReferenceKind
    name: str


class ReferenceState(StrEnum):
    """The state of a referenced object; `FORBIDDEN` if the operator may not look it up."""

    EXISTS = "exists"
    MISSING = "missing"
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's refusal of a planned object, kept until an apply of it succeeds.

    It is also the refusal to delete a child that is no longer planned; `deletes` is then the uid
    of the child, and `applied_hash` is empty.

    `applied_hash` is the annotation of the refused object, so that an edited object is not
    affected. `reason` is that of the Status object (Invalid, Forbidden, ...). It is
    `AlreadyExists` if another object has the name; the message then names its owner. It is
    `AwaitingDeletion` if that owner is a deleted model of the same name, whose children the
    garbage collector has not deleted yet, and `BeingDeleted` if a child of this model is being
    deleted. `transient` marks a failed write without a decision on
    the object (a 5xx of an admission webhook, a timeout), `tries` counts consecutive ones, and
    `retry_seconds` is the delay before the next try. `missing` marks an object that does not exist
    yet. `at` is the time of the last try in monotonic seconds.
    """

    kind: str
    name: str
    applied_hash: str
    code: int
    reason: str
    message: str
    transient: bool = False
    tries: int = 1
    retry_seconds: float = REFUSAL_RETRY_SECONDS
    missing: bool = False
    deletes: str = ""
    at: float = field(default=0.0, compare=False)

    @property
    def is_reported(self) -> bool:
        """Whether to report it in a condition.

        The first failed update of an object is not reported, because the retry usually succeeds. A
        failed creation is reported at once: without its Service, no client reaches a model.
        """
        return not self.transient or self.missing or self.tries > 1


@dataclass(frozen=True, slots=True)
class RevisionRecord:
    """The data of a revision in its ReplicaSet, as JSON.

    `template` is the pod template at the API server. `spec` is `written.kept` of the model, empty
    if it was not stored.
    """

    template: bytes
    spec: bytes = b""


@dataclass(frozen=True, slots=True)
class Observed:
    """The input of `plan` for one model.

    Attributes:
        deployment: The child that runs the model's pods.
        children: All children that the model owns.
        available_kinds: The optional kinds of children that the cluster has.
        unreadable_kinds: The kinds of children that exist, but that the operator may not read. The
            children of these kinds are those that it read last.
        pods: The pods of the model.
        probes: The answers of servers, by pod uid.
        references: The states of referenced objects.
        refusals: Refused objects and failed writes.
        history: The revisions that a plan needs, None for one without a record.
        status: The status at the API server, for transition times, `lastFailure`, and results
            that a restarted operator has not queried again.
        is_cut_off: Whether most models do not answer, although their kubelets report them ready.
        runtime: The InferenceRuntime that the model was resolved with.
        gateways: The Gateways of its route.
    """

    deployment: DeploymentObserved | None = None
    children: Mapping[ChildKey, DeploymentObserved | ChildObserved] = field(
        default_factory=dict[ChildKey, DeploymentObserved | ChildObserved]
    )
    available_kinds: frozenset[str] = frozenset()
    unreadable_kinds: frozenset[str] = frozenset()
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
    is_cut_off: bool = False
    runtime: RuntimeState = NO_RUNTIME
    gateways: GatewaysObserved = NO_GATEWAYS
