"""Values of the operator's pure packages, built from the few facts that a test needs."""

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, parse
from moorage_operator.decide import plan as planning
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import make_pod_template, revision_of
from moorage_operator.store.store import Store
from moorage_operator.values.answers import (
    Answer,
    AnswerReason,
    ModelInfo,
    ProbeResult,
    ServerInfo,
    Spoken,
    TensorInfo,
)
from moorage_operator.values.objects import (
    ChildKey,
    ChildObserved,
    ContainerObserved,
    DeploymentObserved,
    PodObserved,
    Scheduled,
)
from moorage_operator.values.observed import Observed, RevisionRecord
from moorage_operator.values.plan import Plan

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
OIP = Spoken("OpenInference", "HTTP", 8000, "GET /v2 answers with server metadata")
CONFIG = OperatorConfig(runtime_image="moorage/runtime:test")
YES = Answer(verdict=True, reason=AnswerReason.READY)
DIGITS = ModelInfo(
    "digits",
    ("1",),
    "onnx_onnxv1",
    (TensorInfo("image", "FP32", (-1, 8, 8)),),
    (TensorInfo("label", "INT64", (-1,)),),
)


def body(name: str = "digits", generation: int = 1, **spec: Any) -> dict[str, Any]:
    """An InferenceModel of the API server; by default a ConfigMap model."""
    if not spec.get("model", {}).get("uri") and not spec.get("runtime", {}).get("image"):
        spec["model"] = {"uri": "configmap://digits-files", **spec.get("model", {})}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": generation}
    return {"metadata": metadata, "spec": spec}


def model(name: str = "digits", generation: int = 1, **spec: Any) -> InferenceModel:
    """A parsed InferenceModel."""
    return parse(body(name, generation, **spec))


def revision(of: InferenceModel) -> str:
    """The revision that a model's pods carry."""
    return revision_of(make_pod_template(of, CONFIG))


def running(**facts: Any) -> ContainerObserved:
    """The runtime container, running and started since a minute."""
    container = ContainerObserved(
        "runtime",
        image=CONFIG.runtime_image,
        container_id="containerd://first",
        started=True,
        ready=True,
        running_since=NOW - timedelta(minutes=1),
    )
    return replace(container, **facts)


def pod(name: str, of: InferenceModel | str, **facts: Any) -> PodObserved:
    """A pod of a model's current revision (or of the named one) that the kubelet finds ready."""
    ready = PodObserved(
        name,
        uid=f"uid-{name}",
        created=NOW - timedelta(minutes=2),
        ip="10.0.0.1",
        node="node-1",
        phase="Running",
        ready=True,
        ready_since=NOW - timedelta(seconds=30),
        template_hash="5d8c",
        revision=of if isinstance(of, str) else revision(of),
        replica_set=f"{'digits' if isinstance(of, str) else of.name}-5d8c",
        scheduled=Scheduled(status=True),
        runtime=running(),
    )
    return replace(ready, **facts)


def unready(name: str, of: InferenceModel, **facts: Any) -> PodObserved:
    """A pod whose container runs and has not started yet."""
    waiting = {
        "ready": False,
        "ready_since": None,
        "runtime": running(started=False, ready=False),
    }
    return pod(name, of, **{**waiting, **facts})


def pending(name: str, of: InferenceModel, **facts: Any) -> PodObserved:
    """A pod on a node whose container does not exist yet."""
    waiting = {
        "phase": "Pending",
        "ready": False,
        "ready_since": None,
        "ip": "",
        "runtime": ContainerObserved("runtime", waiting_reason="ContainerCreating"),
    }
    return pod(name, of, **{**waiting, **facts})


def no(reason: AnswerReason, message: str = "") -> Answer:
    """A negative answer."""
    return Answer(verdict=False, reason=reason, message=message)


def silence(reason: AnswerReason) -> Answer:
    """An answer without a verdict."""
    return Answer(verdict=None, reason=reason)


