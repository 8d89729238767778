"""Condition types, reasons, and the form of a condition in the status.

docs/reference/conditions.md lists the same reasons; `tests/contract` compares the two. This module
decides nothing. It only keeps the transition time of a condition whose status has not changed.
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
    "began",
    "find_condition",
    "readable",
    "timestamp",
    "truncated",
    "written",
]

# The API allows 32768 characters; that is too long for a table cell or a log line.
MESSAGE_LIMIT = 1024

# A pause that begins in the year 9999 could end after the last one that Python knows.
LATEST_YEAR = 9000


class ConditionType(StrEnum):
    """Condition types in the order of the status; the first that is not true explains Ready."""

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
    RUNTIME_UPDATE_PENDING = "RuntimeUpdatePending"
    PAUSED = "Paused"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    UPDATE_HELD = "UpdateHeld"  # only of an InferenceRuntime


class Reason(StrEnum):
    """Reasons of conditions."""

    # Accepted
    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"
    INVALID_POD_TEMPLATE = "InvalidPodTemplate"
    UNSUPPORTED_SCHEME = "UnsupportedScheme"
    FORBIDDEN_BY_QUOTA = "ForbiddenByQuota"
    NAME_CONFLICT = "NameConflict"
    READ_FORBIDDEN = "ReadForbidden"
    RUNTIME_NOT_FOUND = "RuntimeNotFound"
    RUNTIME_NOT_ALLOWED = "RuntimeNotAllowed"
    RUNTIME_AMBIGUOUS = "RuntimeAmbiguous"
    NO_RUNTIME_FOR_FORMAT = "NoRuntimeForFormat"
    RUNTIME_INVALID = "RuntimeInvalid"
    SEVERAL_DEFAULTS = "SeveralDefaults"
    AWAITING_DELETION = "AwaitingDeletion"
    APPLY_REFUSED = "ApplyRefused"
    APPLY_FAILED = "ApplyFailed"
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
    CERTIFICATE_NOT_TRUSTED = "CertificateNotTrusted"
    TLS_MISMATCH = "TLSMismatch"
    UNAUTHORIZED = "Unauthorized"
    # MetadataMatched
    MATCHED = "Matched"
    INPUT_MISSING = "InputMissing"
    OUTPUT_MISSING = "OutputMissing"
    DATATYPE_MISMATCH = "DatatypeMismatch"
    SHAPE_MISMATCH = "ShapeMismatch"
    REPLICAS_DISAGREE = "ReplicasDisagree"
    METADATA_UNSUPPORTED = "MetadataUnsupported"
    METADATA_UNAUTHORIZED = "MetadataUnauthorized"
    AWAITING_METADATA = "AwaitingMetadata"
    # SmokeTestPassed
    PASSED = "Passed"
    OUTPUT_MISMATCH = "OutputMismatch"
    LATENCY_EXCEEDED = "LatencyExceeded"
    REQUEST_REJECTED = "RequestRejected"
    REQUEST_UNAUTHORIZED = "RequestUnauthorized"
    RUNNING = "Running"
    # Ready
    SERVING = "Serving"
    SERVING_PREVIOUS_REVISION = "ServingPreviousRevision"
    OPERATOR_CUT_OFF = "OperatorCutOff"
    DELETING = "Deleting"
    # UpToDate
    ROLLOUT_COMPLETE = "RolloutComplete"
    ROLLING_OUT = "RollingOut"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    ROLLED_BACK = "RolledBack"
    ROLLOUT_PAUSED = "RolloutPaused"
    OPERATOR_UPDATE_PENDING = "OperatorUpdatePending"
    AWAITING_APPROVAL = "AwaitingApproval"
    ROLLOUT_ABORTED = "RolloutAborted"
    PAUSED = "Paused"
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
    INGRESS_READY = "IngressReady"
    AWAITING_INGRESS = "AwaitingIngress"
    # RuntimeUpdatePending
    RUNTIME_CHANGED = "RuntimeChanged"
    # UpdateHeld
    AWAITING_MODEL = "AwaitingModel"


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason and its message, produced by the same function."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition; a `status` of None means Unknown."""

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
    """Render the conditions for the status.

    As metav1.Condition requires, `lastTransitionTime` changes only with the condition's status:
    it comes from the `previous` status if only the reason or message changed.
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
    """Return the condition of a type from a status, {} if it is absent."""
    conditions = cast("Iterable[Mapping[str, Any]]", status.get("conditions") or ())
    return next((item for item in conditions if item.get("type") == type_), {})


def timestamp(moment: datetime) -> str:
    """Format a time as Kubernetes does: UTC, whole seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"


def began(recorded: str, now: datetime) -> str:
    """Return when a state began: as recorded, or now without a record or with one in the future.

    A clock that was ahead wrote a time in the future. Counted from there, a pause or a grace
    period would last too long.
    """
    known = readable(recorded)
    return known if known and datetime.fromisoformat(known) <= now else timestamp(now)


def readable(recorded: str) -> str:
    """Return a time of the status unchanged; "" if it is empty or nothing can be counted from it.

    Whoever may edit the status can write any time that the CRD accepts, such as one in the year 0.
    """
    try:
        found = datetime.fromisoformat(recorded)
    except ValueError:
        return ""
    return recorded if found.tzinfo and found.year <= LATEST_YEAR else ""


def truncated(message: str) -> str:
    """Shorten a message to at most 1024 characters, keeping its head and tail."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = (MESSAGE_LIMIT - 5) // 2
    return f"{message[:half]} ... {message[-half:]}"
