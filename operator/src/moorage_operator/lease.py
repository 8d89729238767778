"""Who leads, decided from a Lease as it is seen: pure.

A holder is judged by this process's own clock: its lease has run out when nothing about it was
seen to change for its duration. So the clocks of two machines need not agree. Source:
coordination.k8s.io/v1 Lease; the protocol of Kubernetes' own controllers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = [
    "DURATION_SECONDS",
    "RENEW_SECONDS",
    "WRITE_SECONDS",
    "Seen",
    "released",
    "see",
    "taken",
]

DURATION_SECONDS = 15
"""Others wait so long after the last renewal before they take over."""

WRITE_SECONDS = 10.0
"""The holder writes for so long after its last renewal; less, so that two never write at once."""

RENEW_SECONDS = 2.0
"""Time between renewals, and between looks of those who wait."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A Lease as last read: its resourceVersion, its spec, and when it was seen to change."""

    version: str
    spec: Mapping[str, Any]
    changed_at: float

    @property
    def holder(self) -> str:
        """Who holds it, "" for nobody."""
        return str(self.spec.get("holderIdentity") or "")

    def is_free(self, identity: str, at: float) -> bool:
        """Whether this identity may take it at this moment of its own monotonic clock."""
        duration = float(self.spec.get("leaseDurationSeconds") or DURATION_SECONDS)
        return self.holder in ("", identity) or at - self.changed_at > duration


def see(lease: Mapping[str, Any], before: Seen | None, at: float) -> Seen:
    """A Lease that was read at this moment; when it changed counts from the first sight."""
    version = str(lease["metadata"].get("resourceVersion", ""))
    if before is not None and before.version == version:
        return before
    return Seen(version, lease.get("spec") or {}, at)


def taken(seen: Seen | None, identity: str, now: datetime) -> dict[str, Any]:
    """The spec with which the identity takes or renews the lease."""
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
    """The spec that lets the next one lead at once."""
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": _micro_time(now),
        "leaseTransitions": int(seen.spec.get("leaseTransitions") or 0),
    }


def _micro_time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
