"""Each pod judged: which revision it is of, whether it serves, and if not, why not.

Two witnesses are heard. Kubernetes says whether the container runs and whether the kubelet's
readiness probe passes (`diagnosis`); the server says, asked by the operator at the pod's own
address, whether the model is ready. A pod of the current revision serves when both say so. A pod
of an earlier revision was accepted by both in its time and is left to the kubelet: the spec no
longer tells what its server should be asked for. Under an enforced contract a third witness is the
model's metadata; `admission` says what it leads to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from . import contract, diagnosis, trials
from .admission import is_admitted
from .answers import Answer, AnswerReason, ProbeResult
from .api.v1alpha1 import InferenceModel, Protocol
from .conditions import Finding, Reason, truncated
from .contract import CONTRACT_REASONS
from .smoke import SmokeOutcome
from .state import Observed
from .watched import PodObserved

__all__ = ["Replica", "judge", "worst"]

REASONS = {
    AnswerReason.NOT_READY: Reason.MODEL_LOADING,
    AnswerReason.LOADING: Reason.MODEL_LOADING,
    AnswerReason.LOAD_FAILED: Reason.MODEL_LOAD_FAILED,
    AnswerReason.MODEL_NOT_FOUND: Reason.MODEL_NOT_FOUND,
    AnswerReason.VERSION_NOT_FOUND: Reason.VERSION_NOT_SERVED,
    AnswerReason.REFUSED: Reason.SERVER_NOT_LIVE,
    AnswerReason.TIMED_OUT: Reason.PROBE_TIMEOUT,
    AnswerReason.WRONG_PROTOCOL: Reason.PROTOCOL_MISMATCH,
    AnswerReason.MALFORMED: Reason.PROTOCOL_MISMATCH,
}

# What speaks against the protocol, and not yet against the model.
PROTOCOL_REASONS = {Reason.PROTOCOL_MISMATCH, Reason.NO_PROTOCOL_ANSWERED}

# Answers that only an edit, of the spec or of the model, will change.
DEFINITE = {
    Reason.MODEL_LOAD_FAILED,
    Reason.MODEL_NOT_FOUND,
    Reason.VERSION_NOT_SERVED,
    *PROTOCOL_REASONS,
}

# Every reason that a server's own answer, or its absence, can give.
ANSWER_REASONS = {*REASONS.values(), *PROTOCOL_REASONS, Reason.SERVER_READY_MODEL_NOT}

# Nobody answers: that may be for the operator alone.
SILENCE = {Reason.SERVER_NOT_LIVE, Reason.PROBE_TIMEOUT}

# A server that says that it is not ready itself may not have looked for its models yet.
NOT_THERE = {AnswerReason.MODEL_NOT_FOUND, AnswerReason.VERSION_NOT_FOUND}

# Among several replicas the reason that tells most is shown: what will not mend itself first.
SEVERITY = (
    Reason.MODEL_LOAD_FAILED,
    Reason.MODEL_NOT_FOUND,
    Reason.VERSION_NOT_SERVED,
    Reason.PROTOCOL_MISMATCH,
    Reason.NO_PROTOCOL_ANSWERED,
    Reason.INVALID_IMAGE_NAME,
    Reason.IMAGE_PULL_BACK_OFF,
    Reason.SECRET_NOT_FOUND,
    Reason.CREATE_CONTAINER_CONFIG_ERROR,
    Reason.VOLUME_MOUNT_FAILED,
    Reason.ARTIFACT_DOWNLOAD_FAILED,
    Reason.OOM_KILLED,
    Reason.STARTUP_TIMEOUT,
    Reason.CRASH_LOOP_BACK_OFF,
    Reason.LIVENESS_FAILING,
    Reason.UNSCHEDULABLE,
    Reason.SERVER_READY_MODEL_NOT,
    Reason.SERVER_NOT_LIVE,
    Reason.PROBE_TIMEOUT,
    Reason.POD_NOT_READY,
    Reason.MODEL_LOADING,
    Reason.PENDING,
    *contract.ORDER,
    Reason.REPLICAS_DISAGREE,
    Reason.METADATA_UNSUPPORTED,
    Reason.AWAITING_METADATA,
    Reason.OUTPUT_MISMATCH,
    Reason.REQUEST_REJECTED,
    Reason.LATENCY_EXCEEDED,
    Reason.RUNNING,
)

PENDING_SENTENCE = "the model has not been asked yet"


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod with its verdicts.

    `workload` is what Kubernetes speaks against it, `model` what the server speaks against it,
    `contract` what its metadata does, where a contract is compared and the model is ready, `smoke`
    what its smoke tests do. `admitted` says whether the Service may have it. `result` are the
    server's answers, and `trial` is how the smoke tests ended, where they are of the container
    that runs now. `asked` says that it is of an earlier revision and judged as what that was.
    """

    pod: PodObserved
    current: bool
    serving: bool
    model_ready: bool
    admitted: bool
    workload: Finding | None = None
    model: Finding | None = None
    contract: Finding | None = None
    smoke: Finding | None = None
    result: ProbeResult | None = None
    trial: SmokeOutcome | None = None
    asked: bool = False

    @property
    def finding(self) -> Finding | None:
        """The first thing that keeps it from serving; what is not enforced does not."""
        broken = None if self.serving else self.contract or self.smoke
        return self.workload or self.model or broken


