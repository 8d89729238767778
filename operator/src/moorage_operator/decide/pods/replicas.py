"""Judges each pod: its revision, whether it serves, and if not, why.

There are two sources. Kubernetes reports whether the container runs and its readiness probe passes
(`pod_diagnosis`). The server, queried at the pod's own address, reports whether the model is
ready. A pod of the current revision serves if both agree. A pod of an earlier revision has served
before and is left to the kubelet, because the current spec does not describe its server. With an
enforced contract the model's metadata counts as well; see `admission`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from moorage_operator.api.conditions import Finding, Reason, truncated
from moorage_operator.api.reasons import Trait, has
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol, ReadinessTarget
from moorage_operator.values.answers import Answer, AnswerReason, ProbeResult
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.smoke import SmokeOutcome

from . import contract, pod_diagnosis, smoke_verdicts
from .admission import has_ready_server, is_admitted, stays_in

__all__ = ["Replica", "is_replica", "judge", "ready_subject", "worst"]

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
    AnswerReason.NOT_TRUSTED: Reason.CERTIFICATE_NOT_TRUSTED,
    AnswerReason.TLS_MISMATCH: Reason.TLS_MISMATCH,
    AnswerReason.UNAUTHORIZED: Reason.UNAUTHORIZED,
}

UNHEARD = {Reason.SERVER_NOT_LIVE, Reason.PROBE_TIMEOUT}

NO_ANSWER = {AnswerReason.REFUSED, AnswerReason.TIMED_OUT}

# A server that is not ready itself may not have looked for its models yet.
NOT_THERE = {AnswerReason.MODEL_NOT_FOUND, AnswerReason.VERSION_NOT_FOUND}

# Of several replicas the most informative reason is shown; lasting problems come first.
SEVERITY = (
    Reason.MODEL_LOAD_FAILED,
    Reason.MODEL_NOT_FOUND,
    Reason.VERSION_NOT_SERVED,
    Reason.PROTOCOL_MISMATCH,
    Reason.NO_PROTOCOL_ANSWERED,
    Reason.TLS_MISMATCH,
    Reason.CERTIFICATE_NOT_TRUSTED,
    Reason.UNAUTHORIZED,
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
    Reason.METADATA_UNAUTHORIZED,
    Reason.METADATA_UNSUPPORTED,
    Reason.AWAITING_METADATA,
    Reason.OUTPUT_MISMATCH,
    Reason.REQUEST_REJECTED,
    Reason.REQUEST_UNAUTHORIZED,
    Reason.LATENCY_EXCEEDED,
    Reason.RUNNING,
)

PENDING_SENTENCE = "the model has not been checked yet"


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod with its findings.

    Attributes:
        pod: The pod.
        current: Whether it has the current revision.
        serving: Whether it serves.
        model_ready: Whether its model is ready.
        admitted: Whether it may receive traffic.
        workload: A problem that Kubernetes reports.
        model: A problem that the server reports.
        contract: A difference from the contract, if one is compared and the model is ready.
        smoke: A failure of the smoke tests.
        result: The answers of the server, if they are from the container that runs now.
        trial: The outcome of the smoke tests, under the same condition.
        asked: Whether it has an earlier revision and is judged by the spec of that.
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
    def is_silent(self) -> bool:
        """Whether the server does not answer the operator."""
        return self.result is not None and self.result.model_ready.reason in NO_ANSWER

    @property
    def finding(self) -> Finding | None:
        """The first finding that prevents serving."""
        broken = None if self.serving else self.contract or self.smoke
        return self.workload or self.model or broken


def judge(model: InferenceModel, observed: Observed, revision: str) -> tuple[Replica, ...]:
    """Judge all live pods, by name. With an empty `revision`, all pods count as earlier ones."""
    alive = [pod for pod in observed.pods if pod.is_active]
    before = _previous_entries(observed.status)
    replicas = tuple(
        _judge_current(pod, model, observed, before.get(pod.name) or _omitted(pod, observed))
        if revision and pod.revision == revision
        else _earlier(pod)
        for pod in sorted(alive, key=lambda pod: pod.name)
    )
    return _judge_together(replicas, model) if model.contract.is_compared else replicas


def is_replica(pod: PodObserved, model: InferenceModel) -> bool:
    """Whether a Deployment of the model created the pod."""
    return bool(pod.deployment_of(model.name))


def ready_subject(model: InferenceModel) -> str:
    """Return what messages call ready: with protocol None nothing is known of the model."""
    return "the server" if model.protocol is Protocol.NONE else "the model"


def worst(findings: Iterable[Finding]) -> Finding | None:
    """Return the most informative finding with the number of others."""
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
    workload = pod_diagnosis.pod_finding(pod, model.health, observed.references)
    if pod.runtime.running_since is None:
        return Replica(
            pod, current=True, serving=False, model_ready=False, admitted=False, workload=workload
        )
    result = observed.probes.get(pod.uid)
    if result and result.container_id != pod.runtime.container_id:
        result = None
    against = _model_finding(pod, model, result, before)
    if against and has(against.reason, Trait.FINAL):
        workload = None  # the server's answer is more recent than the crash
    broken = None
    if against is None and model.contract.is_compared:
        broken = _contract_finding(pod, model, result, before)
    trial = smoke_verdicts.outcome(pod, model, result, before)
    failed = None
    if against is None and model.smoke_tests.tests:
        failed = smoke_verdicts.finding(pod, trial)
    if against is None:
        admitted = is_admitted(pod, _enforced(model, broken, failed))
    elif model.health.readiness_target is ReadinessTarget.SERVER and not model.enforces:
        is_same = before.get("restarts") == pod.runtime.restart_count
        admitted = has_ready_server(pod, result, is_same_container=is_same)
    else:
        admitted = has(against.reason, Trait.SILENCE) and stays_in(pod)
    if against is None and workload is None:
        workload = _not_ready_finding(pod, ready_subject(model), admitted=admitted)
    return Replica(
        pod,
        current=True,
        serving=against is None and admitted and pod.ready,
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
    """Return the findings of enforced checks, which keep a replica out of the Service."""
    found = ((model.contract.is_enforced, broken), (model.smoke_tests.is_enforced, failed))
    return tuple(finding for enforced, finding in found if enforced and finding)


def _not_ready_finding(pod: PodObserved, subject: str, *, admitted: bool) -> Finding | None:
    """Return why a pod with a ready model is not ready, unless its gate is closed on purpose.

    Another container or another readiness gate may be the cause, which only the kubelet knows.
    """
    if pod.ready or (not admitted and pod.runtime.ready):
        return None
    if admitted and pod.gated and not pod.gate_open:
        what = "the pod's readiness gate is not open yet"
    elif pod.is_lost:
        what = _lost_sentence(pod)
    elif pod.runtime.ready:
        what = f"the pod is not: {pod.unready_message}"
    else:
        what = "the pod's readiness probe has not passed"
    return Finding(Reason.POD_NOT_READY, f"pod {pod.name}: {subject} is ready, but {what}")


def _judge_together(replicas: Sequence[Replica], model: InferenceModel) -> tuple[Replica, ...]:
    """Record a finding for each replica if replicas of this spec have different tensors."""
    by_pod = {
        replica.pod.name: replica.result.model
        for replica in replicas
        if replica.current and replica.result and replica.result.model and not replica.contract
    }
    found = contract.disagreement(by_pod)
    if found is None:
        return tuple(replicas)
    return tuple(
        _with_contract(replica, model, found) if replica.pod.name in by_pod else replica
        for replica in replicas
    )


def _with_contract(replica: Replica, model: InferenceModel, found: Finding) -> Replica:
    enforced = (found,) if model.contract.is_enforced else ()
    admitted = replica.admitted and is_admitted(replica.pod, enforced)
    serving = replica.serving and admitted
    return replace(replica, contract=found, admitted=admitted, serving=serving)


def _contract_finding(
    pod: PodObserved,
    model: InferenceModel,
    result: ProbeResult | None,
    before: Mapping[str, Any],
) -> Finding | None:
    """Return how a ready replica's metadata breaks the contract."""
    if result is None or not (result.model or result.described):
        reason = str(before.get("reason"))
        if has(reason, Trait.CONTRACT):
            return Finding(Reason(reason), str(before.get("message", "")))
        was_ready = before.get("modelReady") is True
        if was_ready and before.get("restarts") == pod.runtime.restart_count:
            return None  # the operator has restarted and has not polled yet
        sentence = f"pod {pod.name}: waiting for its metadata"
        return Finding(Reason.AWAITING_METADATA, sentence)
    if result.unauthorized and result.model is None:
        sentence = f"pod {pod.name}: the metadata is not compared: {result.unauthorized}"
        return Finding(Reason.METADATA_UNAUTHORIZED, sentence)
    found = contract.difference(model.contract, result.model)
    return Finding(found.reason, f"pod {pod.name}: {found.message}") if found else None


