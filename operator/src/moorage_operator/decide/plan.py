"""Computes the desired objects, status and polls of one model from its observed state; pure.

Observed -> **plan** -> Plan -> write.children, write.statuses

`plan` returns the objects to apply, the whole status, the polls and the objects to look up. It
never raises for user input, and the same input gives the same bytes. A spec with problems plans no
object but the Service that was applied last, so running pods are left unchanged.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.conditions import began
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.reasons import Trait, has
from moorage_operator.api.v1alpha1 import InferenceModel, Strategy
from moorage_operator.resources.autoscaler import KEDA_AUTOSCALER, autoscaler_kind, make_autoscaler
from moorage_operator.resources.deployment import make_deployment
from moorage_operator.resources.disruption import make_disruption_budget
from moorage_operator.resources.kept_revision import make_kept_revision
from moorage_operator.resources.network_policy import make_network_policy
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.resources.references import references
from moorage_operator.resources.route import GRPC_ROUTE, ROUTE
from moorage_operator.resources.service import make_service
from moorage_operator.values.objects import DeploymentObserved
from moorage_operator.values.observed import Observed, Reference, Refusal
from moorage_operator.values.plan import Plan, PollPace
from moorage_operator.values.revisions import Retirement, Revisions, read_revisions

from .pods.poll_targets import make_targets
from .pods.readiness_gates import make_gates
from .pods.replicas import Replica, is_replica, judge
from .rollout.canary import Split, advance, make_split, seconds_left, stopped
from .rollout.course import Course, chart_course, give_up, until_definite
from .rollout.releases import Arrangement, Release, arrange, is_kept, is_mixed, read_release
from .rollout.revision_specs import exact
from .rollout.routing import make_routed
from .rollout.standing import Standing, standing_service
from .status.conditions import Judgement, decide
from .status.deletion import status_of_deleted
from .status.events import planned_events
from .status.pausing import hold, pending_changes
from .status.selected import behind_service
from .status.status import Served, make_status
from .status.template import template_state

__all__ = ["exact", "plan", "status_of_deleted", "unread"]

ROUTED_BY = {"Service", ROUTE, GRPC_ROUTE}


@dataclass(frozen=True, slots=True)
class _Decided:
    """The revision to run, its Deployments, and the split of requests with a canary."""

    course: Course
    arrangement: Arrangement
    split: Split | None


def unread(
    model: InferenceModel, observed: Observed, rendered: dict[str, Any], *, now: datetime
) -> frozenset[str]:
    """Return the revisions that a plan needs and that are not in `observed.history`.

    Args:
        model: The parsed resource.
        observed: Its status, children and history.
        rendered: The pod template of the spec.
        now: The present moment, aware.
    """
    observed = _with_replicas(model, observed)
    if model.problems:
        ran = _what_ran(observed)
        needed = _unproven(observed, ran).union(ran)
    else:
        course, arrangement, unproven = _chart(model, observed, rendered, now)
        needed = course.history | arrangement.history | unproven
    return needed - observed.history.keys()


def plan(
    model: InferenceModel,
    observed: Observed,
    *,
    now: datetime,
    config: OperatorConfig,
    rendered: dict[str, Any] | None = None,
) -> Plan:
    """Compute the plan for one model.

    Args:
        model: The parsed resource.
        observed: Its children, the answers of its replicas, and its references.
        now: The current time, aware; used only to date new entries in the status.
        config: The operator's settings.
        rendered: The pod template of the spec; None: it is rendered here.
    """
    observed = _with_replicas(model, observed)
    if model.problems:
        return _plan_of_what_runs(model, observed, now=now, config=config)
    rendered = rendered or make_pod_template(model, config)
    course, arrangement, unproven = _chart(model, observed, rendered, now)
    history = course.history | arrangement.history | unproven
    if history - observed.history.keys():
        return Plan((), dict(observed.status), keeps_others=True, history=history)
    main = observed.children.get(("Deployment", arrangement.main.deployment))
    found = main if isinstance(main, DeploymentObserved) else None
    observed = _requiring(replace(observed, deployment=found), references(course.template))
    decided = _Decided(course, arrangement, make_split(course, arrangement, observed))
    earlier = (arrangement.earlier,) if arrangement.earlier else ()
    earlier += _read(model, observed, unproven)
    made = _make_plan(course.model, observed, decided, earlier, now=now, config=config)
    made = replace(made, history=history, keeps_others=arrangement.unreadable)
    return _without_writes(made) if model.paused else made


def _with_replicas(model: InferenceModel, observed: Observed) -> Observed:
    """Return what was observed without pods that only have the labels of a replica."""
    return replace(observed, pods=tuple(pod for pod in observed.pods if is_replica(pod, model)))


def _requiring(observed: Observed, required: Collection[Reference]) -> Observed:
    """Return what was observed without the states of objects that the pods do not require."""
    states = {each: state for each, state in observed.references.items() if each in required}
    return replace(observed, references=states)


def _chart(
    model: InferenceModel, observed: Observed, rendered: dict[str, Any], now: datetime
) -> tuple[Course, Arrangement, frozenset[str]]:
    """Decide which revision runs and where, and return the unproven revisions."""
    course = chart_course(model, observed, rendered)
    runs = (course.applied, course.model, course.template)
    arrangement = arrange(model, observed, course.revisions, runs, now)
    unproven = _unproven(observed, {course.applied, *arrangement.history})
    return course, arrangement, unproven


def _unproven(observed: Observed, known: Collection[str]) -> frozenset[str]:
    """Return the revisions of ready pods that are not known to have served.

    These were given up, or replaced before they were checked. A readiness probe with a path of
    the user's choice may pass without the model, so their servers are polled as well.
    """
    ready = {pod.revision for pod in observed.pods if pod.ready and not pod.deleting}
    return frozenset(ready - {"", *known})


def _read(
    model: InferenceModel, observed: Observed, revisions: Collection[str]
) -> tuple[Release, ...]:
    """Return the revisions whose records are not lost, in a stable order."""
    found = (read_release(model, observed, each) for each in sorted(revisions))
    return tuple(each for each in found if each)


def _what_ran(observed: Observed) -> list[str]:
    """Return the revision that served last, the one accepted last, and the one just replaced.

    The Service may still select the replaced one.
    """
    revisions = read_revisions(observed.status)
    replaced = revisions.retiring.revision if revisions.retiring else ""
    ran = (revisions.last_good, revisions.current, replaced)
    return list(dict.fromkeys(each for each in ran if each))


def _plan_of_what_runs(
    model: InferenceModel, observed: Observed, *, now: datetime, config: OperatorConfig
) -> Plan:
    """Compute the plan for a spec with problems.

    Only the Service is kept as it was applied last. Running pods are polled, gated and reported
    by the revisions they belong to.
    """
    ran = _what_ran(observed)
    unproven = _unproven(observed, ran)
    history = unproven.union(ran)
    observed = _requiring(observed, ())
    if history - observed.history.keys():
        return Plan((), dict(observed.status), keeps_others=True, history=history)
    found = [read_release(model, observed, each) for each in ran]
    running = (*(each for each in found if each), *_read(model, observed, unproven))
    made = _make_plan(model, observed, None, running, now=now, config=config)
    made = replace(made, history=history)
    return _without_writes(made) if model.paused else made


def _without_writes(made: Plan) -> Plan:
    """Return the plan of a paused model: the same status and polls, and no changed child."""
    return replace(made, objects=(), keeps_others=True, leaves_children=True, requeue_after=None)


def _make_plan(
    model: InferenceModel,
    observed: Observed,
    decided: _Decided | None,
    earlier: Sequence[Release],
    *,
    now: datetime,
    config: OperatorConfig,
) -> Plan:
    """Compute the plan for the current revision and earlier ones whose pods may still serve.

    For a spec with problems, `decided` is None.
    """
    course = decided.course if decided else None
    standing = _standing(model, decided, earlier, observed)
    objects = (standing.service,) if standing else ()
    if decided:
        objects = _make_objects(decided, observed, config)
    replicas = judge(model, observed, course.applied if course else "")
    targets = make_targets(model, replicas, config)
    for release in earlier:
        theirs = [
            each for each in judge(release.model, observed, release.revision) if each.current
        ]
        targets += make_targets(release.model, theirs, config)
        replicas = _with_earlier(replicas, theirs)
    hashes = tuple(applied_hash(item) for item in objects)
    split = decided.split if decided else None
    template = template_state(objects, observed, replicas)
    is_routed = _is_routed(objects, observed)
    selected = _selected(model, decided, standing)
    judgement = decide(
        model,
        observed,
        replicas,
        course,
        hashes,
        split,
        template=template,
        # The plan after the one in which a revision first serves moves the Service to it.
        is_routed=is_routed and course is not None and selected in {"", course.applied},
    )
    has_service = ("Service", names.service(model.name)) in observed.children
    lacks_service = not has_service and _is_service_refused(model, objects, observed)
    judgement = behind_service(judgement, replicas, selected, lacks_service=lacks_service)
    if model.paused:
        pending = _pending(decided, objects, observed)
        revisions = course.revisions if course else judgement.revisions
        judgement = hold(judgement, revisions, pending, has_service=has_service)
    elif decided:
        judgement = _remembering(decided, observed, replicas, judgement, now, is_routed=is_routed)
    served = _served(model, decided, earlier, replicas)
    return Plan(
        objects=objects,
        status=make_status(
            model, observed, replicas, judgement, served=served, config=config, now=now
        ),
        keeps_others=True,
        gates=make_gates(replicas, now),
        events=planned_events(judgement, observed),
        targets=targets,
        poll=_pace(judgement, replicas),
        poll_interval_seconds=float(model.health.poll_interval_seconds),
        requeue_after=_again_after(decided, observed, replicas, hashes, now),
        heard=_heard(replicas),
        references=references(course.template) if course else frozenset(),
    )


def _standing(
    model: InferenceModel,
    decided: _Decided | None,
    earlier: Sequence[Release],
    observed: Observed,
) -> Standing | None:
    """Return the existing Service of a model whose spec plans none for now."""
    if decided is None:
        releases = earlier
    elif model.paused:
        releases = decided.arrangement.routed
    else:
        return None
    return standing_service(model, observed, read_revisions(observed.status), releases)


def _is_service_refused(
    model: InferenceModel, objects: Sequence[dict[str, Any]], observed: Observed
) -> bool:
    """Whether the last write of the planned Service was refused.

    One that was being deleted is created again as soon as it is gone.
    """
    reported = [each for each in observed.refusals if each.is_reported]
    refused = {each.applied_hash for each in reported if each.reason != "BeingDeleted"}
    return any(
        each["kind"] == "Service"
        and each["metadata"]["name"] == names.service(model.name)
        and applied_hash(each) in refused
        for each in objects
    )


def _selected(model: InferenceModel, decided: _Decided | None, standing: Standing | None) -> str:
    """Return the revision that the Service selects; "" for all pods, or if it is not known."""
    if decided and not model.paused:
        return decided.arrangement.selected
    return standing.selected if standing else ""


def _pending(
    decided: _Decided | None, objects: Sequence[dict[str, Any]], observed: Observed
) -> tuple[str, ...]:
    """Return what would be done to the children if the model were not paused."""
    if decided is None:
        return ()
    return pending_changes(objects, observed, keeps_others=decided.arrangement.unreadable)


def _make_objects(
    decided: _Decided, observed: Observed, config: OperatorConfig
) -> tuple[dict[str, Any], ...]:
    """Build the children in the order in which they are applied and reported.

    The NetworkPolicy comes first because no pod may run without it. The Services come before the
    workload so that the pods they select are removed last.
    """
    course, arrangement = decided.course, decided.arrangement
    by_name = arrangement.has_named_ports
    others = [each.model for each in arrangement.routed if each is not arrangement.main]
    policy = make_network_policy(course.model, config, others)
    guards = (policy,) if policy else ()
    service = make_service(arrangement.front, arrangement.selected, by_name=by_name)
    routed = make_routed(course.model, arrangement, decided.split, observed)
    main = _make_deployment(arrangement.main, observed, paused=course.paused)
    sides = [_make_deployment(each, observed) for each in arrangement.sides]
    kept = _make_kept(course.model, arrangement, observed)
    beside = _beside(decided, observed)
    return *guards, service, *routed, *kept, main, *sides, *beside


def _make_kept(
    model: InferenceModel, arrangement: Arrangement, observed: Observed
) -> Iterator[dict[str, Any]]:
    """Build the record of the revision to roll back to, before a new revision starts."""
    good = arrangement.earlier
    record = observed.history.get(good.revision) if good else None
    if good and record:
        yield make_kept_revision(model, good.revision, record)


def _beside(decided: _Decided, observed: Observed) -> Iterator[dict[str, Any]]:
    """Build the autoscaler, if the cluster has its kind, and the disruption budget."""
    model, split = decided.course.model, decided.split
    kind = autoscaler_kind(model)
    if kind and (kind != KEDA_AUTOSCALER or kind in observed.available_kinds):
        yield make_autoscaler(model)
    is_shared = bool(split and split.weight)
    if budget := make_disruption_budget(model, "" if is_shared else decided.arrangement.selected):
        yield budget


def _make_deployment(
    release: Release, observed: Observed, *, paused: bool = False
) -> dict[str, Any]:
    return make_deployment(
        release.model,
        release.template,
        name=release.deployment,
        kept_spec=release.model.written.kept,
        paused=paused,
        # of interest for this strategy alone, and there may be hundreds of pods
        is_mixed=release.model.rollout.strategy is Strategy.RECREATE
        and is_mixed(release, observed),
    )


def _heard(replicas: Sequence[Replica]) -> bool | None:
    """Whether any replica that its kubelet reports ready answers; None if there is none."""
    asked = [each for each in replicas if each.result and each.pod.runtime.ready]
    return any(not each.is_silent for each in asked) if asked else None


def _served(
    model: InferenceModel,
    decided: _Decided | None,
    earlier: Sequence[Release],
    replicas: Sequence[Replica],
) -> Served:
    """Return the revision that clients reach: the earlier one as long as it serves."""
    serving = {replica.pod.revision for replica in replicas if replica.serving}
    shown = next((each for each in earlier if each.revision in serving), None)
    if decided is None:
        front = earlier[0].model if earlier else model
        shown = shown or next(iter(earlier), None)
        revision = shown.revision if shown else ""
    else:
        front = decided.arrangement.front
        revision = shown.revision if shown else decided.course.applied
    return Served(shown.model if shown else model, revision, front.runtime.ports)


def _with_earlier(replicas: Sequence[Replica], earlier: Sequence[Replica]) -> tuple[Replica, ...]:
    """Return the replicas, with those of the earlier revision judged by its own spec."""
    judged = {each.pod.name: replace(each, current=False, asked=True) for each in earlier}
    return tuple(judged.get(each.pod.name, each) for each in replicas)


def _remembering(
    decided: _Decided,
    observed: Observed,
    replicas: Sequence[Replica],
    judgement: Judgement,
    now: datetime,
    *,
    is_routed: bool,
) -> Judgement:
    """Record failed, advanced and retiring revisions in the judgement."""
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
    if retiring and is_routed and retiring == decided.course.revisions.retiring:
        retiring = replace(retiring, time=began(retiring.time, now))
    return replace(judgement, revisions=replace(remembered, retiring=retiring))


def _retiring(decided: _Decided, after: Revisions, now: datetime) -> Retirement | None:
    """Return the revision to keep for a while: first the one that just lost its requests."""
    course, before = decided.course, decided.course.revisions
    sides = {each.revision for each in decided.arrangement.sides}
    if after.last_good != before.last_good and before.last_good in sides:
        return Retirement(before.last_good)
    canary = before.canary
    continued = after.canary.revision if after.canary else after.last_good
    if canary and canary.step and canary.revision not in {after.last_good, continued}:
        return Retirement(canary.revision)
    if is_kept(course.model, before, now) is None:
        return None
    kept = before.retiring
    return kept if kept and kept.revision != course.applied else None


def _is_routed(objects: Sequence[dict[str, Any]], observed: Observed) -> bool:
    """Whether the cluster has the planned Services and route."""
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
    hashes: Sequence[str],
    now: datetime,
) -> float | None:
    """Return the seconds until the next reconcile that no event triggers."""
    refused = min(
        (each.retry_seconds for each in _current(observed.refusals, hashes)), default=None
    )
    definite = retiring = step = None
    if decided:
        course = decided.course
        definite = until_definite(course, observed, replicas, now=now)
        retiring = is_kept(course.model, course.revisions, now)
        step = seconds_left(decided.split, now)
    known = (each for each in (refused, definite, retiring, step) if each is not None)
    return min(known, default=None)


def _pace(judgement: Judgement, replicas: Sequence[Replica]) -> PollPace:
    if judgement.blamed and has(judgement.blamed.reason, Trait.UNACCEPTED):
        asked = [replica for replica in replicas if replica.asked]
        settled = bool(asked) and all(replica.serving for replica in asked)
        return PollPace.STABLE if settled else PollPace.SETTLING
    # A replica that fails a contract or a smoke test has a ready model.
    if judgement.blamed is None or has(judgement.blamed.reason, Trait.CONTRACT | Trait.SMOKE):
        return PollPace.STABLE
    is_final = has(judgement.blamed.reason, Trait.FINAL)
    return PollPace.FAILING if is_final else PollPace.SETTLING


def _current(refusals: Sequence[Refusal], hashes: Sequence[str]) -> list[Refusal]:
    """Return the refusals of objects that are planned now."""
    return [refusal for refusal in refusals if refusal.applied_hash in hashes]
