"""Decides from a Lease who the leader is; pure.

Only the clock of this process counts: a lease has expired if it did not change for its duration.
So the clocks of two machines need not agree. Source: coordination.k8s.io/v1 Lease; the protocol of
the controllers of Kubernetes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "CALL_SECONDS",
    "DURATION_SECONDS",
    "RENEW_SECONDS",
    "WRITE_SECONDS",
    "Seen",
    "released",
    "see",
    "taken",
]

DURATION_SECONDS = 15
"""How long after the last renewal other processes wait before they take over."""

WRITE_SECONDS = 10.0
"""How long after its last renewal the holder may write; less than DURATION_SECONDS, so that two
processes never write at the same time."""

CALL_SECONDS = 3.0
"""The deadline of a request for the Lease, so that a lost one can be repeated within
WRITE_SECONDS."""

RENEW_SECONDS = 2.0
"""The interval of renewals, and of attempts to acquire the lease."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A Lease as last read, and the time when a change was first seen."""

    version: str
    spec: Mapping[str, Any]
    changed_at: float

    @property
    def holder(self) -> str:
        """The holder, "" if there is none."""
        return str(self.spec.get("holderIdentity") or "")

    def is_free(self, identity: str, at: float) -> bool:
        """Whether this identity may acquire the lease at a time of its monotonic clock."""
        duration = float(self.spec.get("leaseDurationSeconds") or DURATION_SECONDS)
        return self.holder in ("", identity) or at - self.changed_at > duration


def see(lease: Mapping[str, Any], before: Seen | None, at: float) -> Seen:
    """Record a Lease that was read at this time."""
    version = str(lease["metadata"]["resourceVersion"])
    if before is not None and before.version == version:
        return before
    return Seen(version, lease.get("spec") or {}, at)


def taken(seen: Seen | None, identity: str, now: datetime) -> dict[str, Any]:
    """Return the spec with which the identity acquires or renews the lease."""
    before = seen.spec if seen else {}
    renewed: dict[str, Any] = {
        "holderIdentity": identity,
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": _micro_time(now),
    }
    if seen is not None and seen.holder == identity:
        kept = {
            name: before[name] for name in ("acquireTime", "leaseTransitions") if name in before
        }
        return {**renewed, **kept}
    transitions = int(before.get("leaseTransitions") or 0) + (1 if seen else 0)
    return {**renewed, "acquireTime": _micro_time(now), "leaseTransitions": transitions}


def released(seen: Seen, now: datetime) -> dict[str, Any]:
    """Return the spec of a released lease."""
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": _micro_time(now),
        "leaseTransitions": int(seen.spec.get("leaseTransitions") or 0),
    }


def _micro_time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
