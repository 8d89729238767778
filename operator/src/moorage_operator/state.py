"""The plain values between the shell and the plan: what was observed, what is planned.

The shell fills an `Observed` from its stores, `plan.plan` turns it into a `Plan`, the shell acts
on that. Nothing here decides anything and nothing here knows an API client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from .smoke import SmokeOutcome, SmokeTask

__all__ = [
    "Answer",
    "AnswerReason",
    "ChildKey",
    "ChildObserved",
    "ContainerObserved",
    "DeploymentCondition",
    "DeploymentObserved",
    "ModelInfo",
    "ObjectKey",
    "Observed",
    "Plan",
    "PlannedEvent",
    "PodGate",
    "PodObserved",
    "PollPace",
    "ProbeResult",
    "ProbeTarget",
    "Reference",
    "ReferenceKind",
    "ReferenceState",
    "Refusal",
    "RevisionRecord",
    "Scheduled",
    "ServerInfo",
    "Spoken",
    "TensorInfo",
    "Way",
]


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Names one InferenceModel; the key of the work queue."""

    namespace: str
    name: str


# ------------------------------------------------------------------ observed: children


@dataclass(frozen=True, slots=True)
class ContainerObserved:
    """One container's spec name and image with what its kubelet reports.

    Before the kubelet has reported, `container_id` is empty and every state field is empty.
    `running_since` is set only while it runs; `terminated_*` describe the present state,
    `last_terminated_*` the run before it.
    """

    name: str
    image: str = ""
    container_id: str = ""
    started: bool = False
    ready: bool = False
    restart_count: int = 0
    waiting_reason: str = ""
    waiting_message: str = ""
    running_since: datetime | None = None
    terminated_reason: str = ""
    exit_code: int | None = None
    terminated_message: str = ""
    terminated_started_at: datetime | None = None
    terminated_at: datetime | None = None
    last_terminated_reason: str = ""
    last_terminated_exit_code: int | None = None
    last_terminated_message: str = ""
    last_terminated_started_at: datetime | None = None
    last_terminated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The pod's PodScheduled condition; `status` is None before the scheduler said anything."""

    status: bool | None = None
    reason: str = ""
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodObserved:
    """The few facts of a pod that status is made from.

    `ready` and `ready_since` are the pod's Ready condition, `initialized_since` is that of the end
    of its init containers. `revision` is our label
    `moorage.dev/revision`, `template_hash` the Deployment controller's. `reason` and `message` are
    those of the pod's status (such as Evicted). `gated` says that the pod has our readiness gate,
    `gate_open` what stands in it (None: nothing). `runtime` is the container named `runtime`.
    """

    name: str
    uid: str
    created: datetime
    ip: str = ""
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    ready: bool = False
    ready_since: datetime | None = None
    initialized_since: datetime | None = None
    gated: bool = False
    gate_open: bool | None = None
    deleting: bool = False
    template_hash: str = ""
    revision: str = ""
    scheduled: Scheduled = Scheduled()
    init: tuple[ContainerObserved, ...] = ()
    runtime: ContainerObserved = ContainerObserved("runtime")


@dataclass(frozen=True, slots=True)
class DeploymentCondition:
    """One condition of a Deployment (Progressing, Available, ReplicaFailure) or an autoscaler.

    `updated` is when its controller last looked at it.
    """

    type: str
    status: bool | None
    reason: str = ""
    message: str = ""
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeploymentObserved:
    """The Deployment as it stands; `applied_hash` is our annotation on it.

    `revision` is the label of its pod template.
    """

    uid: str
    generation: int
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    ready_replicas: int = 0
    spec_replicas: int = 0
    applied_hash: str = ""
    conditions: tuple[DeploymentCondition, ...] = ()
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ChildObserved:
    """A child of another kind; `conditions` are those of its status, where it has any."""

    uid: str
    applied_hash: str = ""
    conditions: tuple[DeploymentCondition, ...] = ()


ChildKey = tuple[str, str]
"""The kind and the name of a child: "Deployment", "iris"."""


# ------------------------------------------------------------------ observed: probe answers


class AnswerReason(StrEnum):
    """What a server's answer, or its absence, means; the drivers' shared vocabulary."""

    READY = "Ready"
    NOT_READY = "NotReady"  # the server says no, and not why
    LOADING = "Loading"  # the server says that it loads
    LOAD_FAILED = "LoadFailed"  # the server says that loading failed; message: its own text
    MODEL_NOT_FOUND = "ModelNotFound"  # message: what the server has, where it can tell
    VERSION_NOT_FOUND = "VersionNotFound"  # the model is there, the version is not
    REFUSED = "Refused"  # nothing listens on the port
    TIMED_OUT = "TimedOut"
    WRONG_PROTOCOL = "WrongProtocol"  # something answers, in another protocol
    MALFORMED = "Malformed"  # right protocol, body that cannot be read
    NOT_ASKED = "NotAsked"


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's outcome. `verdict` None: unknown, nobody said yes or no.

    `listed` says that the server has shown all that it has, so that what is not there is not on
    its way either.
    """

    verdict: bool | None
    reason: AnswerReason
    message: str = ""
    listed: bool = False


NOT_ASKED = Answer(None, AnswerReason.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the model's metadata declares it.

    A variable dimension is -1; a shape of None is one whose rank is not told either.
    """

    name: str
    datatype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Server metadata."""

    name: str
    version: str = ""
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Model metadata."""

    name: str
    versions: tuple[str, ...] = ()
    platform: str = ""
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()