def _model_finding(
    pod: PodObserved,
    model: InferenceModel,
    result: ProbeResult | None,
    before: Mapping[str, Any],
) -> Finding | None:
    """Return the problem that the server reports; None if the model is ready."""
    if result is None or result.model_ready.reason is AnswerReason.NOT_ASKED:
        return _as_before(pod, before)
    answer = result.model_ready
    if answer.verdict is True:
        return None
    was_ready = pod.ready and before.get("modelReady") is True
    patience = model.health.failure_threshold
    if answer.verdict is None and was_ready and result.consecutive_unknown < patience:
        return None
    found = _with_traffic_warning(pod, _answer_finding(pod, model, result, answer))
    lasts = result.consecutive_unknown >= patience
    if found.reason in UNHEARD and pod.is_lost:
        return replace(found, message=f"{found.message}; {_lost_sentence(pod)}")
    return _with_network_advice(found, pod) if lasts and pod.runtime.ready else found


def _as_before(pod: PodObserved, before: Mapping[str, Any]) -> Finding | None:
    """Return the previous status of this container until it is polled again.

    So a restarted operator does not write statuses that have not changed.
    """
    same_container = before.get("restarts") == pod.runtime.restart_count
    was_ready = before.get("modelReady") is True
    if same_container and was_ready and before.get("ready") in {pod.ready, False}:
        return None
    reason = str(before.get("reason"))
    if same_container and has(reason, Trait.ANSWER):
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
    name = f"model {model.model.name}"
    if model.protocol is Protocol.NONE:
        name = ready_subject(model)
    sentence = {
        Reason.MODEL_LOADING: f"{name} is not ready yet",
        Reason.SERVER_READY_MODEL_NOT: f"the server is ready, but {name} is not",
        Reason.MODEL_LOAD_FAILED: f"{name} failed to load",
        Reason.MODEL_NOT_FOUND: f"the server has no {name}",
        Reason.VERSION_NOT_SERVED: f"version {model.model.version} of {name} is not served",
        Reason.SERVER_NOT_LIVE: "the server does not answer",
        Reason.PROBE_TIMEOUT: "the server did not answer in time",
        Reason.CERTIFICATE_NOT_TRUSTED: "its TLS certificate is not accepted",
        Reason.TLS_MISMATCH: "TLS does not fit the spec",
        Reason.UNAUTHORIZED: _unauthorized_sentence(model),
    }[reason]
    detail = f": {answer.message}" if answer.message else ""
    return Finding(reason, f"pod {pod.name}: {sentence}{detail}")


