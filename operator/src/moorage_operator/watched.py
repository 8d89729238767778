"""What the watches tell of a model's pods and children: the few facts that a plan needs. Pure.

observe --> PodObserved, DeploymentObserved, ChildObserved --> store --> Observed
"""

from dataclasses import dataclass
from datetime import datetime


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

    `revision` is the label of its pod template, `conditions` those that speak against it. How many
    pods it counts is left out: the pods tell that themselves, and it changes with each of them.
    """

    uid: str
    generation: int
    observed_generation: int = 0
    applied_hash: str = ""
    conditions: tuple[DeploymentCondition, ...] = ()
    revision: str = ""


@dataclass(frozen=True, slots=True)
class ChildObserved:
    """A child of another kind; `conditions` are those of its status, where it has any."""

    uid: str
    applied_hash: str = ""
    conditions: tuple[DeploymentCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteParent:
    """What one controller says of a route at one Gateway.

    `observed_generation` is the lowest of its conditions: 0 where one of them does not tell.
    """

    name: str
    namespace: str
    section_name: str = ""
    observed_generation: int = 0
    conditions: tuple[DeploymentCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteObserved(ChildObserved):
    """An HTTPRoute with the verdicts of its Gateways."""

    generation: int = 0
    parents: tuple[RouteParent, ...] = ()


ChildKey = tuple[str, str]
"""The kind and the name of a child: "Deployment", "iris"."""

OWNER = b"\0"
"""Stands for the owner's uid; JSON has no such byte."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object of one of the kinds of children that carries our label.

    Attributes:
        owner_uid: Uid of its controller, "" when it has none.
        common_fields: FieldsV1 of our field manager, as JSON without the owner's uid: so it is
            the same in most models, and kept once.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    applied_hash: str
    deleting: bool
    common_fields: bytes
    observed: DeploymentObserved | ChildObserved

    @property
    def fields(self) -> bytes:
        """FieldsV1 of our field manager, as JSON."""
        return self.common_fields.replace(OWNER, self.owner_uid.encode())