def judge(model: InferenceModel, observed: Observed, revision: str) -> tuple[Replica, ...]:
    """Every pod that lives, by name. An empty `revision` makes every pod one of an earlier."""
    alive = [
        pod
        for pod in observed.pods
        if not pod.deleting and pod.phase not in {"Succeeded", "Failed"}
    ]
    before = _previous_entries(observed.status)
    replicas = tuple(
        _judge_current(pod, model, observed, before.get(pod.name) or _omitted(pod, observed))
        if revision and pod.revision == revision
        else _earlier(pod)
        for pod in sorted(alive, key=lambda pod: pod.name)
    )
    return _judge_together(replicas, model) if model.contract.is_compared else replicas


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The finding that tells most, the first among equals, with how many others there are."""
    found = sorted(findings, key=lambda finding: SEVERITY.index(finding.reason))
    if not found:
        return None
    others = len(found) - 1
    more = f" (and {others} more not ready)" if others else ""
    return Finding(found[0].reason, f"{truncated(found[0].message)}{more}")


def _earlier(pod: PodObserved) -> Replica:
    return Replica(
        pod, current=False, serving=pod.ready, model_ready=pod.ready, admitted=pod.ready
    )


def _judge_current(
    pod: PodObserved, model: InferenceModel, observed: Observed, before: Mapping[str, Any]
) -> Replica:
    workload = diagnosis.pod_finding(pod, model.health, observed.references)
    if pod.runtime.running_since is None:
        return Replica(
            pod, current=True, serving=False, model_ready=False, admitted=False, workload=workload
        )
    result = observed.probes.get(pod.uid)
    if result and result.container_id != pod.runtime.container_id:
        result = None
    against = _model_finding(pod, model, result, before)
    if against and against.reason in DEFINITE:
        workload = None  # the server answers now: that it ended once is no longer the news
    broken = None
    if against is None and model.contract.is_compared:
        broken = _contract_finding(pod, model, result, before)
    trial = trials.outcome(pod, model, result, before)
    failed = None
    if against is None and model.smoke_tests:
        failed = trials.finding(pod, trial)
    admitted = against is None and is_admitted(pod, _enforced(model, broken, failed))
    if against is None and workload is None:
        workload = _not_ready_finding(pod, admitted=admitted)
    return Replica(
        pod,
        current=True,
        serving=admitted and pod.ready,
        model_ready=against is None,
        admitted=admitted,
        workload=workload,
        model=against,
        contract=broken,
        smoke=failed,
        result=result,
        trial=trial,
    )


def _enforced(
    model: InferenceModel, broken: Finding | None, failed: Finding | None
) -> tuple[Finding, ...]:
    """What of the contract's and the smoke tests' findings keeps a replica out of the Service."""
    found = ((model.contract.is_enforced, broken), (model.enforces_smoke_tests, failed))
    return tuple(finding for enforced, finding in found if enforced and finding)


def _not_ready_finding(pod: PodObserved, *, admitted: bool) -> Finding | None:
    """What keeps a pod from being ready although its model is; not what keeps its gate shut."""
    if pod.ready or (not admitted and pod.runtime.ready):
        return None
    opening = admitted and pod.gated and not pod.gate_open
    what = "readiness gate is not open yet" if opening else "readiness probe has not passed"
    sentence = f"pod {pod.name}: the model answers that it is ready, the pod's {what}"
    return Finding(Reason.POD_NOT_READY, sentence)


def _judge_together(replicas: Sequence[Replica], model: InferenceModel) -> tuple[Replica, ...]:
    """The replicas, each blamed where those of this spec have different tensors."""
    told = {
        replica.pod.name: replica.result.model
        for replica in replicas
        if replica.current and replica.result and replica.result.model and not replica.contract
    }
    found = contract.disagreement(told)
    if found is None:
        return tuple(replicas)
    return tuple(
        _with_contract(replica, model, found) if replica.pod.name in told else replica
        for replica in replicas
    )


def _with_contract(replica: Replica, model: InferenceModel, found: Finding) -> Replica:
    enforced = _enforced(model, found, replica.smoke)
    admitted = replica.admitted and is_admitted(replica.pod, enforced)
    serving = replica.serving and admitted
    return replace(replica, contract=found, admitted=admitted, serving=serving)


def _contract_finding(
    pod: PodObserved,
    model: InferenceModel,
    result: ProbeResult | None,
    before: Mapping[str, Any],
) -> Finding | None:
    """What a ready replica's metadata speaks against the contract."""
    if result is None or not (result.model or result.described):
        reason = str(before.get("reason", ""))
        if reason in CONTRACT_REASONS:
            return Finding(Reason(reason), str(before.get("message", "")))
        was_ready = before.get("modelReady") is True
        if was_ready and before.get("restarts") == pod.runtime.restart_count:
            return None  # the operator has restarted, and has not asked yet
        return Finding(Reason.AWAITING_METADATA, f"pod {pod.name}: its metadata is not known yet")
    found = contract.difference(model.contract, result.model)
    return Finding(found.reason, f"pod {pod.name}: {found.message}") if found else None


