"""From a model and what was observed of it to everything that is to be done: the pure middle.

observe -> **plan** -> apply -> status

`plan` returns the objects to apply, the whole status, what to poll and what to look up. It raises
nothing for what a user wrote, and gives the same bytes for the same input. A spec that cannot be
accepted plans no objects: what runs keeps running.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from . import names
from .api.v1alpha1 import InferenceModel
from .canary import Split, advance, make_split, seconds_left, stopped
from .conditions import Condition, ConditionType, Reason, find_condition, timestamp, truncated
from .config import OperatorConfig
from .contract import CONTRACT_REASONS
from .gates import make_gates
from .memo import by_identity
from .planned import Plan, PlannedEvent, PollPace
from .readiness import Judgement, decide
from .releases import Arrangement, Release, arrange, is_kept
from .replicas import DEFINITE, Replica, judge
from .resources.autoscaler import KEDA_AUTOSCALER, autoscaler_kind, make_autoscaler
from .resources.deployment import make_deployment
from .resources.disruption import make_disruption_budget
from .resources.kept_revision import make_kept_revision
from .resources.network_policy import make_network_policy
from .resources.owned import applied_hash
from .resources.pod_template import make_pod_template
from .resources.references import references
from .resources.route import ROUTE, make_route
from .resources.service import make_service
from .revisions import Retirement, Revisions, read_revisions, write_spec
from .rollout import Course, chart_course, give_up, until_definite
from .routing import has_route, make_backends
from .state import Observed, Reference, Refusal
from .status import make_status
from .targets import make_targets
from .trials import SMOKE_REASONS
from .up_to_date import given_up_sentence
from .watched import DeploymentObserved

__all__ = ["plan"]

# Nobody tells when a refused object would be taken.
REFUSAL_RETRY_SECONDS = 15.0

ROUTED_BY = {"Service", ROUTE}

BEYOND_READINESS = CONTRACT_REASONS | SMOKE_REASONS

# Ways that a model passes on the way up: the status has them, an event would be noise.
PASSING_REASONS = {
    Reason.PENDING,
    Reason.POD_NOT_READY,
    Reason.MODEL_LOADING,
    Reason.SERVER_NOT_LIVE,
    Reason.AWAITING_METADATA,
    Reason.RUNNING,
}
# Conditions that keep Ready true where the spec does not enforce them.
WARNED_OF = {ConditionType.METADATA_MATCHED, ConditionType.SMOKE_TEST_PASSED}
NORMAL_REASONS = {
    Reason.SERVING,
    Reason.SERVING_PREVIOUS_REVISION,
    Reason.SUSPENDED,
    Reason.SCALED_TO_ZERO,
}


@dataclass(frozen=True, slots=True)
class _Decided:
    """Which revision is to run, where, and how requests are shared between it and another."""

    course: Course
    arrangement: Arrangement
    split: Split | None


def plan(
    model: InferenceModel, observed: Observed, *, now: datetime, config: OperatorConfig
) -> Plan:
    """What to do for one model now.

    Args:
        model: The parsed resource.
        observed: Everything known of its children, its replicas' answers and its references.
        now: The present moment, aware; only dates what is new in the status.
        config: The operator's settings.
    """
    interval = float(model.health.poll_interval_seconds)
    if model.deleting:
        # The garbage collector takes the children; to apply them again would fight it.
        kept = dict(observed.status)
        return Plan(
            (), kept, keeps_others=True, poll=PollPace.STABLE, poll_interval_seconds=interval
        )
    if model.problems:
        return _make_plan(model, observed, None, now=now, config=config)
    course = chart_course(model, observed, make_pod_template(model, config))
    runs = (course.applied, course.model, course.template)
    arrangement = arrange(model, observed, course.revisions, runs, now)
    history = course.history | arrangement.history
    if history - observed.history.keys():
        return Plan((), dict(observed.status), keeps_others=True, history=history)
    main = observed.children.get(("Deployment", arrangement.main.deployment))
    found = main if isinstance(main, DeploymentObserved) else None
    observed = replace(observed, deployment=found)
    decided = _Decided(course, arrangement, make_split(course, arrangement, observed))
    made = _make_plan(course.model, observed, decided, now=now, config=config)
    return replace(made, history=history, keeps_others=arrangement.unreadable)


def _make_plan(
    model: InferenceModel,
    observed: Observed,
    decided: _Decided | None,
    *,
    now: datetime,
    config: OperatorConfig,
) -> Plan:
    """The plan for what is to run; None is decided of a spec with problems."""
    course = decided.course if decided else None
    objects = _make_objects(decided, observed, config) if decided else ()
    replicas = judge(model, observed, course.applied if course else "")
    targets = make_targets(model, replicas, config)
    if decided and (earlier := decided.arrangement.earlier):
        theirs = [
            each for each in judge(earlier.model, observed, earlier.revision) if each.current
        ]
        targets += make_targets(earlier.model, theirs, config)
        replicas = _with_earlier(replicas, theirs)
    hashes = frozenset(applied_hash(item) for item in objects)
    split = decided.split if decided else None
    judgement = decide(model, observed, replicas, course, hashes, split)
    if decided:
        is_carried_out = _is_carried_out(objects, observed)
        judgement = _remembering(
            decided, observed, replicas, judgement, now, is_carried_out=is_carried_out
        )
    return Plan(
        objects=objects,
        status=make_status(model, observed, replicas, judgement, config=config, now=now),
        keeps_others=True,
        gates=make_gates(replicas, now),
        events=(
            *_events(judgement.ready, observed),
            *_warnings(judgement, observed),
            *_rejections(judgement, observed),
            *_steps(judgement, observed),
        ),
        targets=targets,
        poll=_pace(judgement),
        poll_interval_seconds=float(model.health.poll_interval_seconds),
        requeue_after=_again_after(decided, observed, replicas, hashes, now),
        references=_references(course.model, course.template) if course else frozenset(),
    )


@by_identity
def _references(_: InferenceModel, template: Mapping[str, Any]) -> frozenset[Reference]:
    return references(template)


def _make_objects(
    decided: _Decided, observed: Observed, config: OperatorConfig
) -> tuple[dict[str, Any], ...]:
    """The children, the Services first: what they select must be gone last."""
    course, arrangement = decided.course, decided.arrangement
    service = make_service(arrangement.front, arrangement.selected)
    routed = _make_routed(decided) if has_route(course.model, observed) else ()
    main = _make_deployment(arrangement.main, paused=course.paused)
    sides = map(_make_deployment, arrangement.sides)
    kept = _make_kept(course.model, arrangement, observed)
    return service, *routed, *kept, main, *sides, *_beside(course.model, observed, config)


def _make_routed(decided: _Decided) -> Iterator[dict[str, Any]]:
    """The route, after the Services that it names."""
    for release in decided.arrangement.routed:
        name = names.service_of(release.model.name, release.revision)
        yield make_service(release.model, release.revision, name)
    yield make_route(decided.course.model, make_backends(decided.arrangement, decided.split))


def _make_kept(
    model: InferenceModel, arrangement: Arrangement, observed: Observed
) -> Iterator[dict[str, Any]]:
    """What there is to go back to while another revision is tried, before anything is tried."""
    good = arrangement.earlier
    record = observed.history.get(good.revision) if good else None
    if good and record:
        yield make_kept_revision(model, good.revision, record)


def _beside(
    model: InferenceModel, observed: Observed, config: OperatorConfig
) -> Iterator[dict[str, Any]]:
    """The children beside the workload, of kinds that the cluster has."""
    kind = autoscaler_kind(model)
    if kind and (kind != KEDA_AUTOSCALER or kind in observed.available_kinds):
        yield make_autoscaler(model)
    if budget := make_disruption_budget(model):
        yield budget
    if policy := make_network_policy(model, config):
        yield policy


def _make_deployment(release: Release, *, paused: bool = False) -> dict[str, Any]:
    return make_deployment(
        release.model,
        release.template,
        name=release.deployment,
        kept_spec=write_spec(release.model),
        paused=paused,
    )


def _with_earlier(replicas: Sequence[Replica], earlier: Sequence[Replica]) -> tuple[Replica, ...]:
    """The replicas, those of the earlier revision judged as what they are."""
    judged = {each.pod.name: replace(each, current=False, asked=True) for each in earlier}
    return tuple(judged.get(each.pod.name, each) for each in replicas)


def _remembering(
    decided: _Decided,
    observed: Observed,
    replicas: Sequence[Replica],
    judgement: Judgement,
    now: datetime,
    *,
    is_carried_out: bool,
) -> Judgement:
    """The judgement, with what has failed for good given up, and what was replaced retiring."""
    revisions, split = judgement.revisions, decided.split
    rejected = canary = None
    if revisions.last_good != revisions.current:
        rejected = give_up(
            decided.course,
            observed,
            replicas,
            judgement.blamed,
            now=now,
            stopped=stopped(split, replicas, observed),
        )
        if split and rejected is None:
            canary = advance(split, judgement.route, serves=judgement.serves, now=now)
    remembered = replace(revisions, rejected=rejected, canary=canary)
    retiring = _retiring(decided, remembered, now)
    if retiring and not retiring.time and retiring == decided.course.revisions.retiring:
        retiring = replace(retiring, time=timestamp(now) if is_carried_out else "")
    return replace(judgement, revisions=replace(remembered, retiring=retiring))


def _retiring(decided: _Decided, after: Revisions, now: datetime) -> Retirement | None:
    """The revision that is kept for a while: one that requests were just taken from, first."""
    course, before = decided.course, decided.course.revisions
    sides = {each.revision for each in decided.arrangement.sides}
    if after.last_good != before.last_good and before.last_good in sides:
        return Retirement(before.last_good)
    canary, goes_on = before.canary, after.canary.revision if after.canary else ""
    if canary and canary.step and canary.revision not in {after.last_good, goes_on}:
        return Retirement(canary.revision)
    if is_kept(course.model, before, now) is None:
        return None
    kept = before.retiring
    return kept if kept and kept.revision != course.applied else None


def _is_carried_out(objects: Sequence[dict[str, Any]], observed: Observed) -> bool:
    """Whether what requests go by is in the cluster as it is planned."""
    planned = [each for each in objects if each["kind"] in ROUTED_BY]
    found = [observed.children.get((each["kind"], each["metadata"]["name"])) for each in planned]
    return all(
        child and child.applied_hash == applied_hash(each)
        for child, each in zip(found, planned, strict=True)
    )


def _again_after(
    decided: _Decided | None,
    observed: Observed,
    replicas: Sequence[Replica],
    hashes: frozenset[str],
    now: datetime,
) -> float | None:
    """Seconds after which to look again where nothing will happen that says so."""
    refused = REFUSAL_RETRY_SECONDS if _standing(observed.refusals, hashes) else None
    definite = retiring = step = None
    if decided:
        course = decided.course
        definite = until_definite(course, observed, replicas, now=now)
        retiring = is_kept(course.model, course.revisions, now)
        step = seconds_left(decided.split, now)
    known = (each for each in (refused, definite, retiring, step) if each is not None)
    return min(known, default=None)


def _pace(judgement: Judgement) -> PollPace:
    # Whom a contract or a smoke test finds fault with has a model that is ready.
    if judgement.blamed is None or judgement.blamed.reason in BEYOND_READINESS:
        return PollPace.STABLE
    return PollPace.FAILING if judgement.blamed.reason in DEFINITE else PollPace.SETTLING


def _standing(refusals: Sequence[Refusal], hashes: frozenset[str]) -> bool:
    """Whether an object that is planned now stands refused."""
    return any(refusal.applied_hash in hashes for refusal in refusals)


def _events(ready: Condition, observed: Observed) -> tuple[PlannedEvent, ...]:
    """One event when Ready changes its status, or its reason to one that will not pass."""
    before = find_condition(observed.status, ConditionType.READY)
    status = "True" if ready.status else "False"
    finding = ready.finding
    same_status = before.get("status", "False") == status
    if same_status and finding.reason in {before.get("reason"), *PASSING_REASONS}:
        return ()
    kind = "Normal" if finding.reason in NORMAL_REASONS else "Warning"
    return (PlannedEvent(kind, str(finding.reason), truncated(finding.message)),)


def _warnings(judgement: Judgement, observed: Observed) -> tuple[PlannedEvent, ...]:
    """One event when a contract is broken, or smoke tests fail, that are not enforced."""
    return tuple(
        PlannedEvent(
            "Warning", str(condition.finding.reason), truncated(condition.finding.message)
        )
        for condition in judgement.conditions
        if condition.type in WARNED_OF
        and condition.status is False
        and condition.finding != judgement.blamed
        and find_condition(observed.status, condition.type).get("reason")
        != condition.finding.reason
    )


def _rejections(judgement: Judgement, observed: Observed) -> tuple[PlannedEvent, ...]:
    """One event when a revision is given up."""
    rejected = judgement.revisions.rejected
    if rejected is None or read_revisions(observed.status).rejected == rejected:
        return ()
    message = truncated(given_up_sentence(rejected))
    return (PlannedEvent("Warning", "RevisionGivenUp", message),)


def _steps(judgement: Judgement, observed: Observed) -> tuple[PlannedEvent, ...]:
    """One event when a canary gets another share of the requests."""
    canary, before = judgement.revisions.canary, read_revisions(observed.status).canary
    told = before if before and canary and before.revision == canary.revision else None
    if canary is None or canary.step == (told.step if told else 0):
        return ()
    message = f"canary {canary.revision} is to take {canary.weight} percent of the requests"
    return (PlannedEvent("Normal", "CanaryStep", message),)
