"""What is to be done, as `plan.plan` says it and the shell does it. Pure.

plan --> Plan --> applier, poller, lookups, events
"""

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from .smoke import SmokeTask
from .state import Reference


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
