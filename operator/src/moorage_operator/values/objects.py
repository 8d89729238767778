"""Observed pods and children of a model, reduced to the facts that a plan needs. Pure.

parse_objects --> PodObserved, DeploymentObserved, ChildObserved --> store --> Observed
"""

from dataclasses import dataclass
from datetime import datetime

from moorage_operator.api import names

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ContainerObserved:
    """A container with its name and image, and the state that its kubelet reports.

    Before the first report, `container_id` and all state fields are empty. `running_since` is set
    only while the container runs. `terminated_*` describe the current state, `last_terminated_*`
    the run before it.
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
    """The pod's PodScheduled condition; `status` is None before the scheduler reports."""

    status: bool | None = None
    reason: str = ""
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class PodObserved:
    """A pod, reduced to the facts that a plan needs.

    `ready` and `ready_since` are from the Ready condition, and so is `unready_message` of a pod
    that is not ready; `initialized_since` is the end of the init containers. `revision` is our
    label `moorage.dev/revision`; `template_hash` is the label of the Deployment controller.
    `reason` and `message` are those of the pod's status, such as Evicted. `gated` means that the
    pod has our readiness gate; `gate_open` is the state of the gate, None if it is unset.
    `runtime` is the container named `runtime`. `replica_set` is the name of the controlling
    ReplicaSet, empty if there is none. `scheduler` is the scheduler that the spec names.
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
    unready_message: str = ""
    initialized_since: datetime | None = None
    gated: bool = False
    gate_open: bool | None = None
    deleting: bool = False
    template_hash: str = ""
    revision: str = ""
    replica_set: str = ""
    scheduler: str = DEFAULT_SCHEDULER
    scheduled: Scheduled = Scheduled()
    init: tuple[ContainerObserved, ...] = ()
    runtime: ContainerObserved = ContainerObserved("runtime")

    @property
    def is_active(self) -> bool:
        """Whether its ReplicaSet counts it: it has neither ended nor is being deleted."""
        return not self.deleting and not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether it has ended and never runs again."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_lost(self) -> bool:
        """Whether its node has stopped reporting.

        The node controller then sets the condition Ready to false and changes nothing else. A
        kubelet also adds a message, and reports a container of which the probe fails.

        Source: Kubernetes, pkg/controller/util/node, MarkPodsNotReady.
        """
        waits = self.gated and not self.gate_open
        return self.runtime.ready and not (self.ready or self.unready_message or waits)

    def deployment_of(self, model: str) -> str:
        """The name of the model's Deployment that created the pod, "" if none did.

        The name of a ReplicaSet consists of its Deployment's name and the label
        `pod-template-hash`. Labels alone prove nothing.
        """
        possible = (names.deployment(model), names.deployment_of(model, self.revision))
        made = (each for each in possible if self.replica_set == f"{each}-{self.template_hash}")
        return next(made, "")


@dataclass(frozen=True, slots=True)
class DeploymentCondition:
    """A condition of a Deployment (Progressing, Available, ReplicaFailure) or an autoscaler.

    `updated` is the time of the last update by its controller.
    """

    type: str
    status: bool | None
    reason: str = ""
    message: str = ""
    updated: datetime | None = None


PAUSED = "spec.paused"
"""The field that stops a Deployment's rollout; `kubectl rollout pause` sets it."""


@dataclass(frozen=True, slots=True)
class DeploymentObserved:
    """The current Deployment.

    `applied_hash` is our annotation, `revision` the label of the pod template. `conditions` are
    those that report a problem. `foreign` has the paths of fields that other field managers set,
    each with its manager. The number of pods is left out, because it is known from the pods and
    changes with each of them. `is_uniform` says whether the controller reports the wanted number
    of pods, all with the current template. Pods of a Deployment that was never changed cannot
    have another one, so it is always true for these. `is_mixed` says whether it reports pods with
    another template. `size` is the number of pods in its spec, None if somebody else set it.
    """

    uid: str
    generation: int
    observed_generation: int = 0
    applied_hash: str = ""
    conditions: tuple[DeploymentCondition, ...] = ()
    revision: str = ""
    foreign: tuple[tuple[str, str], ...] = ()
    is_uniform: bool = True
    is_mixed: bool = False
    size: int | None = None

    @property
    def is_reported(self) -> bool:
        """Whether its controller has seen the current spec."""
        return self.observed_generation >= self.generation


@dataclass(frozen=True, slots=True)
class ChildObserved:
    """A child of another kind; `conditions` are those of its status, if any."""

    uid: str
    applied_hash: str = ""
    conditions: tuple[DeploymentCondition, ...] = ()


ROUTE_CONDITIONS = ("Accepted", "ResolvedRefs")
"""The conditions that a Gateway must report for a route before it can be relied on. Controllers
add others, some without a generation."""


@dataclass(frozen=True, slots=True)
class RouteParent:
    """Those conditions of a route that one controller reports for one Gateway.

    `observed_generation` is the lowest one of the conditions, 0 if one has none.
    """

    name: str
    namespace: str
    section_name: str = ""
    observed_generation: int = 0
    conditions: tuple[DeploymentCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteObserved(ChildObserved):
    """An HTTPRoute or a GRPCRoute with the conditions of its Gateways."""

    generation: int = 0
    parents: tuple[RouteParent, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadBalancerPoint:
    """An address at which an Ingress is served; `ports` are empty if its controller omits them."""

    address: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IngressObserved(ChildObserved):
    """An Ingress with the addresses of its status."""

    points: tuple[LoadBalancerPoint, ...] = ()


ChildKey = tuple[str, str]
"""The kind and the name of a child: "Deployment", "iris"."""

AppliedState = tuple[str, str, bool, str]
"""The uid of the owner, the applied hash, whether it is being deleted, and our fields."""

OWNER = "\0"
"""A placeholder for the owner's uid; this byte does not occur in JSON."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object of one of the kinds of children with our label.

    Attributes:
        owner_uid: The uid of its controller, or of another owner if there is no controller; "" if
            it has no owner.
        common_fields: FieldsV1 of our field manager, as JSON without the owner's uid. It is the
            same for most models, so that it is kept only once.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    applied_hash: str
    deleting: bool
    common_fields: str
    observed: DeploymentObserved | ChildObserved

    @property
    def fields(self) -> bytes:
        """FieldsV1 of our field manager, as JSON."""
        return self.common_fields.replace(OWNER, self.owner_uid).encode()

    @property
    def applied_state(self) -> AppliedState:
        """What our apply decides. The child is intact while it has the state that we applied."""
        return self.owner_uid, self.applied_hash, self.deleting, self.common_fields