def _unauthorized_sentence(model: InferenceModel) -> str:
    """Say that readiness requires a token; the paths of OpenInference may be open to all."""
    sentence = "the server requires a token"
    if model.protocol in {Protocol.GRPS, Protocol.TENSORFLOW_SERVING, Protocol.OPENAI}:
        return f"{sentence} even for readiness: protocol {model.protocol} has no open path for it"
    return sentence


def _with_traffic_warning(pod: PodObserved, found: Finding) -> Finding:
    """Add a warning if the replica receives traffic in spite of the finding."""
    if has(found.reason, Trait.SILENCE) or not pod.ready or pod.gated:
        return found
    more = "its readiness probe still passes, so the replica receives traffic"
    return replace(found, message=f"{found.message}; {more}")


def _lost_sentence(pod: PodObserved) -> str:
    return f"its node {pod.node!r} no longer reports to Kubernetes"


def _with_network_advice(found: Finding, pod: PodObserved) -> Finding:
    """Add advice if the kubelet reached the server and the operator does not.

    Kubernetes takes about a minute to notice that a node has failed.
    """
    if found.reason not in UNHEARD:
        return found
    more = (
        "its readiness probe passes, so something blocks the operator's connection to the pod: a "
        "network policy, or a service mesh with strict mTLS "
        "(exclude the model's ports: docs/how-to/service-mesh.md); "
        f"or node {pod.node!r} has just failed"
    )
    return replace(found, message=f"{found.message}; {more}")


def _protocol_finding(
    pod: PodObserved, model: InferenceModel, result: ProbeResult, answer: Answer
) -> Finding:
    """Report that the server speaks another protocol, and which fields to change."""
    if model.protocol is Protocol.AUTO:
        reason = Reason.NO_PROTOCOL_ANSWERED
        sentence = f"the server answers in no known protocol over {model.transport}"
    else:
        reason = Reason.PROTOCOL_MISMATCH
        sentence = f"the server does not answer as {model.protocol} over {model.transport}"
    detail = f": {answer.message}" if answer.message else ""
    spoken = result.spoken
    found = ""
    if spoken:
        wanted = {"protocol": model.protocol, "transport": model.transport}
        fields = {"protocol": spoken.protocol, "transport": spoken.transport}
        if model.protocol is Protocol.AUTO:
            del fields["protocol"]
        edits = " and ".join(
            f"{field} to {value}" for field, value in fields.items() if value != wanted[field]
        )
        found = (
            f"; it speaks {spoken.protocol} over {spoken.transport} on port {spoken.port} "
            f"({spoken.evidence}): set {edits}"
        )
    return Finding(reason, f"pod {pod.name}: {sentence}{detail}{found}")


def _omitted(pod: PodObserved, observed: Observed) -> Mapping[str, Any]:
    """Return the previous status of a pod that the status may have omitted.

    The status lists replicas that do not serve first. So if its last entry serves, all omitted
    replicas served.
    """
    listed = cast("list[Mapping[str, Any]]", observed.status.get("replicaStatuses") or [{}])
    serves = listed[-1].get("ready") is True and listed[-1].get("modelReady") is True
    if not (pod.ready and serves and observed.status.get("omittedReplicas")):
        return {}
    return {
        "modelReady": True,
        "ready": True,
        "restarts": pod.runtime.restart_count,
        "smokeTests": smoke_verdicts.passed_with_all(pod, observed.status),
    }


def _previous_entries(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries = cast("list[Mapping[str, Any]]", status.get("replicaStatuses") or [])
    return {str(entry.get("pod")): entry for entry in entries}
