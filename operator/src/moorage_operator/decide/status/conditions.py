"""Decides the conditions of the status, from Accepted to UpToDate.

Each function decides one condition with its reason and message. `Ready` takes its reason and
message from the first condition before it that is not true, so that the REASON column shows the
cause. Ready means that the model can receive traffic; UpToDate means that the current spec serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moorage_operator.api.conditions import (
    Condition,
    ConditionType,
    Finding,
    Reason,
    find_condition,
)
from moorage_operator.api.reasons import Trait, has
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol
from moorage_operator.api.written_spec import SPEC_LIMIT_BYTES
from moorage_operator.decide.pods import pod_diagnosis
from moorage_operator.decide.pods.replicas import Replica, ready_subject, worst
from moorage_operator.decide.rollout.acceptance import route_accepted
from moorage_operator.decide.rollout.canary import Split, describe_progress
from moorage_operator.decide.rollout.course import Course
from moorage_operator.values.observed import Observed, Refusal
from moorage_operator.values.revisions import Revisions, read_revisions

from .autoscaling import scaling_active
from .kstatus import reconciling_or_stalled
from .protocols import is_unshown, protocol_matched
from .replica_counts import counted, size_sentence
from .template import TemplateState
from .up_to_date import (
    decide_up_to_date,
    deployment_name,
    foreign_sentence,
    given_up_sentence,
    paused_outside,
)

__all__ = ["Judgement", "decide"]

ORDER = tuple(ConditionType)

# The API server answers 500 to an apply that does not match the schema ("failed to create typed
# patch object"), 422 to one that fails validation, and 400 to a malformed body.
BAD_OBJECT_CODES = {400, 422, 500}


# Nothing is known against the answers, or against the metadata.
UNTRIED = {Reason.RUNNING, Reason.REQUEST_UNAUTHORIZED}
UNREAD = {Reason.METADATA_UNSUPPORTED, Reason.METADATA_UNAUTHORIZED}

# A child's name is taken by another object, or by one that is being deleted.
NAME_TAKEN = {
    "AlreadyExists": Reason.NAME_CONFLICT,
    "AwaitingDeletion": Reason.AWAITING_DELETION,
    "BeingDeleted": Reason.AWAITING_DELETION,
}
# The operator itself refuses to write a child whose name is taken or that is contested.
OWN_SENTENCES = {*NAME_TAKEN, "Contested"}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conditions and their consequences.

    Attributes:
        conditions: All conditions, in the order of the status.
        ready: The condition Ready.
        blamed: The first cause against the revision that runs.
        revisions: The recorded revisions, with the last one that served with all replicas.
        route: The condition RouteAccepted.
        serves: Whether all wanted replicas serve and have been compared and tested, with any
            result.
    """

    conditions: tuple[Condition, ...]
    ready: Condition
    blamed: Finding | None
    revisions: Revisions
    route: Condition | None = None
    serves: bool = False


