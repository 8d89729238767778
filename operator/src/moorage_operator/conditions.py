"""The vocabulary of the status: condition types, reasons, and how a condition is written.

Every reason stands here and in docs/reference/conditions.md; `tests/contract` compares them. The
modules above decide; this one only keeps a transition time while a condition's status stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, cast

__all__ = [
    "Condition",
    "ConditionType",
    "Finding",
    "Reason",
    "find_condition",
    "timestamp",
    "truncated",
    "written",
]

# The API allows 32768 characters; a table's cell and a log line want far fewer.
MESSAGE_LIMIT = 1024


class ConditionType(StrEnum):
    """Condition types, in the order in which they are blamed and written."""

    ACCEPTED = "Accepted"
    WORKLOAD_AVAILABLE = "WorkloadAvailable"
    PROTOCOL_MATCHED = "ProtocolMatched"
    MODEL_READY = "ModelReady"
    METADATA_MATCHED = "MetadataMatched"
    SMOKE_TEST_PASSED = "SmokeTestPassed"
    READY = "Ready"
    UP_TO_DATE = "UpToDate"
    SCALING_ACTIVE = "ScalingActive"
    ROUTE_ACCEPTED = "RouteAccepted"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Reason(StrEnum):
    """Why a condition has its status."""

    # Accepted
    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    INVALID_POD_TEMPLATE = "InvalidPodTemplate"
    UNSUPPORTED_SCHEME = "UnsupportedScheme"
    FORBIDDEN_BY_QUOTA = "ForbiddenByQuota"
    NAME_CONFLICT = "NameConflict"
    APPLY_REFUSED = "ApplyRefused"
    # WorkloadAvailable
    MINIMUM_REPLICAS_AVAILABLE = "MinimumReplicasAvailable"
    PENDING = "Pending"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    INVALID_IMAGE_NAME = "InvalidImageName"
    CREATE_CONTAINER_CONFIG_ERROR = "CreateContainerConfigError"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  a reason, not a password
    VOLUME_MOUNT_FAILED = "VolumeMountFailed"
    ARTIFACT_DOWNLOAD_FAILED = "ArtifactDownloadFailed"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    OOM_KILLED = "OOMKilled"
    STARTUP_TIMEOUT = "StartupTimeout"
    LIVENESS_FAILING = "LivenessFailing"
    POD_NOT_READY = "PodNotReady"
    SUSPENDED = "Suspended"
    SCALED_TO_ZERO = "ScaledToZero"
    # ProtocolMatched
    PROTOCOL_ANSWERED = "ProtocolAnswered"
    PROTOCOL_MISMATCH = "ProtocolMismatch"
    NO_PROTOCOL_ANSWERED = "NoProtocolAnswered"
    AWAITING_ANSWER = "AwaitingAnswer"
    # ModelReady
    ALL_REPLICAS_READY = "AllReplicasReady"
    SERVER_NOT_LIVE = "ServerNotLive"
    SERVER_READY_MODEL_NOT = "ServerReadyModelNot"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_LOADING = "ModelLoading"
    MODEL_LOAD_FAILED = "ModelLoadFailed"
    VERSION_NOT_SERVED = "VersionNotServed"
    PROBE_TIMEOUT = "ProbeTimeout"
    # MetadataMatched
    MATCHED = "Matched"
    INPUT_MISSING = "InputMissing"
    OUTPUT_MISSING = "OutputMissing"
    DATATYPE_MISMATCH = "DatatypeMismatch"
    SHAPE_MISMATCH = "ShapeMismatch"
    REPLICAS_DISAGREE = "ReplicasDisagree"
    METADATA_UNSUPPORTED = "MetadataUnsupported"
    AWAITING_METADATA = "AwaitingMetadata"
    # SmokeTestPassed
    PASSED = "Passed"
    OUTPUT_MISMATCH = "OutputMismatch"
    LATENCY_EXCEEDED = "LatencyExceeded"
    REQUEST_REJECTED = "RequestRejected"
    RUNNING = "Running"
    # Ready
    SERVING = "Serving"
    SERVING_PREVIOUS_REVISION = "ServingPreviousRevision"
    # UpToDate
    ROLLOUT_COMPLETE = "RolloutComplete"
    ROLLING_OUT = "RollingOut"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    ROLLED_BACK = "RolledBack"
    ROLLOUT_PAUSED = "RolloutPaused"
    OPERATOR_UPDATE_PENDING = "OperatorUpdatePending"
    AWAITING_APPROVAL = "AwaitingApproval"
    # ScalingActive
    AUTOSCALER_ACTIVE = "AutoscalerActive"
    AWAITING_AUTOSCALER = "AwaitingAutoscaler"
    AUTOSCALER_MISSING = "AutoscalerMissing"
    AUTOSCALER_FAILING = "AutoscalerFailing"
    # RouteAccepted
    GATEWAY_ACCEPTED = "GatewayAccepted"
    AWAITING_GATEWAY = "AwaitingGateway"
    GATEWAY_REFUSED = "GatewayRefused"
    GATEWAY_API_MISSING = "GatewayAPIMissing"


@dataclass(frozen=True, slots=True)
class Finding:
    """A decided fact: its reason and its sentence come from the same function."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as decided; `status` None is Unknown."""

    type: ConditionType
    status: bool | None
    finding: Finding


def written(
    conditions: Sequence[Condition],
    previous: Mapping[str, Any],
    *,
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """The conditions as the status has them.

    `lastTransitionTime` is that of the `previous` status while the condition's status is the same,
    as metav1.Condition says; reason and message may change without it.
    """
    result: list[dict[str, Any]] = []
    moment = timestamp(now)
    for condition in conditions:
        status = {True: "True", False: "False", None: "Unknown"}[condition.status]
        before = find_condition(previous, condition.type)
        kept = before.get("lastTransitionTime") if before.get("status") == status else None
        result.append(
            {
                "type": str(condition.type),
                "status": status,
                "reason": str(condition.finding.reason),
                "message": truncated(condition.finding.message),
                "observedGeneration": generation,
                "lastTransitionTime": kept or moment,
            }
        )
    return result


def find_condition(status: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of a type in a status, {} where it is not there."""
    conditions = cast("Iterable[Mapping[str, Any]]", status.get("conditions") or ())
    return next((item for item in conditions if item.get("type") == type_), {})


def timestamp(moment: datetime) -> str:
    """The moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"


def truncated(message: str) -> str:
    """The message in at most 1024 characters; of a longer one head and tail, where the news is."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = (MESSAGE_LIMIT - 5) // 2
    return f"{message[:half]} ... {message[-half:]}"
