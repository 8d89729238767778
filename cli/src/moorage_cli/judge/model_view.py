"""Parses InferenceModels and InferenceRuntimes from the API into frozen values; pure.

Every command reads resources through this module. The status contains text of model servers, and
a CRD of another version may have other fields. A field of an unexpected type counts as absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

__all__ = [
    "RUNTIME_UPDATE_PENDING",
    "CanaryView",
    "Condition",
    "FailureView",
    "ModelView",
    "ReplicaView",
    "RolloutView",
    "RuntimeView",
    "StepView",
    "moment",
    "runtime_view",
    "view",
]

# The order of blame: Ready has the reason of the first condition that is not true.
STEPS = (
    "Accepted",
    "WorkloadAvailable",
    "ProtocolMatched",
    "ModelReady",
    "MetadataMatched",
    "SmokeTestPassed",
)
# Phases of status.timings, in their order.
PHASES = ("scheduled", "artifact", "started", "modelReady", "total")
NOT_SEEN = "NotSeenYet"
# Defaults of the operator for spec.health.
PERIOD_SECONDS = 5
FAILURE_THRESHOLD = 3
RUNTIME_UPDATE_PENDING = "RuntimeUpdatePending"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `status` is True, False or Unknown, as text."""

    type: str
    status: str
    reason: str
    message: str
    generation: int
    since: datetime | None

    @property
    def holds(self) -> bool:
        """Whether the condition is true."""
        return self.status == "True"


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One pod of `status.replicaStatuses`; the reason is empty if it serves."""

    pod: str
    revision: str
    ready: bool
    model_ready: bool
    restarts: int
    reason: str
    message: str
    since: datetime | None = None

    @property
    def serves(self) -> bool:
        """Whether it gets requests and its model is ready."""
        return self.ready and self.model_ready


@dataclass(frozen=True, slots=True)
class CanaryView:
    """`status.revisions.canary`; step 0 is before the first one, and one more than all after."""

    revision: str
    step: int
    weight: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class StepView:
    """A step of a canary; without a pause in seconds, it lasts until it is approved."""

    weight: int
    pause_seconds: int | None


@dataclass(frozen=True, slots=True)
class RolloutView:
    """`spec.rollout`, `status.revisions` and `status.timings`; the revisions are names.

    Those in `unproven` were given up or replaced before they served. `phases` are the milliseconds
    of each phase until the first replica of `timed` served.
    """

    strategy: str
    steps: tuple[StepView, ...]
    current: str
    candidate: str
    last_good: str
    rejected: str
    retiring: str
    unproven: frozenset[str]
    canary: CanaryView | None
    timed: str
    phases: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FailureView:
    """`status.lastFailure`: the last unexpected exit of a container."""

    reason: str
    pod: str
    container: str
    exit_code: int | None
    message: str
    time: datetime | None
    resolved: bool


@dataclass(frozen=True, slots=True)
class ModelView:
    """An InferenceModel, with its conditions by type; `runtime` is that of an InferenceRuntime.

    `tls_secret` and `token_secret` are names of Secrets, empty for plaintext and for no token.
    `server_name` is the host name that the certificate must have. `patience_seconds` is how long a
    failure has to last before the operator gives up a revision for it.
    """

    namespace: str
    name: str
    generation: int
    observed_generation: int
    created: datetime | None
    replica_summary: str
    served_name: str
    versions: str
    declared_protocol: str
    protocol: str
    url: str
    urls: tuple[str, ...]
    external_url: str
    selector: str
    last_good: str
    runtime: str
    tls_secret: str
    server_name: str
    token_secret: str
    conditions: Mapping[str, Condition]
    rollout: RolloutView
    replicas: tuple[ReplicaView, ...]
    omitted_replicas: int
    last_failure: FailureView | None
    patience_seconds: int

    @property
    def is_current(self) -> bool:
        """Whether the status describes the current spec."""
        return self.observed_generation >= self.generation

    @property
    def ready(self) -> Condition:
        """The condition Ready, or a substitute until the operator has written a status."""
        unseen = "the operator has not written a status yet"
        absent = Condition("Ready", "Unknown", NOT_SEEN, unseen, 0, None)
        return self.conditions.get("Ready", absent)

    @property
    def is_ready(self) -> bool:
        """Whether the model serves, according to a status of the current spec."""
        return self.is_current and self.ready.holds

    @property
    def lags(self) -> bool:
        """Whether its runtime has a newer content than the model runs with."""
        pending = self.conditions.get(RUNTIME_UPDATE_PENDING)
        return pending is not None and pending.holds

    @property
    def steps(self) -> tuple[Condition, ...]:
        """The conditions that lead to Ready, in the order of blame."""
        return tuple(self.conditions[name] for name in STEPS if name in self.conditions)


@dataclass(frozen=True, slots=True)
class RuntimeView:
    """An InferenceRuntime; the counts are those of its status.

    `problem` is the reason and the message of a condition that needs attention: the runtime is not
    accepted, or a model holds its update. It is empty without one.
    """

    name: str
    is_default: bool
    image: str
    protocol: str
    formats: tuple[str, ...]
    update_policy: str
    models: int
    outdated_models: int
    problem: str


def runtime_view(resource: Mapping[str, Any]) -> RuntimeView:
    """Parse an InferenceRuntime."""
    spec, status = _object(resource, "spec"), _object(resource, "status")
    conditions = [_condition(item) for item in _objects(status, "conditions")]
    refused = [each for each in conditions if each.type == "Accepted" and not each.holds]
    refused += [each for each in conditions if each.type == "UpdateHeld" and each.holds]
    return RuntimeView(
        name=_text(_object(resource, "metadata"), "name"),
        is_default=spec.get("default") is True,
        image=_text(spec, "image"),
        protocol=_text(spec, "protocol"),
        formats=tuple(_text(item, "name") for item in _objects(spec, "formats")),
        update_policy=_text(spec, "updatePolicy"),
        models=_integer(status, "models"),
        outdated_models=_integer(status, "outdatedModels"),
        problem=f"{refused[0].reason}: {refused[0].message}" if refused else "",
    )


def view(resource: Mapping[str, Any]) -> ModelView:
    """Parse a resource."""
    metadata, spec = _object(resource, "metadata"), _object(resource, "spec")
    status = _object(resource, "status")
    name = _text(metadata, "name")
    conditions = [_condition(item) for item in _objects(status, "conditions")]
    endpoints = _objects(status, "endpoints")
    failure = _object(status, "lastFailure")
    declared = _text(_object(spec, "model"), "name") or name
    if spec.get("protocol") == "None":  # nothing is known of the model
        declared = ""
    return ModelView(
        namespace=_text(metadata, "namespace"),
        name=name,
        generation=_integer(metadata, "generation"),
        observed_generation=_integer(status, "observedGeneration"),
        created=moment(metadata.get("creationTimestamp")),
        replica_summary=_text(status, "replicaSummary"),
        served_name=_text(_object(status, "model"), "name") or declared,
        versions=_text(status, "versionSummary"),
        declared_protocol=_text(_object(status, "protocol"), "declared"),
        protocol=_text(_object(status, "protocol"), "detected"),
        url=_text(endpoints[0], "url") if endpoints else "",
        urls=tuple(dict.fromkeys(_text(endpoint, "url") for endpoint in endpoints)),
        external_url=_text(status, "url"),
        selector=_text(status, "selector"),
        last_good=_text(_object(status, "revisions"), "lastGood"),
        runtime=_text(_object(status, "runtime"), "name"),
        tls_secret=_text(_object(spec, "tls"), "secretName"),
        server_name=_server_name(metadata, spec, endpoints),
        token_secret=_text(_object(spec, "access"), "tokenSecretName"),
        conditions={condition.type: condition for condition in conditions},
        rollout=_rollout(_object(spec, "rollout"), status),
        replicas=tuple(_replica(item) for item in _objects(status, "replicaStatuses")),
        omitted_replicas=_integer(status, "omittedReplicas"),
        last_failure=_failure(failure) if failure else None,
        patience_seconds=_patience_seconds(_object(spec, "health")),
    )


def _patience_seconds(health: Mapping[str, Any]) -> int:
    period = _integer(health, "periodSeconds") or PERIOD_SECONDS
    return period * (_integer(health, "failureThreshold") or FAILURE_THRESHOLD)


def _server_name(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], endpoints: Sequence[Mapping[str, Any]]
) -> str:
    """The name that the operator requires: that in the spec, otherwise NAME.NAMESPACE.svc.

    NAME is the Service, whose name can be a shortened one. The endpoints have it.
    """
    hosts = [_text(each, "url").partition("://")[2] for each in endpoints[:1]]
    service = next((host.partition(".")[0] for host in hosts if host), _text(metadata, "name"))
    default = f"{service}.{_text(metadata, 'namespace')}.svc"
    return _text(_object(spec, "tls"), "serverName") or default


def moment(value: object) -> datetime | None:
    """A time of the API (RFC 3339), or None if it is absent or invalid."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC) if found else None