def decide(  # noqa: PLR0913 -- the inputs of the conditions
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    course: Course | None,
    applied_hashes: Sequence[str],
    split: Split | None = None,
    *,
    template: TemplateState,
    is_routed: bool,
) -> Judgement:
    """Decide all conditions.

    Args:
        model: The model to run: this spec, or an earlier one after a rollback.
        observed: The observed state.
        replicas: The replicas, judged for the course.
        course: The revision to run; None if the spec has problems.
        applied_hashes: The hashes of the planned objects, in the plan's order.
        split: The split of requests with a canary.
        template: Which pod template the replicas have.
        is_routed: Whether the Services and routes are as planned.
    """
    desired = model.desired_replicas
    size = size_sentence(observed.deployment, deployment_name(observed), desired, applied_hashes)
    needed = [
        _accepted(model, observed, replicas, applied_hashes),
        _workload_available(model, observed, replicas, course, size),
        _model_ready(model, replicas),
    ]
    unshown: list[Condition] = []
    if model.protocol is not Protocol.NONE:
        matches = protocol_matched(model, observed, replicas)
        (unshown if is_unshown(model, replicas) else needed).append(matches)
    needed.sort(key=lambda condition: ORDER.index(condition.type))
    reported: list[Condition] = []
    if model.contract.is_compared:
        matched = _metadata_matched(model, observed, replicas)
        (needed if model.contract.is_enforced else reported).append(matched)
    if model.smoke_tests.tests:
        passed = _smoke_test_passed(model, replicas)
        (needed if model.smoke_tests.is_enforced else reported).append(passed)
    blamed = _blamed(needed)
    revisions = course.revisions if course else read_revisions(observed.status)
    route = route_accepted(model, observed, applied_hashes)
    canary = describe_progress(split, route, revisions.last_good) if split else None
    ready = _ready(model, replicas, blamed, revisions.last_good)
    if split and canary and not split.is_complete:
        ready = _of_a_canary(ready, canary)
    is_served = ready.finding.reason is Reason.SERVING and blamed is None
    if course and is_served and template is TemplateState.PLANNED:
        revisions = revisions.proven(course.applied)
    ready = _of_an_earlier(ready, course)
    if observed.is_cut_off and ready.status is False:
        ready = _unknown(replicas) or ready
    up_to_date = decide_up_to_date(
        course,
        observed,
        replicas,
        blamed,
        desired,
        canary,
        template=template,
        remarks=[each for each in (size, _undeleted_sentence(observed)) if each],
        is_routed=is_routed,
    )
    following = observed.runtime.use if observed.runtime.follows else None
    if following and up_to_date.status:
        up_to_date = _following(following.name)
    found = sorted(
        (*needed, *reported, *unshown), key=lambda condition: ORDER.index(condition.type)
    )
    scaling = scaling_active(model, observed)
    beside = (
        *(each for each in (scaling, route, _runtime_update_pending(observed)) if each),
        *reconciling_or_stalled(up_to_date, blamed),
    )
    conditions = (*found, ready, up_to_date, *beside)
    awaits = any(has(each.finding.reason, Trait.AWAITED) for each in reported)
    serves = blamed is None and not awaits and desired <= _count_serving(replicas)
    return Judgement(conditions, ready, blamed, revisions, route, serves)


def _runtime_update_pending(observed: Observed) -> Condition | None:
    """Report that the model would get another content of its runtime; None if it would not."""
    finding = observed.runtime.pending
    if finding is None:
        return None
    return Condition(ConditionType.RUNTIME_UPDATE_PENDING, status=True, finding=finding)


def _following(name: str) -> Condition:
    """Report the model as not up to date before it is changed, so that others wait for it."""
    sentence = f"the model follows the edited InferenceRuntime {name!r}"
    finding = Finding(Reason.ROLLING_OUT, sentence)
    return Condition(ConditionType.UP_TO_DATE, status=False, finding=finding)


def _blamed(needed: Sequence[Condition]) -> Finding | None:
    """Return the first cause; a missing answer counts only if there is no other cause."""
    against = [condition for condition in needed if condition.status is not True]
    known = [
        condition for condition in against if not has(condition.finding.reason, Trait.AWAITED)
    ]
    return (known or against)[0].finding if against else None


# ------------------------------------------------------------------ Accepted


def _accepted(
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    applied_hashes: Sequence[str],
) -> Condition:
    finding = (
        _spec_finding(model)
        or _refusal_finding(observed, applied_hashes)
        or _replica_failure_finding(model, observed, replicas)
    )
    if finding:
        return Condition(ConditionType.ACCEPTED, status=False, finding=finding)
    sentence = "the spec is valid"
    if not model.written.kept:
        sentence += (
            f"; it is larger than {SPEC_LIMIT_BYTES >> 10} KiB even when compressed, so it cannot "
            "be kept: if a later rollout fails, it is paused instead of rolled back to this spec; "
            "shorten spec.smokeTests or spec.podTemplate"
        )
    valid = Finding(Reason.VALID, sentence)
    return Condition(ConditionType.ACCEPTED, status=True, finding=valid)


