"""Builds the status: the conditions, the replicas, and the model's metadata.

Everything is in a fixed order and without polling times, so that an unchanged model is never
written. Times come from the cluster, or are kept from the previous status while the fact that they
date is unchanged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, cast

from moorage_operator.api import conditions, labels
from moorage_operator.api.conditions import (
    ConditionType,
    Finding,
    Reason,
    began,
    timestamp,
    truncated,
)
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, Ports, Protocol, Transport
from moorage_operator.decide.pods import pod_diagnosis, smoke_verdicts
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.resources import endpoints
from moorage_operator.resources.pod_template import canonical_hash
from moorage_operator.values.answers import ModelInfo, ServerInfo, TensorInfo
from moorage_operator.values.objects import ContainerObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import write_revisions
from moorage_operator.values.runtimes import write_runtime_use

from . import protocols
from .conditions import Judgement
from .external_urls import external_urls
from .timings import make_timings

__all__ = ["Served", "make_status"]

# Longer lists are not useful to read and make every write large.
REPLICA_STATUSES_LIMIT = 32
EXTERNAL_LIMIT = 32
TENSORS_LIMIT_BYTES = 64 << 10
METADATA_HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Served:
    """The revision that clients reach now, and the ports of its Service."""

    model: InferenceModel
    revision: str
    ports: Ports


def make_status(  # noqa: PLR0913 -- the inputs of a status
    model: InferenceModel,
    observed: Observed,
    replicas: Sequence[Replica],
    judgement: Judgement,
    *,
    served: Served,
    config: OperatorConfig,
    now: datetime,
) -> dict[str, Any]:
    """Build the whole status, without fields that have no value yet.

    `endpoints`, `model` and `server` describe the revision that serves; the conditions describe
    the spec.
    """
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
        "endpoints": _endpoints(served, observed, replicas, config),
        **_answers(served, replicas, observed.status),
        "replicaStatuses": entries[:REPLICA_STATUSES_LIMIT],
        "omittedReplicas": len(entries[REPLICA_STATUSES_LIMIT:]),
        "conditions": conditions.written(
            judgement.conditions, observed.status, generation=model.generation, now=now
        ),
    }
    if found := external_urls(model, observed, judgement.route):
        bases = [(each.transport, str(each)) for each in found]
        status["url"] = bases[0][1]
        listed = _endpoints(served, observed, replicas, config, bases)
        status["externalEndpoints"] = listed[:EXTERNAL_LIMIT]
    if use := observed.runtime.use:
        is_following = use.is_following and not _is_up_to_date(judgement)
        status["runtime"] = write_runtime_use(replace(use, is_following=is_following))
    timings = make_timings(judgement.revisions.current, replicas, observed.status)
    if timings:
        status["timings"] = timings
    failure = _last_failure(model, replicas, judgement, observed.status, now)
    if failure:
        status["lastFailure"] = failure
    return status


def _is_up_to_date(judgement: Judgement) -> bool:
    found = (each for each in judgement.conditions if each.type is ConditionType.UP_TO_DATE)
    return any(each.status for each in found)


# ------------------------------------------------------------------ endpoints and metadata


def _endpoints(
    served: Served,
    observed: Observed,
    replicas: Sequence[Replica],
    config: OperatorConfig,
    external: Sequence[tuple[Transport, str]] | None = None,
) -> list[dict[str, str]]:
    """Return the URLs of the revision that serves, inside the cluster or at these base URLs."""
    model = served.model
    own = [each for each in replicas if each.pod.revision == served.revision]
    protocol = protocols.protocol_status(
        model, observed, [replace(each, current=True) for each in own]
    )
    if model.runtime.ports != served.ports:
        model = replace(model, runtime=replace(model.runtime, ports=served.ports))
    return endpoints.urls(model, config, protocols.detected(protocol), external)


def _answers(
    served: Served, replicas: Sequence[Replica], previous: Mapping[str, Any]
) -> dict[str, Any]:
    """Render `model`, `versionSummary` and `server` from the first answer, serving ones first.

    Before the first answer after a restart of the operator, the previous values are kept as long
    as a replica serves that model. With protocol None nothing is known of the model, so there are
    none.
    """
    model = served.model
    if model.protocol is Protocol.NONE:
        return {}
    results = [
        replica.result
        for replica in sorted(replicas, key=lambda replica: not replica.serving)
        if replica.result and replica.pod.revision == served.revision
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
    """Return the previous status if it is still valid for a replica, otherwise {}.

    That is the case for a replica that serves, and for one whose container is unchanged and was
    not polled again.
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


def _model_status(model: InferenceModel, info: ModelInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "platform": info.platform,
        "versions": sorted(info.versions, key=lambda version: (len(version), version)),
        "inputs": [_tensor_status(tensor) for tensor in info.inputs],
        "outputs": [_tensor_status(tensor) for tensor in info.outputs],
    }
    if info.context_length is not None:
        fields["contextLength"] = info.context_length
    digest = canonical_hash(fields)[:METADATA_HASH_LENGTH]
    for side in ("inputs", "outputs"):
        fields[side] = _fitting(fields[side])
    return {"name": model.model.name, **fields, "metadataHash": digest}


def _fitting(tensors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first tensors whose text fits into a status; servers choose its length."""
    ends = accumulate(len(json.dumps(each)) for each in tensors)
    return [each for each, end in zip(tensors, ends, strict=True) if end <= TENSORS_LIMIT_BYTES]


def _tensor_status(tensor: TensorInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype}
    return fields if tensor.shape is None else {**fields, "shape": list(tensor.shape)}


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
    """Return one entry per pod: those that do not serve first, then by name."""
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
        **smoke_verdicts.written(replica.trial),
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
    """Return the time since which the replica has been in its state."""
    if replica.serving and replica.pod.ready_since:
        return timestamp(replica.pod.ready_since)
    same = before.get("reason") == (str(finding.reason) if finding else None)
    return began(str(before.get("since") or ""), now) if same else timestamp(now)


# ------------------------------------------------------------------ the last failure


def _last_failure(
    model: InferenceModel,
    replicas: Sequence[Replica],
    judgement: Judgement,
    previous: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any] | None:
    """Return the latest failure of a container; it is resolved once all replicas serve."""
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
    serves = judgement.blamed is None and judgement.ready.finding.reason is Reason.SERVING
    if serves and "resolvedTime" not in failure:
        failure["resolvedTime"] = timestamp(now)
    return failure


def _failure(
    model: InferenceModel, replica: Replica, container: ContainerObserved
) -> dict[str, Any] | None:
    ended = pod_diagnosis.last_run(container)
    init = container is not replica.pod.runtime
    if ended is None or ended.ended_at is None or (init and ended.exit_code == 0):
        return None
    return {
        "reason": str(pod_diagnosis.ended_reason(container, ended, model.health)),
        "pod": replica.pod.name,
        "container": container.name,
        "exitCode": ended.exit_code,
        "message": pod_diagnosis.log_tail(ended.message),
        "time": timestamp(ended.ended_at),
    }
