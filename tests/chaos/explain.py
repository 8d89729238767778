"""Which failed requests Kubernetes itself does not promise to answer. Pure.

A fault explains failures in a window. Its length follows from what the EndpointSlices showed, not
from the time that the operator took:

- A server that is killed stays in the Service until its kubelet notices: requests to it fail.
- While the only replica is replaced, by its deletion or by strategy Recreate, there is none.
- A kubelet that starts again takes containers for unready until it has probed them.
- While a part of the control plane is away, endpoints do not change, even if their pods end.
- EndpointSlices may follow pods late, and kube-proxy the EndpointSlices: after an outage of the
  API server or of etcd, their controllers back off for up to a minute.

Faults of the operator, rolling and blue-green edits, and the deletion of one replica of several
explain nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .models import Model
from .schedule import PARTS, Fault

ROUTES_SECONDS = 3.0
"""From an EndpointSlice's change to the rules of every node; kube-proxy gathers changes first."""

NOTICE_SECONDS = 10.0
"""From a fault to the EndpointSlice that shows it: three probes and two controllers."""

THAW_SECONDS = 15.0
"""From the return of a part of the control plane to the end of its clients' back-off."""

ROLLOUT_SECONDS = 90.0
"""From an edit to the end of its rollout; it may wait for an operator."""

RECOVERY_SECONDS = 120.0
"""Longest outage that a fault explains; a kubelet may back off for 80 s."""

NO_EXCUSE = ("wrong", "malformed")
"""Beginnings of answers that no fault explains."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds from the start of the run."""

    began: float
    ended: float

    def overlaps(self, other: "Span") -> bool:
        """Whether both have a moment in common."""
        return self.began <= other.ended and other.began <= self.ended