def _condition(item: Mapping[str, Any]) -> Condition:
    return Condition(
        type=_text(item, "type"),
        status=_text(item, "status"),
        reason=_text(item, "reason"),
        message=_text(item, "message"),
        generation=_integer(item, "observedGeneration"),
        since=moment(item.get("lastTransitionTime")),
    )


def _replica(item: Mapping[str, Any]) -> ReplicaView:
    return ReplicaView(
        pod=_text(item, "pod"),
        revision=_text(item, "revision"),
        ready=item.get("ready") is True,
        model_ready=item.get("modelReady") is True,
        restarts=_integer(item, "restarts"),
        reason=_text(item, "reason"),
        message=_text(item, "message"),
        since=moment(item.get("since")),
    )


def _rollout(spec: Mapping[str, Any], status: Mapping[str, Any]) -> RolloutView:
    known, timings = _object(status, "revisions"), _object(status, "timings")
    canary = _object(known, "canary")
    return RolloutView(
        strategy=_text(spec, "strategy") or "RollingUpdate",
        steps=tuple(
            StepView(_integer(item, "weight"), _number(item.get("pauseSeconds")))
            for item in _objects(_object(spec, "canary"), "steps")
        ),
        current=_text(known, "current"),
        candidate=_text(known, "candidate"),
        last_good=_text(known, "lastGood"),
        rejected=_text(_object(known, "rejected"), "revision"),
        retiring=_text(_object(known, "retiring"), "revision"),
        unproven=frozenset(_texts(known, "unproven")),
        canary=CanaryView(
            revision=_text(canary, "revision"),
            step=_integer(canary, "step"),
            weight=_integer(canary, "weight"),
            since=moment(canary.get("since")),
        )
        if canary
        else None,
        timed=_text(timings, "revision"),
        phases={name: each for name in PHASES if (each := _number(timings.get(name))) is not None},
    )


def _failure(item: Mapping[str, Any]) -> FailureView:
    return FailureView(
        reason=_text(item, "reason"),
        pod=_text(item, "pod"),
        container=_text(item, "container"),
        exit_code=_number(item.get("exitCode")),
        message=_text(item, "message"),
        time=moment(item.get("time")),
        resolved=bool(_text(item, "resolvedTime")),
    )


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _objects(value: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = value.get(name)
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [item for item in listed if isinstance(item, Mapping)]


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _texts(value: Mapping[str, Any], name: str) -> list[str]:
    found = value.get(name)
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [item for item in listed if isinstance(item, str)]


def _integer(value: Mapping[str, Any], name: str) -> int:
    return _number(value.get(name)) or 0


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
