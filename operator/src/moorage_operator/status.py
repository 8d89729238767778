"""The status as it is written: the conditions, the replicas, what the model says of itself.

Everything in it is in a fixed order and free of polling times, so that a model that does not
change is never written. Moments that are written come from the cluster, or stay what the previous
status has while the fact that they date stands.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from . import conditions, diagnosis, labels, protocols, trials
from .answers import ModelInfo, ServerInfo, TensorInfo
from .api.v1alpha1 import InferenceModel
from .conditions import Finding, Reason, timestamp, truncated
from .config import OperatorConfig
from .memo import by_identity
from .readiness import Judgement
from .replicas import Replica
from .resources import endpoints
from .resources.pod_template import canonical_hash
from .revisions import write_revisions
from .state import Observed
from .timings import make_timings
from .watched import ContainerObserved

__all__ = ["make_status"]

# Beyond that a status is a list that nobody reads and every write is large.
REPLICA_STATUSES_LIMIT = 32
METADATA_HASH_LENGTH = 16


def make_status(
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    judgement: Judgement,
    *,
    config: OperatorConfig,
    now: datetime,
) -> dict[str, Any]:
    """The whole status; fields that say nothing yet are left out."""
    desired = model.desired_replicas
    serving = sum(1 for replica in replicas if replica.serving)
    entries = _replica_statuses(replicas, observed.status, now)
    protocol = protocols.protocol_status(model, observed, replicas)
    status: dict[str, Any] = {
        "observedGeneration": model.generation,
        "replicas": len(replicas),
        "selector": labels.selector_text(model.name),
        "replicaSummary": f"{min(serving, desired)}/{desired}",
        "revisions": write_revisions(judgement.revisions),
        "protocol": protocol,
        "endpoints": endpoints.urls(model, config, protocols.detected(protocol)),
        **_answers(model, replicas, observed.status),
        "replicaStatuses": entries[:REPLICA_STATUSES_LIMIT],
        "omittedReplicas": max(0, len(entries) - REPLICA_STATUSES_LIMIT),
        "conditions": conditions.written(
            judgement.conditions, observed.status, generation=model.generation, now=now
        ),
    }
    timings = make_timings(judgement.revisions.current, replicas, observed.status)
    if timings:
        status["timings"] = timings
    failure = _last_failure(model, replicas, judgement, observed.status, now)
    if failure:
        status["lastFailure"] = failure
    return status


# ------------------------------------------------------------------ what the model says of itself


def _answers(
    model: InferenceModel, replicas: Sequence[Replica], previous: Mapping[str, Any]
) -> dict[str, Any]:
    """`model`, `versionSummary` and `server`, as the first replica told, serving ones first.

    Before the first answer after the operator's restart the previous status still tells, as long
    as something serves that model.
    """
    results = [
        replica.result
        for replica in sorted(replicas, key=lambda replica: not replica.serving)
        if replica.result
    ]
    info = next((result.model for result in results if result.model), None)
    server = next((result.server for result in results if result.server), None)
    before = _still_true(model, replicas, previous)
    answers: dict[str, Any] = {"model": before.get("model") or {"name": model.model.name}}
    if info:
        answers["model"] = _model_status(model, info)
    if info or "versionSummary" in before:
        versions = answers["model"].get("versions", [])
        answers["versionSummary"] = model.model.version or ",".join(versions)
    if server or "server" in before:
        answers["server"] = _server_status(server) if server else before["server"]
    return answers


def _still_true(
    model: InferenceModel, replicas: Sequence[Replica], previous: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The previous status while a replica vouches for what it says of the model, else {}.

    A replica does that which serves, or whose container is the one that it was told of and has
    not been asked again.
    """
    named = cast("Mapping[str, Any]", previous.get("model") or {}).get("name")
    entries = cast("list[Mapping[str, Any]]", previous.get("replicaStatuses") or [])
    known = {(entry.get("pod"), entry.get("restarts")) for entry in entries}
    vouches = any(
        replica.serving
        or (
            replica.current
            and replica.result is None
            and replica.pod.runtime.running_since is not None
            and (replica.pod.name, replica.pod.runtime.restart_count) in known
        )
        for replica in replicas
    )
    return previous if vouches and named == model.model.name else {}


