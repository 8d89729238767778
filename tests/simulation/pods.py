"""Facts about pods that several simulated controllers share; pure."""

from simulation.clock import timestamp
from simulation.stored import Key, Object

KUBERNETES = "kubernetes"
"""The field manager of controllers and kubelets."""


def is_ready(pod: Object) -> bool:
    """Whether the pod is Ready and not terminating."""
    return "deletionTimestamp" not in pod["metadata"] and _condition(pod, "Ready") == "True"


def is_over(pod: Object) -> bool:
    """Whether the pod has failed for good."""
    return bool(pod["status"].get("phase") == "Failed")


def key_of(body: Object) -> Key:
    """Return the namespace and name."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


def make_condition(type_: str, verdict: bool, reason: str, at: float, message: str = "") -> Object:
    """Make a condition with its last transition time."""
    return {
        "type": type_,
        "status": str(verdict),
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(at),
        "lastUpdateTime": timestamp(at),
    }


def _condition(body: Object, type_: str) -> str:
    for each in (body.get("status") or {}).get("conditions") or []:
        if each["type"] == type_:
            return str(each["status"])
    return ""
