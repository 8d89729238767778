"""The properties of each reason, in one table; pure.

Reason --> **TRAITS** --> events, delays of status writes, rollback, Stalled, readiness gates
"""

from collections.abc import Mapping
from enum import Flag, auto

from .conditions import Reason

__all__ = ["TRAITS", "Trait", "has"]


class Trait(Flag):
    """Properties of a reason."""

    NONE = 0

    TRANSIENT = auto()
    """Normal while a model starts: the status shows it, an event would be noise."""

    NORMAL = auto()
    """Its event has the type Normal; the events of other reasons have the type Warning."""

    FAILURE = auto()
    """A rollout fails without waiting for its deadline, because this failure of a ready or broken
    model does not change without an edit. A model that is not found is not among them: the server
    may not have looked yet."""

    STALLED = auto()
    """Lasts until somebody edits the spec or an object that it refers to."""

    ENDED = auto()
    """The outcome of a failed rollout."""

    FINAL = auto()
    """A server's answer that only an edit of the spec or the model can change."""

    UNACCEPTED = auto()
    """Against the spec itself, before any pod of it has run."""

    IDLE = auto()
    """No replica is wanted."""

    ANSWER = auto()
    """Results from a server's answer or its absence."""

    SILENCE = auto()
    """The server does not answer, perhaps only the operator."""

    PROTOCOL = auto()
    """Against the protocol; says nothing about the model yet."""

    CONTRACT = auto()
    """Results from the comparison of the metadata with the contract."""

    SMOKE = auto()
    """Results from a smoke test."""

    AWAITED = auto()
    """No server has answered yet: a known cause takes precedence."""

    UNDECIDED = auto()
    """The replica has neither passed nor failed the enforced check."""


_T = Trait

