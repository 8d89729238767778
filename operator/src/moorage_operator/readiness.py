"""The conditions, decided: from accepted to up to date.

Each function decides one condition and says why; `up_to_date` has the last. `Ready` takes reason
and message from the first of those before it that is not true, so that the REASON column names the
cause. Ready means that traffic can be sent now; UpToDate that this spec is what serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import diagnosis
from .api.v1alpha1 import InferenceModel
from .autoscaling import scaling_active
from .canary import Split, standing
from .conditions import Condition, ConditionType, Finding, Reason, find_condition
from .kstatus import reconciling_or_stalled
from .protocols import protocol_matched
from .replicas import PROTOCOL_REASONS, Replica, worst
from .revisions import Revisions, read_revisions
from .rollout import Course
from .routing import route_accepted
from .state import Observed, Refusal
from .up_to_date import decide_up_to_date, given_up_sentence

__all__ = ["Judgement", "decide"]

# Nobody has answered yet: no cause beside one that is known.
AWAITING = {Reason.AWAITING_ANSWER, Reason.AWAITING_METADATA, Reason.RUNNING}

ORDER = tuple(ConditionType)

# An apply that does not fit the schema is answered with 500 ("failed to create typed patch
# object"), one that does not pass validation with 422, a body that is no object with 400.
BAD_OBJECT_CODES = {400, 422, 500}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The conditions in the order of blame; `blamed` is the first cause against what runs.

    `revisions` is what is remembered, with the one that last served with all wanted replicas.
    `route` is the condition RouteAccepted, `canary` says how far a canary has come, `serves`
    whether every wanted replica of what runs serves, and has been compared and tested, whatever
    came of that.
    """

    conditions: tuple[Condition, ...]
    ready: Condition
    blamed: Finding | None
    revisions: Revisions
    route: Condition | None = None
    canary: Finding | None = None
    serves: bool = False


def decide(
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    course: Course | None,
    applied_hashes: frozenset[str],
    split: Split | None = None,
) -> Judgement:
    """All conditions.

    Args:
        model: What is to run: this spec, or the one that was gone back to.
        observed: Everything known of it.
        replicas: Judged for the course.
        course: Which revision is to run; None where the spec has problems.
        applied_hashes: Those of the planned objects.
        split: How requests are shared with a canary.
    """
    revision = course.applied if course else ""
    gates = [
        _accepted(model, observed, replicas, applied_hashes),
        _workload_available(model, observed, replicas, revision),
        protocol_matched(model, observed, replicas),
        _model_ready(model, replicas),
    ]
    told: list[Condition] = []
    if model.contract.is_compared:
        matched = _metadata_matched(model, observed, replicas)
        (gates if model.contract.is_enforced else told).append(matched)
    if model.smoke_tests:
        passed = _smoke_test_passed(model, replicas)
        (gates if model.enforces_smoke_tests else told).append(passed)
    blamed = _blamed(gates)
    revisions = course.revisions if course else read_revisions(observed.status)
    route = route_accepted(model, observed, applied_hashes)
    canary = standing(split, route) if split else None
    ready = _ready(model, replicas, blamed, revisions.last_good)
    if split and canary and not split.is_complete:
        ready = _of_a_canary(ready, canary)
    if ready.finding.reason is Reason.SERVING and blamed is None:
        revisions = replace(revisions, last_good=revision)
    ready = _of_an_earlier(ready, course)
    desired = model.desired_replicas
    up_to_date = decide_up_to_date(course, observed, replicas, blamed, desired, canary)
    found = sorted((*gates, *told), key=lambda condition: ORDER.index(condition.type))
    scaling = scaling_active(model, observed)
    beside = (
        *(each for each in (scaling, route) if each),
        *reconciling_or_stalled(up_to_date, blamed),
    )
    conditions = (*found, ready, up_to_date, *beside)
    awaits = any(each.finding.reason in AWAITING for each in told)
    serves = blamed is None and not awaits and 0 < desired <= _count_serving(replicas)
    return Judgement(conditions, ready, blamed, revisions, route, canary, serves)


def _blamed(gates: Sequence[Condition]) -> Finding | None:
    """The first cause that is known; that nobody has answered yet is none beside another."""
    against = [gate for gate in gates if gate.status is not True]
    known = [gate for gate in against if gate.finding.reason not in AWAITING]
    return (known or against)[0].finding if against else None


# ------------------------------------------------------------------ Accepted


def _accepted(
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    applied_hashes: frozenset[str],
) -> Condition:
    finding = (
        _spec_finding(model)
        or _refusal_finding(observed, applied_hashes)
        or _replica_failure_finding(model, observed, replicas)
    )
    if finding:
        return Condition(ConditionType.ACCEPTED, status=False, finding=finding)
    valid = Finding(Reason.VALID, "the spec is valid")
    return Condition(ConditionType.ACCEPTED, status=True, finding=valid)