def _spec_finding(model: InferenceModel) -> Finding | None:
    if not model.problems:
        return None
    sentences = "; ".join(str(problem) for problem in model.problems)
    return Finding(Reason(model.problems[0].reason), sentences)


def _refusal_finding(observed: Observed, applied_hashes: Sequence[str]) -> Finding | None:
    """Report the planned objects that the API server refuses; older refusals are obsolete.

    All of them are listed in the plan's order, and the first one gives the reason, so that the
    message is stable. A refusal takes precedence over a write that failed.
    """
    place = {each: at for at, each in enumerate(applied_hashes)}
    found = [each for each in observed.refusals if each.applied_hash in place and each.is_reported]
    if not found:
        return None
    found.sort(key=lambda refusal: (refusal.transient, place[refusal.applied_hash]))
    sentences = "; ".join(_refusal_sentence(each) for each in found)
    return Finding(_refusal_reason(found[0]), sentences)


def _refusal_reason(refusal: Refusal) -> Reason:
    if refusal.reason in NAME_TAKEN:
        return NAME_TAKEN[refusal.reason]
    if refusal.transient:
        return Reason.APPLY_FAILED
    if _is_about_quota(refusal.message):
        return Reason.FORBIDDEN_BY_QUOTA
    if refusal.code in BAD_OBJECT_CODES and refusal.kind == "Deployment":
        return Reason.INVALID_POD_TEMPLATE
    return Reason.APPLY_REFUSED


def _refusal_sentence(refusal: Refusal) -> str:
    verb = "cannot write" if refusal.transient else "refuses"
    sentence = f'the API server {verb} the {refusal.kind} "{refusal.name}": {refusal.message}'
    if refusal.reason in OWN_SENTENCES:
        sentence = refusal.message
    if refusal.kind == "NetworkPolicy":
        sentence += "; no other object is changed until the policy is applied"
    return sentence


def _undeleted_sentence(observed: Observed) -> str:
    """List the children that are not planned and may not be deleted; "" without one."""
    left = {(*key, child.uid) for key, child in observed.children.items()}
    found = [
        each
        for each in observed.refusals
        if (each.kind, each.name, each.deletes) in left and each.is_reported
    ]
    return "; ".join(_undeleted(each) for each in sorted(found, key=lambda each: each.name))


def _undeleted(refusal: Refusal) -> str:
    verb = "cannot" if refusal.transient else "refuses to"
    name = f'the {refusal.kind} "{refusal.name}"'
    return f"the API server {verb} delete {name}, which is not needed any more: {refusal.message}"