def said(of: PodObserved, model_ready: Answer = YES, **facts: Any) -> dict[str, ProbeResult]:
    """The answers of a pod's server, as in `Observed.probes`."""
    result = ProbeResult(
        of.uid,
        of.runtime.container_id,
        live=YES,
        ready=YES if model_ready.verdict else no(AnswerReason.NOT_READY),
        model_ready=model_ready,
        spoken=OIP if model_ready.verdict is not None else None,
        server=ServerInfo("moorage-runtime", "1", ("binary_tensor_data",)),
        model=DIGITS if model_ready.verdict else None,
    )
    return {of.uid: replace(result, **facts)}


def deployment(**facts: Any) -> DeploymentObserved:
    """A Deployment that its controller has seen."""
    return replace(DeploymentObserved("uid-d", generation=1, observed_generation=1), **facts)


def observed(*pods: PodObserved, **facts: Any) -> Observed:
    """An observed state, by default with a Deployment."""
    seen = replace(Observed(pods=pods), deployment=facts.pop("deployment", deployment()))
    return replace(seen, children=children(seen.deployment), **facts)


def children(of: DeploymentObserved | None, name: str = "digits") -> dict[ChildKey, Any]:
    """`Observed.children` with a model's one Deployment."""
    return {("Deployment", name): of} if of else {}


def serving(of: InferenceModel, count: int = 1, **facts: Any) -> Observed:
    """An observed state in which every replica is ready."""
    pods = tuple(pod(f"p{index}", of) for index in range(count))
    probes = {uid: result for each in pods for uid, result in said(each).items()}
    own = deployment(revision=revision(of))
    return observed(*pods, **{"probes": probes, "deployment": own, **facts})


def with_service(seen: Observed, of: InferenceModel) -> Observed:
    """The observed state with the Services of a model; one that is paused restores none."""
    objects = planning.plan(replace(of, paused=False), seen, now=NOW, config=CONFIG).objects
    services = {
        ("Service", str(each["metadata"]["name"])): ChildObserved("uid-s", applied_hash(each))
        for each in objects
        if each["kind"] == "Service"
    }
    return replace(seen, children={**seen.children, **services})


def deaf_store() -> Store:
    """A store without listeners."""
    return Store(changed=lambda *_: None, pod_moved=lambda _: None, child_gone=lambda _: None)


def planned(
    of: InferenceModel, seen: Observed, now: datetime = NOW, *, writes_services: bool = True
) -> Plan:
    """The plan with the tests' configuration, where no ReplicaSet keeps what is not given.

    Args:
        of: The model.
        seen: The observed state.
        now: The time.
        writes_services: Whether missing Services and routes of a model that has a Deployment were
            written as planned, as every reconcile does before it writes the status.
    """
    plan = planning.plan(of, seen, now=now, config=CONFIG)
    unread = plan.history - seen.history.keys()
    if unread:
        history = {**seen.history, **dict.fromkeys(unread)}
        return planned(of, replace(seen, history=history), now, writes_services=writes_services)
    if not (writes_services and seen.deployment) or of.paused:
        return plan
    routes = {
        (each["kind"], each["metadata"]["name"]): ChildObserved("uid-s", applied_hash(each))
        for each in plan.objects
        if each["kind"] in planning.ROUTED_BY
    }
    if routes.keys() <= seen.children.keys():
        return plan
    written = replace(seen, children={**routes, **seen.children})
    return planned(of, written, now, writes_services=writes_services)


def condition(of: Plan | dict[str, Any], type_: str) -> dict[str, Any]:
    """A condition of a plan's status, or of a status."""
    status = of.status if isinstance(of, Plan) else of
    return next(item for item in status["conditions"] if item["type"] == type_)


def verdict(of: Plan, type_: str = "Ready") -> tuple[str, str]:
    """Status and reason of a condition."""
    found = condition(of, type_)
    return found["status"], found["reason"]


def record(of: InferenceModel, config: OperatorConfig = CONFIG) -> RevisionRecord:
    """The record in the ReplicaSet of a model's revision."""
    template = copy.deepcopy(make_pod_template(of, config))
    template["metadata"]["labels"]["pod-template-hash"] = "5d8c"
    template["metadata"]["creationTimestamp"] = None
    return RevisionRecord(msgspec.json.encode(template), of.written.kept.encode())