TRAITS: Mapping[str, Trait] = {
    # Accepted
    Reason.VALID: _T.NONE,
    Reason.INVALID_SPEC: _T.STALLED | _T.UNACCEPTED,
    Reason.INVALID_POD_TEMPLATE: _T.STALLED | _T.UNACCEPTED,
    Reason.UNSUPPORTED_SCHEME: _T.STALLED | _T.UNACCEPTED,
    # Rights are often granted just after the operator starts, so it is not final.
    Reason.READ_FORBIDDEN: _T.UNACCEPTED,
    Reason.RUNTIME_NOT_FOUND: _T.STALLED | _T.UNACCEPTED,
    Reason.RUNTIME_NOT_ALLOWED: _T.STALLED | _T.UNACCEPTED,
    Reason.RUNTIME_AMBIGUOUS: _T.STALLED | _T.UNACCEPTED,
    Reason.NO_RUNTIME_FOR_FORMAT: _T.STALLED | _T.UNACCEPTED,
    Reason.RUNTIME_INVALID: _T.STALLED | _T.UNACCEPTED,
    Reason.SEVERAL_DEFAULTS: _T.STALLED,
    Reason.FORBIDDEN_BY_QUOTA: _T.STALLED,
    Reason.NAME_CONFLICT: _T.STALLED,
    Reason.AWAITING_DELETION: _T.TRANSIENT,
    Reason.APPLY_REFUSED: _T.STALLED,
    Reason.APPLY_FAILED: _T.NONE,
    # WorkloadAvailable
    Reason.MINIMUM_REPLICAS_AVAILABLE: _T.NONE,
    Reason.PENDING: _T.TRANSIENT,
    Reason.UNSCHEDULABLE: _T.NONE,
    Reason.IMAGE_PULL_BACK_OFF: _T.NONE,
    Reason.INVALID_IMAGE_NAME: _T.STALLED | _T.FAILURE,
    Reason.CREATE_CONTAINER_CONFIG_ERROR: _T.NONE,
    Reason.SECRET_NOT_FOUND: _T.NONE,
    Reason.VOLUME_MOUNT_FAILED: _T.NONE,
    Reason.ARTIFACT_DOWNLOAD_FAILED: _T.NONE,
    Reason.CRASH_LOOP_BACK_OFF: _T.NONE,
    Reason.OOM_KILLED: _T.NONE,
    Reason.STARTUP_TIMEOUT: _T.NONE,
    Reason.LIVENESS_FAILING: _T.NONE,
    Reason.POD_NOT_READY: _T.TRANSIENT,
    Reason.SUSPENDED: _T.NORMAL | _T.IDLE,
    Reason.SCALED_TO_ZERO: _T.NORMAL | _T.IDLE,
    # ProtocolMatched
    Reason.PROTOCOL_ANSWERED: _T.NONE,
    Reason.PROTOCOL_MISMATCH: _T.STALLED | _T.FINAL | _T.PROTOCOL | _T.ANSWER,
    Reason.NO_PROTOCOL_ANSWERED: _T.STALLED | _T.FINAL | _T.PROTOCOL | _T.ANSWER,
    Reason.AWAITING_ANSWER: _T.TRANSIENT | _T.AWAITED,
    # ModelReady
    Reason.ALL_REPLICAS_READY: _T.NONE,
    Reason.SERVER_NOT_LIVE: _T.TRANSIENT | _T.ANSWER | _T.SILENCE,
    Reason.SERVER_READY_MODEL_NOT: _T.ANSWER,
    Reason.MODEL_NOT_FOUND: _T.STALLED | _T.FINAL | _T.ANSWER,
    Reason.MODEL_LOADING: _T.TRANSIENT | _T.ANSWER,
    Reason.MODEL_LOAD_FAILED: _T.STALLED | _T.FAILURE | _T.FINAL | _T.ANSWER,
    Reason.VERSION_NOT_SERVED: _T.STALLED | _T.FINAL | _T.ANSWER,
    Reason.PROBE_TIMEOUT: _T.ANSWER | _T.SILENCE,
    # Only the operator may lack the CA, so it does not take a replica out of its Service.
    Reason.CERTIFICATE_NOT_TRUSTED: _T.ANSWER | _T.SILENCE,
    Reason.TLS_MISMATCH: _T.STALLED | _T.FINAL | _T.ANSWER,
    Reason.UNAUTHORIZED: _T.ANSWER,
    # MetadataMatched
    Reason.MATCHED: _T.NONE,
    Reason.INPUT_MISSING: _T.STALLED | _T.FAILURE | _T.CONTRACT,
    Reason.OUTPUT_MISSING: _T.STALLED | _T.FAILURE | _T.CONTRACT,
    Reason.DATATYPE_MISMATCH: _T.STALLED | _T.FAILURE | _T.CONTRACT,
    Reason.SHAPE_MISMATCH: _T.STALLED | _T.FAILURE | _T.CONTRACT,
    Reason.REPLICAS_DISAGREE: _T.CONTRACT | _T.UNDECIDED,
    Reason.METADATA_UNSUPPORTED: _T.CONTRACT,
    Reason.METADATA_UNAUTHORIZED: _T.CONTRACT,
    Reason.AWAITING_METADATA: _T.TRANSIENT | _T.CONTRACT | _T.AWAITED | _T.UNDECIDED,
    # SmokeTestPassed
    Reason.PASSED: _T.SMOKE,
    Reason.OUTPUT_MISMATCH: _T.STALLED | _T.FAILURE | _T.SMOKE,
    Reason.LATENCY_EXCEEDED: _T.STALLED | _T.FAILURE | _T.SMOKE,
    Reason.REQUEST_REJECTED: _T.STALLED | _T.FAILURE | _T.SMOKE,
    Reason.REQUEST_UNAUTHORIZED: _T.SMOKE,
    Reason.RUNNING: _T.TRANSIENT | _T.SMOKE | _T.AWAITED | _T.UNDECIDED,
    # Ready
    Reason.SERVING: _T.NORMAL,
    Reason.SERVING_PREVIOUS_REVISION: _T.NORMAL,
    Reason.OPERATOR_CUT_OFF: _T.NONE,
    Reason.DELETING: _T.NORMAL,
    # UpToDate
    Reason.ROLLOUT_COMPLETE: _T.NONE,
    Reason.ROLLING_OUT: _T.TRANSIENT,
    Reason.PROGRESS_DEADLINE_EXCEEDED: _T.ENDED,
    Reason.ROLLED_BACK: _T.ENDED,
    Reason.ROLLOUT_PAUSED: _T.ENDED,
    Reason.OPERATOR_UPDATE_PENDING: _T.NONE,
    Reason.AWAITING_APPROVAL: _T.NONE,
    Reason.ROLLOUT_ABORTED: _T.ENDED,
    Reason.PAUSED: _T.STALLED | _T.NORMAL,
    # ScalingActive
    Reason.AUTOSCALER_ACTIVE: _T.NONE,
    Reason.AWAITING_AUTOSCALER: _T.NONE,
    Reason.AUTOSCALER_MISSING: _T.NONE,
    Reason.AUTOSCALER_FAILING: _T.NONE,
    # RouteAccepted
    Reason.GATEWAY_ACCEPTED: _T.NORMAL,
    Reason.AWAITING_GATEWAY: _T.NONE,
    Reason.GATEWAY_REFUSED: _T.NONE,
    Reason.GATEWAY_API_MISSING: _T.NONE,
    Reason.INGRESS_READY: _T.NORMAL,
    Reason.AWAITING_INGRESS: _T.NONE,
    # RuntimeUpdatePending
    Reason.RUNTIME_CHANGED: _T.NORMAL,
    # UpdateHeld
    Reason.AWAITING_MODEL: _T.NONE,
}


def has(reason: str, trait: Trait) -> bool:
    """Whether a reason has one of these traits; an unknown reason has none."""
    return bool(TRAITS.get(reason, Trait.NONE) & trait)