def _replica_failure_finding(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> Finding | None:
    """Return why the Deployment cannot create its missing pods."""
    failure = _deployment_condition(observed, "ReplicaFailure")
    if failure is None or len(_current(replicas)) >= model.desired_replicas:
        return None
    quota = _is_about_quota(failure)
    reason = Reason.FORBIDDEN_BY_QUOTA if quota else Reason.INVALID_POD_TEMPLATE
    return Finding(reason, f"no pod can be created: {failure}")


def _is_about_quota(message: str) -> bool:
    """Whether a ResourceQuota or a LimitRange forbids the pods."""
    return any(text in message for text in ("quota", " usage per Container ", " usage per Pod "))


# ------------------------------------------------------------------ WorkloadAvailable, ModelReady


def _workload_available(
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    course: Course | None,
    size: str,
) -> Condition:
    type_ = ConditionType.WORKLOAD_AVAILABLE
    desired = model.desired_replicas
    if desired == 0:
        return Condition(type_, status=False, finding=_switched_off(model))
    current = _current(replicas)
    running = sum(1 for replica in current if replica.workload is None)
    if running >= desired:
        sentence = counted(running, desired, "run")
        available = Finding(Reason.MINIMUM_REPLICAS_AVAILABLE, sentence)
        return Condition(type_, status=True, finding=available)
    sentence = f"{len(current)} of {desired} pods of this revision have been created"
    finding = (
        worst(replica.workload for replica in current if replica.workload)
        or pod_diagnosis.missing_reference(observed.references)
        or (pod_diagnosis.failed_pod(observed.pods, course.applied) if course else None)
        or _awaited_pods(model, sentence)
    )
    outside = [
        each for each in (paused_outside(observed), foreign_sentence(observed), size) if each
    ]
    finding = Finding(finding.reason, "; ".join((finding.message, *outside)))
    return Condition(type_, status=False, finding=finding)


def _awaited_pods(model: InferenceModel, sentence: str) -> Finding:
    if model.paused:
        return Finding(Reason.PAUSED, f"{sentence}; spec.paused is true, so none is created")
    return Finding(Reason.PENDING, sentence)


def _switched_off(model: InferenceModel) -> Finding:
    if model.suspend:
        return Finding(Reason.SUSPENDED, "spec.suspend is true; set it to false to serve")
    if model.scaling.is_on and model.scaling.min_replicas == 0:
        sentence = "scaled to zero by spec.scaling; a replica starts when its query requires one"
        return Finding(Reason.SCALED_TO_ZERO, sentence)
    return Finding(Reason.SCALED_TO_ZERO, "spec.replicas is 0; scale up to serve")


def _model_ready(model: InferenceModel, replicas: Sequence[Replica]) -> Condition:
    type_ = ConditionType.MODEL_READY
    desired = model.desired_replicas
    current = _current(replicas)
    ready = sum(1 for replica in current if replica.model_ready)
    sentence = f"{ready_subject(model)} is ready on {counted(ready, desired)}"
    if 0 < desired <= ready:
        finding = Finding(Reason.ALL_REPLICAS_READY, sentence)
        return Condition(type_, status=True, finding=finding)
    against = worst(
        replica.model
        for replica in current
        if replica.model and not has(replica.model.reason, Trait.PROTOCOL)
    )
    if against is None:
        finding = Finding(Reason.SERVER_NOT_LIVE, sentence)
        return Condition(type_, status=None, finding=finding)
    unknown = against.reason is Reason.PROBE_TIMEOUT
    return Condition(type_, status=None if unknown else False, finding=against)


def _metadata_matched(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> Condition:
    """Decide whether the metadata of the ready replicas matches the contract."""
    type_ = ConditionType.METADATA_MATCHED
    ready = [replica for replica in _current(replicas) if replica.model_ready]
    against = worst(replica.contract for replica in ready if replica.contract)
    if against and not has(against.reason, Trait.AWAITED):
        return Condition(
            type_, status=None if against.reason in UNREAD else False, finding=against
        )
    asked = ready and all(replica.result for replica in ready)
    if not asked and (kept := _kept(model, observed, type_)):
        return kept
    if against or not ready:
        waiting = Finding(Reason.AWAITING_METADATA, "no replica has reported its metadata yet")
        return Condition(type_, status=None, finding=against or waiting)
    matched = Finding(Reason.MATCHED, "the model's tensors match the contract")
    return Condition(type_, status=True, finding=matched)


def _kept(model: InferenceModel, observed: Observed, type_: ConditionType) -> Condition | None:
    """Return the previous condition of this spec, for replicas that were not polled again yet.

    The reason may be unknown, if a later version of the operator wrote it.
    """
    before = find_condition(observed.status, type_)
    reason = next((each for each in Reason if each == before.get("reason")), None)
    if reason is None or before.get("observedGeneration") != model.generation:
        return None
    status = {"True": True, "False": False}.get(str(before.get("status")))
    return Condition(type_, status=status, finding=Finding(reason, str(before.get("message"))))


def _smoke_test_passed(model: InferenceModel, replicas: Sequence[Replica]) -> Condition:
    """Decide whether all replicas with a ready model have passed the smoke tests."""
    type_ = ConditionType.SMOKE_TEST_PASSED
    ready = [replica for replica in _current(replicas) if replica.model_ready]
    against = worst(replica.smoke for replica in ready if replica.smoke)
    if against:
        return Condition(
            type_, status=None if against.reason in UNTRIED else False, finding=against
        )
    if not ready:
        waiting = Finding(Reason.RUNNING, "the smoke tests are waiting for a ready replica")
        return Condition(type_, status=None, finding=waiting)
    count = len(model.smoke_tests.tests)
    sentence = counted(len(ready), model.desired_replicas, f"passed {count} smoke tests")
    return Condition(type_, status=True, finding=Finding(Reason.PASSED, sentence))


# ------------------------------------------------------------------ Ready


def _ready(
    model: InferenceModel, replicas: Sequence[Replica], blamed: Finding | None, last_good: str
) -> Condition:
    type_ = ConditionType.READY
    desired = model.desired_replicas
    serving = _count_serving(replicas)
    if blamed is None and desired <= serving:
        finding = Finding(Reason.SERVING, counted(serving, desired, "serve the model"))
        return Condition(type_, status=True, finding=finding)
    cause = blamed or Finding(Reason.PENDING, counted(serving, desired, "serve the model"))
    if desired > 0 and last_good and any(replica.serving for replica in replicas):
        return Condition(type_, status=True, finding=_partly(replicas, desired, cause))
    return Condition(type_, status=False, finding=cause)


def _of_a_canary(ready: Condition, canary: Finding) -> Condition:
    """Adjust Ready while an earlier revision serves together with a canary."""
    if ready.status is not True:
        return ready
    finding = Finding(Reason.SERVING_PREVIOUS_REVISION, canary.message)
    return Condition(ConditionType.READY, status=True, finding=finding)


def _of_an_earlier(ready: Condition, course: Course | None) -> Condition:
    """Adjust Ready while an earlier revision serves after a rollback."""
    rejected = course.revisions.rejected if course and course.is_back else None
    if rejected is None or ready.status is not True:
        return ready
    sentence = f"{ready.finding.message} with an earlier revision; {given_up_sentence(rejected)}"
    finding = Finding(Reason.SERVING_PREVIOUS_REVISION, sentence)
    return Condition(ConditionType.READY, status=True, finding=finding)


def _unknown(replicas: Sequence[Replica]) -> Condition | None:
    """Return Ready as Unknown if a kubelet reports a silent replica ready; otherwise None."""
    silent = [each for each in replicas if each.is_silent and each.pod.ready]
    if not silent:
        return None
    sentence = (
        "most models do not answer the operator, so it cannot determine whether this one serves; "
        f"the kubelets report {len(silent)} of its replicas ready; check the network between the "
        "operator and the pods"
    )
    finding = Finding(Reason.OPERATOR_CUT_OFF, sentence)
    return Condition(ConditionType.READY, status=None, finding=finding)


def _partly(replicas: Sequence[Replica], desired: int, cause: Finding) -> Finding:
    """Explain why a model that has served before is still ready in spite of a problem.

    One serving pod of any revision is enough to receive traffic. This does not apply to a model
    that has never served with all its replicas: its author waits for them, and pods of other
    revisions are remains of a deleted model.
    """
    why = f"{cause.reason}: {cause.message}"
    if any(replica.serving and not replica.current for replica in replicas):
        sentence = f"an earlier revision serves; this one does not: {why}"
        return Finding(Reason.SERVING_PREVIOUS_REVISION, sentence)
    serving = sum(1 for replica in replicas if replica.serving)
    return Finding(Reason.SERVING, f"{counted(serving, desired, 'serve the model')}; {why}")


def _deployment_condition(observed: Observed, type_: str) -> str | None:
    """Return the message of a Deployment's condition if it is true."""
    conditions = observed.deployment.conditions if observed.deployment else ()
    found = (item.message for item in conditions if item.type == type_ and item.status is True)
    return next(found, None)


def _count_serving(replicas: Sequence[Replica]) -> int:
    return sum(1 for replica in _current(replicas) if replica.serving)


def _current(replicas: Sequence[Replica]) -> list[Replica]:
    return [replica for replica in replicas if replica.current]