@by_identity
def _model_status(model: InferenceModel, info: ModelInfo) -> dict[str, Any]:
    told: dict[str, Any] = {
        "platform": info.platform,
        "versions": sorted(info.versions, key=lambda version: (len(version), version)),
        "inputs": [_tensor_status(tensor) for tensor in info.inputs],
        "outputs": [_tensor_status(tensor) for tensor in info.outputs],
    }
    digest = canonical_hash(told)[:METADATA_HASH_LENGTH]
    return {"name": model.model.name, **told, "metadataHash": digest}


def _tensor_status(tensor: TensorInfo) -> dict[str, Any]:
    told: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype}
    return told if tensor.shape is None else {**told, "shape": list(tensor.shape)}


def _server_status(server: ServerInfo) -> dict[str, Any]:
    return {
        "name": server.name,
        "version": server.version,
        "extensions": sorted(server.extensions),
    }


# ------------------------------------------------------------------ replicas


def _replica_statuses(
    replicas: Sequence[Replica], previous: Mapping[str, Any], now: datetime
) -> list[dict[str, Any]]:
    """One entry a pod, those that do not serve first, then by name."""
    entries = cast("list[Mapping[str, Any]]", previous.get("replicaStatuses") or [])
    before = {str(entry.get("pod")): entry for entry in entries}
    ordered = sorted(replicas, key=lambda replica: (replica.serving, replica.pod.name))
    return [_replica_status(each, before.get(each.pod.name, {}), now) for each in ordered]


def _replica_status(replica: Replica, before: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "pod": replica.pod.name,
        "revision": replica.pod.revision,
        "ready": replica.pod.ready,
        "modelReady": replica.model_ready,
        "restarts": replica.pod.runtime.restart_count,
        **trials.written(replica.trial),
    }
    finding = replica.finding
    if finding:
        entry["reason"] = str(finding.reason)
        entry["message"] = truncated(finding.message)
    entry["since"] = _since(replica, finding, before, now)
    return entry


def _since(
    replica: Replica, finding: Finding | None, before: Mapping[str, Any], now: datetime
) -> str:
    """When the replica came to be as it is."""
    if replica.serving and replica.pod.ready_since:
        return timestamp(replica.pod.ready_since)
    same = before.get("reason", "") == (str(finding.reason) if finding else "")
    return str(before["since"]) if same and before.get("since") else timestamp(now)


# ------------------------------------------------------------------ the last failure


def _last_failure(
    model: InferenceModel,
    replicas: Sequence[Replica],
    judgement: Judgement,
    previous: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any] | None:
    """The newest end of a container that should have run on; resolved once the model serves."""
    before = cast("Mapping[str, Any]", previous.get("lastFailure") or {})
    found = [
        failure
        for replica in replicas
        for container in (*replica.pod.init, replica.pod.runtime)
        if (failure := _failure(model, replica, container))
    ]
    newest = max(found, key=lambda failure: (failure["time"], failure["pod"]), default=None)
    if newest is None or newest["time"] <= str(before.get("time", "")):
        failure = dict(before)
    else:
        failure = newest
    if not failure:
        return None
    serves = judgement.ready.finding.reason is Reason.SERVING
    if serves and "resolvedTime" not in failure:
        failure["resolvedTime"] = timestamp(now)
    return failure


def _failure(
    model: InferenceModel, replica: Replica, container: ContainerObserved
) -> dict[str, Any] | None:
    ended = diagnosis.last_run(container)
    init = container is not replica.pod.runtime
    if ended is None or ended.ended_at is None or (init and ended.exit_code == 0):
        return None
    return {
        "reason": str(diagnosis.ended_reason(container, ended, model.health)),
        "pod": replica.pod.name,
        "container": container.name,
        "exitCode": ended.exit_code,
        "message": diagnosis.log_tail(ended.message),
        "time": timestamp(ended.ended_at),
    }