def _spec_finding(model: InferenceModel) -> Finding | None:
    if not model.problems:
        return None
    sentences = "; ".join(str(problem) for problem in model.problems)
    return Finding(Reason(model.problems[0].reason), sentences)


def _refusal_finding(observed: Observed, applied_hashes: frozenset[str]) -> Finding | None:
    """What the API server says against an object planned now; an older refusal is no news."""
    for refusal in observed.refusals:
        if refusal.applied_hash in applied_hashes:
            return Finding(_refusal_reason(refusal), _refusal_sentence(refusal))
    return None


def _refusal_reason(refusal: Refusal) -> Reason:
    if refusal.reason == "AlreadyExists":
        return Reason.NAME_CONFLICT
    if _is_about_quota(refusal.message):
        return Reason.FORBIDDEN_BY_QUOTA
    if refusal.code in BAD_OBJECT_CODES and refusal.kind == "Deployment":
        return Reason.INVALID_POD_TEMPLATE
    return Reason.APPLY_REFUSED


def _refusal_sentence(refusal: Refusal) -> str:
    if refusal.reason == "AlreadyExists":
        return refusal.message
    return f'the API server refuses the {refusal.kind} "{refusal.name}": {refusal.message}'


def _replica_failure_finding(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> Finding | None:
    """Why the Deployment may not make the pods that it lacks."""
    failure = _deployment_condition(observed, "ReplicaFailure")
    if failure is None or len(_current(replicas)) >= model.desired_replicas:
        return None
    quota = _is_about_quota(failure)
    reason = Reason.FORBIDDEN_BY_QUOTA if quota else Reason.INVALID_POD_TEMPLATE
    return Finding(reason, f"no pod can be made: {failure}")


def _is_about_quota(message: str) -> bool:
    """Whether a ResourceQuota or a LimitRange said no."""
    return any(text in message for text in ("quota", " usage per Container ", " usage per Pod "))


# ------------------------------------------------------------------ WorkloadAvailable, ModelReady


def _workload_available(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica], revision: str
) -> Condition:
    type_ = ConditionType.WORKLOAD_AVAILABLE
    desired = model.desired_replicas
    if desired == 0:
        return Condition(type_, status=False, finding=_switched_off(model))
    current = _current(replicas)
    running = sum(1 for replica in current if replica.workload is None)
    if running >= desired:
        sentence = f"{running} of {desired} replicas run"
        available = Finding(Reason.MINIMUM_REPLICAS_AVAILABLE, sentence)
        return Condition(type_, status=True, finding=available)
    sentence = f"{len(current)} of {desired} pods of this revision have been made"
    finding = (
        worst(replica.workload for replica in current if replica.workload)
        or diagnosis.missing_reference(observed.references)
        or diagnosis.failed_pod(observed.pods, revision)
        or Finding(Reason.PENDING, sentence)
    )
    return Condition(type_, status=False, finding=finding)


def _switched_off(model: InferenceModel) -> Finding:
    if model.suspend:
        return Finding(Reason.SUSPENDED, "spec.suspend is true; set it to false to serve")
    if model.scaling.is_on and model.scaling.min_replicas == 0:
        sentence = "spec.scaling asks for no replica now; one starts when its query asks for one"
        return Finding(Reason.SCALED_TO_ZERO, sentence)
    return Finding(Reason.SCALED_TO_ZERO, "spec.replicas is 0; scale up to serve")


def _model_ready(model: InferenceModel, replicas: Sequence[Replica]) -> Condition:
    type_ = ConditionType.MODEL_READY
    desired = model.desired_replicas
    current = _current(replicas)
    ready = sum(1 for replica in current if replica.model_ready)
    if 0 < desired <= ready:
        sentence = f"the model is ready on {ready} of {desired} replicas"
        finding = Finding(Reason.ALL_REPLICAS_READY, sentence)
        return Condition(type_, status=True, finding=finding)
    against = worst(
        replica.model
        for replica in current
        if replica.model and replica.model.reason not in PROTOCOL_REASONS
    )
    if against is None:
        sentence = f"the model is ready on {ready} of {desired} replicas; no other answers yet"
        finding = Finding(Reason.SERVER_NOT_LIVE, sentence)
        return Condition(type_, status=None, finding=finding)
    unknown = against.reason is Reason.PROBE_TIMEOUT
    return Condition(type_, status=None if unknown else False, finding=against)