def _model_finding(
    pod: PodObserved,
    model: InferenceModel,
    result: ProbeResult | None,
    before: Mapping[str, Any],
) -> Finding | None:
    """What the server speaks against the replica; None: the model is ready."""
    answer = result.model_ready if result else None
    if result is None or answer is None or answer.reason is AnswerReason.NOT_ASKED:
        return _as_before(pod, before)
    if answer.verdict is True:
        return None
    was_ready = pod.ready and before.get("modelReady") is True
    patience = model.health.failure_threshold
    if answer.verdict is None and was_ready and result.consecutive_unknown < patience:
        return None
    return _told_of_requests(pod, _answer_finding(pod, model, result, answer))


def _as_before(pod: PodObserved, before: Mapping[str, Any]) -> Finding | None:
    """The last verdict that the status has of this container, until it is asked (again).

    So an operator that restarts writes nothing about what has not changed.
    """
    same_container = before.get("restarts") == pod.runtime.restart_count
    was_ready = before.get("modelReady") is True
    if same_container and was_ready and before.get("ready") in {pod.ready, False}:
        return None
    reason = str(before.get("reason", ""))
    if same_container and reason in ANSWER_REASONS:
        return Finding(Reason(reason), str(before.get("message", "")))
    return Finding(Reason.MODEL_LOADING, f"pod {pod.name}: {PENDING_SENTENCE}")


def _answer_finding(
    pod: PodObserved, model: InferenceModel, result: ProbeResult, answer: Answer
) -> Finding:
    reason = REASONS[answer.reason]
    if reason is Reason.PROTOCOL_MISMATCH:
        return _protocol_finding(pod, model, result, answer)
    if answer.reason is AnswerReason.NOT_READY and result.ready.verdict is True:
        reason = Reason.SERVER_READY_MODEL_NOT
    if answer.reason in NOT_THERE and result.ready.verdict is False and not answer.listed:
        reason = Reason.MODEL_LOADING
    name = model.model.name
    sentence = {
        Reason.MODEL_LOADING: f"model {name} is not ready yet",
        Reason.SERVER_READY_MODEL_NOT: f"the server is ready, model {name} is not",
        Reason.MODEL_LOAD_FAILED: f"model {name} does not load",
        Reason.MODEL_NOT_FOUND: f"the server has no model {name}",
        Reason.VERSION_NOT_SERVED: f"model {name} is served, version {model.model.version} is not",
        Reason.SERVER_NOT_LIVE: "the server does not answer",
        Reason.PROBE_TIMEOUT: "the server did not answer in time",
    }[reason]
    detail = f": {answer.message}" if answer.message else ""
    return Finding(reason, f"pod {pod.name}: {sentence}{detail}")


def _told_of_requests(pod: PodObserved, found: Finding) -> Finding:
    """The finding, and that the replica has requests all the same where nothing shuts it out."""
    if found.reason in SILENCE or not pod.ready or pod.gated:
        return found
    more = "its readiness probe passes all the same, so the Service sends it requests"
    return replace(found, message=f"{found.message}; {more}")


def _protocol_finding(
    pod: PodObserved, model: InferenceModel, result: ProbeResult, answer: Answer
) -> Finding:
    """That the server speaks something else, and what to write into the spec."""
    if model.protocol is Protocol.AUTO:
        reason = Reason.NO_PROTOCOL_ANSWERED
        sentence = f"the server answers in no protocol over {model.transport}"
    else:
        reason = Reason.PROTOCOL_MISMATCH
        sentence = f"the server does not answer as {model.protocol} over {model.transport}"
    detail = f": {answer.message}" if answer.message else ""
    spoken = result.spoken
    found = ""
    if spoken:
        wanted = {"protocol": model.protocol, "transport": model.transport}
        told = {"protocol": spoken.protocol, "transport": spoken.transport}
        if model.protocol is Protocol.AUTO:
            del told["protocol"]
        edits = " and ".join(
            f"{field} to {value}" for field, value in told.items() if value != wanted[field]
        )
        found = (
            f"; it speaks {spoken.protocol} over {spoken.transport} on port {spoken.port} "
            f"({spoken.evidence}): set {edits}"
        )
    return Finding(reason, f"pod {pod.name}: {sentence}{detail}{found}")


def _omitted(pod: PodObserved, observed: Observed) -> Mapping[str, Any]:
    """What the status would say of a pod that it may have left out for being one of too many.

    It lists those that do not serve first, so one that it left out served.
    """
    if not pod.ready or not observed.status.get("omittedReplicas"):
        return {}
    entry = {"modelReady": True, "ready": True, "restarts": pod.runtime.restart_count}
    passed = trials.passed_by_all(observed.status)
    return {**entry, "smokeTests": passed} if passed else entry


def _previous_entries(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries = cast("list[Mapping[str, Any]]", status.get("replicaStatuses") or [])
    return {str(entry.get("pod")): entry for entry in entries}