@dataclass(frozen=True, slots=True)
class Happened:
    """A fault as it was carried out.

    Attributes:
        fault: What happened.
        span: From its beginning until what was taken away was given back.
        model: The model, for faults of models.
        pod: The pod, for faults of pods.
    """

    fault: Fault
    span: Span
    model: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without the right answer."""

    model: str
    span: Span
    said: str


@dataclass(frozen=True, slots=True)
class Window:
    """When failures of a model are explained, and by what."""

    span: Span
    why: str


Readiness = Sequence[tuple[float, int]]
"""Changes of the number of ready endpoints, in the order of time."""

Addresses = Sequence[tuple[float, frozenset[str]]]
"""Changes of a set of addresses, in the order of time."""


def explanation(failure: Failure, windows: Iterable[Window]) -> str:
    """What explains a failure; empty where nothing does."""
    if failure.said.startswith(NO_EXCUSE):
        return ""
    return next((each.why for each in windows if each.span.overlaps(failure.span)), "")


def windows_of(
    model: Model, happened: Sequence[Happened], ready: Readiness, end: float
) -> list[Window]:
    """Every window of a model in a run that has ended."""
    frozen = [
        Span(each.span.began, each.span.ended + THAW_SECONDS)
        for each in happened
        if each.fault in PARTS
    ]
    short = stretches(ready, model.replicas, end)
    empty = stretches(ready, 1, end)
    found: list[Window] = []
    for each in happened:
        if each.model not in {"", model.name}:
            continue
        began, ended = each.span.began, each.span.ended
        if each.fault is Fault.SERVER_KILLED:
            base = _grown(Span(began, ended + NOTICE_SECONDS), frozen)
            found.append(Window(_until_recovered(base, short), "server killed"))
        if each.fault in {Fault.KUBELET, Fault.CONTAINERD}:
            base = Span(began, ended + THAW_SECONDS)
            found += _without_replica(base, empty, "kubelet or containerd killed")
        if each.fault is Fault.POD_DELETED and model.replicas == 1:
            base = _grown(Span(began, ended + NOTICE_SECONDS), frozen)
            found += _without_replica(base, empty, "only replica deleted")
        if each.fault is Fault.EDIT and model.strategy == "Recreate":
            base = _grown(Span(began, ended + ROLLOUT_SECONDS), frozen)
            found += _without_replica(base, empty, "rollout by Recreate")
        if each.fault in {Fault.EDIT, Fault.POD_DELETED}:
            replaced = Span(began, ended + ROLLOUT_SECONDS)
            found += [
                Window(_until_recovered(each, short), "pods replaced under frozen endpoints")
                for each in frozen
                if each.overlaps(replaced)
            ]
    return found


def behind(offered: Addresses, routed: Addresses, end: float) -> list[Window]:
    """When kube-proxy sent requests to other addresses than the EndpointSlices offered.

    Args:
        offered: By the EndpointSlices, among them those of ending pods where no other is ready.
        routed: By the rules of the node.
        end: Of the run.
    """
    spans = _while(offered, routed, end, lambda mine, theirs: mine != theirs)
    return [Window(each, "kube-proxy behind the EndpointSlices") for each in spans]


def outdated(offered: Addresses, alive: Addresses, end: float) -> list[Window]:
    """When the EndpointSlices offered addresses of pods that had ended.

    Args:
        offered: By the EndpointSlices.
        alive: The addresses of pods whose containers have not ended.
        end: Of the run.
    """
    spans = _while(offered, alive, end, lambda mine, theirs: not mine <= theirs)
    return [Window(each, "EndpointSlices behind the pods") for each in spans]


def _while(
    first: Addresses,
    second: Addresses,
    end: float,
    differ: Callable[[frozenset[str], frozenset[str]], bool],
) -> list[Span]:
    """The times of more than a few seconds in which two sets of addresses differ."""
    changes = sorted([(at, 0, new) for at, new in first] + [(at, 1, new) for at, new in second])
    now: list[frozenset[str] | None] = [None, None]
    found: list[Span] = []
    began: float | None = None
    for at, which, new in changes:
        now[which] = new
        mine, theirs = now
        is_different = mine is not None and theirs is not None and differ(mine, theirs)
        if is_different and began is None:
            began = at
        elif not is_different and began is not None:
            found.append(Span(began, at))
            began = None
    found += [Span(began, end)] if began is not None else []
    return [each for each in found if each.ended - each.began > ROUTES_SECONDS]


def stretches(ready: Readiness, wanted: int, end: float) -> list[Span]:
    """When fewer endpoints were ready than wanted."""
    found: list[Span] = []
    began: float | None = None
    for at, count in ready:
        if count < wanted and began is None:
            began = at
        elif count >= wanted and began is not None:
            found.append(Span(began, at))
            began = None
    return found if began is None else [*found, Span(began, end)]


def _grown(span: Span, frozen: Sequence[Span]) -> Span:
    """The span, which a frozen control plane makes longer."""
    for each in sorted(frozen, key=lambda one: one.began):
        if each.overlaps(span):
            span = Span(span.began, max(span.ended, each.ended))
    return span


def _until_recovered(span: Span, short: Sequence[Span]) -> Span:
    """The span and the outages that begin in it."""
    latest = span.ended + RECOVERY_SECONDS
    ends = [min(each.ended, latest) for each in short if each.overlaps(span)]
    return Span(span.began, max([span.ended, *(each + ROUTES_SECONDS for each in ends)]))


def _without_replica(base: Span, empty: Sequence[Span], why: str) -> list[Window]:
    """The times without any ready endpoint that begin in a span."""
    latest = base.ended + RECOVERY_SECONDS
    return [
        Window(Span(each.began - ROUTES_SECONDS, min(each.ended, latest) + ROUTES_SECONDS), why)
        for each in empty
        if each.overlaps(base)
    ]


def restarts_explained(pod: str, happened: Iterable[Happened], *, operator: bool) -> int:
    """How many restarts of a pod's container the faults explain.

    An operator ends, and is started again, when it cannot renew its lease.
    """
    killed = {Fault.SERVER_KILLED, Fault.OPERATOR_KILLED, Fault.LEADER_KILLED, Fault.OPERATOR_CUT}
    silent = {Fault.API_SERVER, Fault.ETCD} if operator else set[Fault]()
    return sum(
        each.fault in silent or (each.fault in killed and each.pod == pod) for each in happened
    )