def _metadata_matched(
    model: InferenceModel, observed: Observed, replicas: Sequence[Replica]
) -> Condition:
    """Whether the metadata of the replicas that are ready keeps the contract."""
    type_ = ConditionType.METADATA_MATCHED
    ready = [replica for replica in _current(replicas) if replica.model_ready]
    against = worst(replica.contract for replica in ready if replica.contract)
    if against and against.reason not in AWAITING:
        unsupported = against.reason is Reason.METADATA_UNSUPPORTED
        return Condition(type_, status=None if unsupported else False, finding=against)
    asked = ready and all(replica.result for replica in ready)
    before = find_condition(observed.status, type_)
    if not asked and before.get("observedGeneration") == model.generation:
        # Nobody was asked since the operator started: what it said still stands.
        status = {"True": True, "False": False}.get(str(before.get("status")))
        kept = Finding(Reason(str(before["reason"])), str(before["message"]))
        return Condition(type_, status=status, finding=kept)
    if against or not ready:
        waiting = Finding(Reason.AWAITING_METADATA, "no replica has told its metadata yet")
        return Condition(type_, status=None, finding=against or waiting)
    matched = Finding(Reason.MATCHED, "the model's tensors are those of the contract")
    return Condition(type_, status=True, finding=matched)


def _smoke_test_passed(model: InferenceModel, replicas: Sequence[Replica]) -> Condition:
    """Whether every replica whose model is ready has passed the smoke tests."""
    type_ = ConditionType.SMOKE_TEST_PASSED
    ready = [replica for replica in _current(replicas) if replica.model_ready]
    against = worst(replica.smoke for replica in ready if replica.smoke)
    if against:
        running = against.reason is Reason.RUNNING
        return Condition(type_, status=None if running else False, finding=against)
    if not ready:
        waiting = Finding(Reason.RUNNING, "the smoke tests wait for a replica that is ready")
        return Condition(type_, status=None, finding=waiting)
    count = len(model.smoke_tests)
    sentence = f"{len(ready)} of {model.desired_replicas} replicas passed {count} smoke tests"
    return Condition(type_, status=True, finding=Finding(Reason.PASSED, sentence))


# ------------------------------------------------------------------ Ready


def _ready(
    model: InferenceModel, replicas: Sequence[Replica], blamed: Finding | None, last_good: str
) -> Condition:
    type_ = ConditionType.READY
    desired = model.desired_replicas
    serving = _count_serving(replicas)
    if blamed is None and 0 < desired <= serving:
        finding = Finding(Reason.SERVING, f"{serving} of {desired} replicas serve the model")
        return Condition(type_, status=True, finding=finding)
    cause = blamed or Finding(Reason.PENDING, f"{serving} of {desired} replicas serve the model")
    if desired > 0 and last_good and any(replica.serving for replica in replicas):
        return Condition(type_, status=True, finding=_partly(replicas, desired, cause))
    return Condition(type_, status=False, finding=cause)


def _of_a_canary(ready: Condition, canary: Finding) -> Condition:
    """Ready, which says so where an earlier revision carries requests beside a canary."""
    if ready.status is not True:
        return ready
    finding = Finding(Reason.SERVING_PREVIOUS_REVISION, canary.message)
    return Condition(ConditionType.READY, status=True, finding=finding)


def _of_an_earlier(ready: Condition, course: Course | None) -> Condition:
    """Ready, which says so where what serves is what was gone back to."""
    rejected = course.revisions.rejected if course and course.is_back else None
    if rejected is None or ready.status is not True:
        return ready
    sentence = f"{ready.finding.message}, of an earlier revision; {given_up_sentence(rejected)}"
    finding = Finding(Reason.SERVING_PREVIOUS_REVISION, sentence)
    return Condition(ConditionType.READY, status=True, finding=finding)


def _partly(replicas: Sequence[Replica], desired: int, cause: Finding) -> Finding:
    """Why a model that has served before is still ready although not all is well.

    One serving pod of any revision is enough: traffic can be sent. A model that has never served
    with all its replicas is not asked, since its author waits for them; and what it finds of
    other revisions are a deleted model's last pods.
    """
    why = f"{cause.reason}: {cause.message}"
    if any(replica.serving and not replica.current for replica in replicas):
        sentence = f"an earlier revision serves; this one does not: {why}"
        return Finding(Reason.SERVING_PREVIOUS_REVISION, sentence)
    serving = sum(1 for replica in replicas if replica.serving)
    return Finding(Reason.SERVING, f"{serving} of {desired} replicas serve the model; {why}")


def _deployment_condition(observed: Observed, type_: str) -> str | None:
    """The message of a Deployment's condition where it is true."""
    conditions = observed.deployment.conditions if observed.deployment else ()
    found = (item.message for item in conditions if item.type == type_ and item.status is True)
    return next(found, None)


def _count_serving(replicas: Sequence[Replica]) -> int:
    return sum(1 for replica in _current(replicas) if replica.serving)


def _current(replicas: Sequence[Replica]) -> list[Replica]:
    return [replica for replica in replicas if replica.current]
