"""The plan for one model, which `decide.plan` computes and other packages carry out. Pure.

plan --> Plan --> applier, poller, lookups, events
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from .observed import Reference
from .smoke import SmokeTask


@dataclass(frozen=True, slots=True)
class Way:
    """A protocol over a transport, with its port.

    `protocol` and `transport` have the values of the spec (OpenInference; HTTP, GRPC). Paths are
    percent-encoded and only apply to HTTP; an empty path means that the protocol has none.
    `infer_model` is the name of the model in requests whose path does not have it; empty for the
    only model of a server.
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
class Access:
    """How a server is secured: the names of the Secrets, and never their contents.

    An empty `tls_secret` means plaintext, an empty `token_secret` that no token is sent.
    `server_name` is the host name that the certificate must have.
    """

    namespace: str
    tls_secret: str = ""
    server_name: str = ""
    token_secret: str = ""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A container to poll, with the parameters for its driver.

    `way` is the protocol and transport of its queries; that of `Auto` has no paths. `others` are
    the ways for detection, the most likely first; empty while the declared protocol is answered.
    `timeout_seconds` limits one query. `bring_online` is for servers that start offline.
    `explained_by` is another way in which the server explains why a model is not ready. `smoke`
    are the tests for a ready model, which all targets of the model share. `vouched` means that
    the model was ready according to the status and was not polled since a restart of the
    operator. `own_path` means that `way.model_ready_path` is a custom path, which proves no
    protocol. `access` is None for a server without TLS and tokens.
    """

    pod_uid: str
    container_id: str
    address: str
    way: Way
    model_name: str
    model_version: str
    timeout_seconds: float
    bring_online: bool = False
    others: tuple[Way, ...] = field(default=(), compare=False)
    explained_by: Way | None = None
    smoke: SmokeTask | None = None
    vouched: bool = field(default=False, compare=False)
    own_path: bool = False
    access: Access | None = None

    def by(self, way: Way) -> "ProbeTarget":
        """Return a target for the same container with another protocol and transport."""
        return replace(self, way=way)

    def asks_as(self, other: "ProbeTarget") -> bool:
        """Whether both targets have the same queries, apart from smoke tests."""
        return self == replace(other, smoke=self.smoke)


class PollPace(StrEnum):
    """The frequency of polls: often while a model changes, rarely otherwise."""

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
    """The condition to write for a pod's readiness gate; `since` is a Kubernetes timestamp."""

    pod: str
    uid: str
    is_open: bool
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The desired state of one model.

    Attributes:
        objects: All desired children, in the order of their apply.
        status: The whole status.
        keeps_others: Whether to keep other children, as for a spec with problems.
        leaves_children: Whether nothing at all may be written to the children, as for a paused
            model.
        gates: The readiness gates that change.
        events: Events to post.
        targets: The containers to poll.
        poll: The pace of the polls.
        poll_interval_seconds: The user's interval for the pace STABLE.
        requeue_after: Seconds until the next reconcile if no event triggers one earlier.
        references: Objects to look up for the next plan.
        history: Revisions that this plan depends on. While the records are missing, the plan is
            not carried out but computed again.
        heard: Whether any replica that its kubelet reports ready answers; None if there is none.
    """

    objects: tuple[dict[str, Any], ...]
    status: dict[str, Any]
    keeps_others: bool = False
    leaves_children: bool = False
    gates: tuple[PodGate, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    targets: tuple[ProbeTarget, ...] = ()
    poll: PollPace = PollPace.SETTLING
    poll_interval_seconds: float = 30.0
    requeue_after: float | None = None
    references: frozenset[Reference] = frozenset()
    history: frozenset[str] = frozenset()
    heard: bool | None = None
