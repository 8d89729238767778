"""The recorded revisions of a model in `status.revisions`; pure.

status.revisions --> Revisions --> decide.rollout --> Revisions --> status.revisions
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

from moorage_operator.api.conditions import readable
from moorage_operator.api.written_spec import version_of

__all__ = [
    "CanaryProgress",
    "Rejection",
    "Retirement",
    "Revisions",
    "read_revisions",
    "write_revisions",
]


UNPROVEN_LIMIT = 10
"""The number of remembered revisions. Kubernetes keeps fewer ReplicaSets to return to."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A revision that was given up, with the reason.

    `time` is a Kubernetes timestamp.
    """

    revision: str
    reason: str
    message: str
    time: str


@dataclass(frozen=True, slots=True)
class Retirement:
    """A revision that no longer serves and is kept for a while.

    `time` is when the Service or route had been changed; empty before.
    """

    revision: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class CanaryProgress:
    """The progress of a canary.

    Attributes:
        revision: The revision.
        step: The number of its step, from 1; 0 before its first request, and one more than the
            last step if it gets all requests.
        weight: Its share of the requests in percent.
        since: When the gateway accepted that share; empty before.
    """

    revision: str
    step: int = 0
    weight: int = 0
    since: str = ""


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions that are recorded between reconciles; "" for missing ones.

    Attributes:
        current: The spec's revision.
        spec_hash: The hash of the spec of `current`, with the version of its format.
        last_good: The revision that last served with all wanted replicas.
        rejected: The current revision if it has failed.
        retiring: A revision with its own Deployment that no longer gets requests.
        canary: The progress of the revision that shares requests with the last good one.
        unproven: Earlier revisions that were given up or replaced before they served with all
            wanted replicas, the last one first.
    """

    current: str = ""
    spec_hash: str = ""
    last_good: str = ""
    rejected: Rejection | None = None
    retiring: Retirement | None = None
    canary: CanaryProgress | None = None
    unproven: tuple[str, ...] = ()

    def of(self, wanted: str, *, is_described: bool) -> "Revisions":
        """Reset what depends on the spec if it has changed.

        Hashes of different formats cannot be compared. In that case the generation decides whether
        the spec has changed since the status was written, so a new format starts no rollout.

        Args:
            wanted: The hash of the spec.
            is_described: Whether the status describes this generation of the spec.
        """
        if self.spec_hash == wanted:
            return self
        if is_described and self.spec_hash and version_of(self.spec_hash) != version_of(wanted):
            return replace(self, spec_hash=wanted)
        left = () if self.current in {"", self.last_good} else (self.current,)
        others = (each for each in self.unproven if each != self.current)
        unproven = (*left, *others)[:UNPROVEN_LIMIT] if left else self.unproven
        return replace(self, current="", spec_hash=wanted, rejected=None, unproven=unproven)

    def proven(self, revision: str) -> "Revisions":
        """Record a revision that serves with all wanted replicas."""
        unproven = tuple(each for each in self.unproven if each != revision)
        return replace(self, last_good=revision, unproven=unproven)


def read_revisions(status: Mapping[str, Any]) -> Revisions:
    """Read the recorded revisions from a status."""
    found = cast("Mapping[str, Any]", status.get("revisions") or {})
    rejected, retiring = found.get("rejected"), found.get("retiring")
    canary = cast("Mapping[str, Any]", found.get("canary") or {})
    return Revisions(
        current=str(found.get("current", "")),
        spec_hash=str(found.get("specHash", "")),
        last_good=str(found.get("lastGood", "")),
        rejected=Rejection(**_texts(Rejection, rejected)) if rejected else None,
        retiring=_read_retirement(retiring) if retiring else None,
        canary=_read_canary(canary) if canary else None,
        unproven=tuple(map(str, cast("list[Any]", found.get("unproven") or ()))),
    )


def _read_retirement(found: Mapping[str, Any]) -> Retirement:
    return Retirement(str(found.get("revision", "")), readable(str(found.get("time", ""))))


def _read_canary(found: Mapping[str, Any]) -> CanaryProgress:
    return CanaryProgress(
        revision=str(found.get("revision", "")),
        step=max(int(found.get("step", 0)), 0),  # somebody may have edited the status
        weight=int(found.get("weight", 0)),
        since=readable(str(found.get("since", ""))),
    )


def _texts(kind: type, found: Mapping[str, Any]) -> dict[str, str]:
    """Read the fields of a class whose fields are all strings."""
    return {each.name: str(found.get(each.name, "")) for each in fields(kind)}


def write_revisions(revisions: Revisions) -> dict[str, Any]:
    """Render the revisions for the status, without empty fields."""
    rejected = revisions.rejected
    tried = revisions.current != revisions.last_good and rejected is None
    entries: dict[str, Any] = {
        "current": revisions.current,
        "specHash": revisions.spec_hash,
        "candidate": revisions.current if tried else "",
        "lastGood": revisions.last_good,
        "rejected": asdict(rejected) if rejected else "",
        "retiring": _written(revisions.retiring) if revisions.retiring else "",
        "canary": _written(revisions.canary) if revisions.canary else "",
        "unproven": list(revisions.unproven),
    }
    return {name: value for name, value in entries.items() if value}


def _written(part: CanaryProgress | Retirement) -> dict[str, Any]:
    # An empty string is not a valid date-time.
    return {name: value for name, value in asdict(part).items() if value != ""}