ANSWERED = "it answers for the model"
"""The evidence for a declared protocol until its own question was answered."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """The protocol in which a server was found to answer, and the answer that showed it."""

    protocol: str
    transport: str
    port: int
    evidence: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The last answers of one container of one pod.

    `consecutive_unknown` counts the polls in a row, this one included, whose model-ready verdict
    was None. `spoken` is the protocol of the answers, or, where the target's own is not answered,
    what the server speaks instead. `brought_online` is set once a server that starts offline was
    told to take traffic, `described` once metadata was asked for, whatever came of it. `smoke` is
    how the smoke tests ended that were run last. A result belongs to a container: a restart makes
    it void.
    """

    pod_uid: str
    container_id: str
    asked_at: datetime
    live: Answer = NOT_ASKED
    ready: Answer = NOT_ASKED
    model_ready: Answer = NOT_ASKED
    consecutive_unknown: int = 0
    spoken: Spoken | None = None
    brought_online: bool = False
    described: bool = False
    server: ServerInfo | None = None
    model: ModelInfo | None = None
    smoke: SmokeOutcome | None = None


# ------------------------------------------------------------------ observed: the rest


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


@dataclass(frozen=True, slots=True)
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


# ------------------------------------------------------------------ planned


@dataclass(frozen=True, slots=True)
class Way:
    """One protocol over one transport, on the port for it.

    `protocol` and `transport` are the spec's values (OpenInference; HTTP, GRPC). Paths are
    percent-encoded and hold for HTTP alone; an empty one is a question that the protocol has no
    path for. `infer_model` names the model in requests whose path does not; empty: the server's
    only one.
    """

    protocol: str
    transport: str
    port: int
    live_path: str = ""
    ready_path: str = ""
    model_ready_path: str = ""
    metadata_path: str = ""
    server_path: str = ""
    infer_path: str = ""
    infer_model: str = ""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """One container to poll, and all that a driver needs for it.

    From `port` to `infer_model` it is a `Way`; of the protocol `Auto` there are no paths. `others`
    are the ways that are tried to find out what a server speaks, the likeliest first; empty while
    a declared protocol is answered. `timeout_seconds` bounds one question. `bring_online` is for
    servers that start offline and wait to be told to take traffic. `explained_by` is another way,
    in which this server says why a model is not ready. `smoke` are the tests that a ready model is
    put to. `vouched` says that the status tells of this container that its model was ready, and
    nobody has asked it since: the operator has restarted.
    """

    pod_uid: str
    container_id: str
    address: str
    port: int
    protocol: str
    transport: str
    model_name: str
    model_version: str
    live_path: str
    ready_path: str
    model_ready_path: str
    metadata_path: str
    server_path: str
    timeout_seconds: float
    infer_path: str = ""
    infer_model: str = ""
    bring_online: bool = False
    others: tuple[Way, ...] = field(default=(), compare=False)
    explained_by: Way | None = None
    smoke: SmokeTask | None = None
    vouched: bool = field(default=False, compare=False)

    def by(self, way: Way) -> "ProbeTarget":
        """The same container, asked in another way."""
        return replace(self, **{each.name: getattr(way, each.name) for each in fields(way)})

    def asks_as(self, other: "ProbeTarget") -> bool:
        """Whether answers to the one are answers to the other; smoke tests are a thing apart."""
        return self == replace(other, smoke=self.smoke)


class PollPace(StrEnum):
    """How often the targets are worth asking: often while something moves, seldom when not."""

    SETTLING = "settling"
    STABLE = "stable"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """A Kubernetes Event about the model; `type` is Normal or Warning."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodGate:
    """What to write into a pod's readiness gate; `since` is a Kubernetes timestamp."""

    pod: str
    uid: str
    is_open: bool
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now.

    `objects` are all the children that should exist, to be applied in this order; others of the
    model are deleted, unless `keeps_others`: nobody knows what a spec with problems wants, so what
    runs keeps running. `gates` are the pods' that change. `status` is the whole
    status. `poll_interval_seconds` is the user's interval for the pace STABLE. `requeue_after`
    (seconds) is set where nothing but time will tell, `references` are what the shell looks up for
    the next `Observed`. `history` are the revisions that this plan rests on: while `Observed`
    lacks one of them it is not to be acted on, but made again.
    """

    objects: tuple[dict[str, Any], ...]
    status: dict[str, Any]
    keeps_others: bool = False
    gates: tuple[PodGate, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    targets: tuple[ProbeTarget, ...] = ()
    poll: PollPace = PollPace.SETTLING
    poll_interval_seconds: float = 30.0
    requeue_after: float | None = None
    references: frozenset[Reference] = frozenset()
    history: frozenset[str] = frozenset()
