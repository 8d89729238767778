"""The rollout of a model as the page shows it; pure.

resource, ReplicaSets, ControllerRevisions -> the canary with its steps
                                           -> revisions, the newest first, with their outcomes
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from moorage_cli.edit.model import Resource, mapping
from moorage_cli.edit.rollback import kept_specs
from moorage_cli.judge.model_view import view

__all__ = ["canary", "timeline"]


def canary(resource: Mapping[str, Any]) -> dict[str, Any] | None:
    """The share of the revision that is tried out, or None if there is none."""
    model = Resource(resource)
    found = mapping(mapping(model.status.get("revisions")).get("canary"))
    if not found or model.revision("candidate") != found.get("revision"):
        return None
    steps = mapping(model.rollout.get("canary")).get("steps")
    return {
        "revision": found.get("revision"),
        "earlier": model.revision("lastGood"),
        "step": _integer(found.get("step")),
        "weight": _integer(found.get("weight")),
        "since": found.get("since"),
        "steps": [mapping(each) for each in steps] if isinstance(steps, list) else [],
    }


def timeline(
    resource: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The revisions that the status names or the cluster keeps.

    Args:
        resource: The model.
        kept: Its ReplicaSets and ControllerRevisions.
    """
    model = Resource(resource)
    specs = {each.revision: each for each in kept_specs(kept)}
    named = [model.revision(each) for each in ("current", "candidate", "rejected", "lastGood")]
    pods = _pods(resource)
    names = dict.fromkeys([each for each in named if each] + list(specs) + list(pods))
    rows: list[dict[str, Any]] = [
        {
            "revision": name,
            "created": specs[name].created if name in specs else "",
            "isCurrent": name == model.revision("current"),
            "canRestore": name in specs and name != model.revision("current"),
            "pods": pods.get(name, ""),
            **_outcome(resource, model, name),
        }
        for name in names
    ]
    # one without a kept spec is the current one, or has ended long ago
    unknown = [row for row in rows if not row["created"]]
    known = sorted(
        (row for row in rows if row["created"]), key=lambda row: row["created"], reverse=True
    )
    first = [row for row in unknown if row["isCurrent"]]
    return first + known + [row for row in unknown if not row["isCurrent"]]


def _outcome(resource: Mapping[str, Any], model: Resource, name: str) -> dict[str, Any]:
    """What became of a revision: a sentence part, its tone, and the time and detail of it."""
    revisions = mapping(model.status.get("revisions"))
    rejected, retiring = mapping(revisions.get("rejected")), mapping(revisions.get("retiring"))
    if name == model.revision("rejected"):
        is_aborted = rejected.get("reason") == "RolloutAborted"
        outcome = "aborted" if is_aborted else f"failed: {rejected.get('reason', '')}"
        detail = "" if is_aborted else rejected.get("message", "")
        return _row(outcome, "bad", detail, rejected.get("time", ""))
    if name == model.revision("candidate"):
        share = canary(resource)
        weight = f"rolls out: {share['weight']} % of the requests" if share else "rolls out"
        return _row(weight, "busy")
    if name == model.revision("lastGood"):
        serves = view(resource).ready.holds
        return _row("serves", "good") if serves else _row("served last", "dim")
    if name == model.revision("retiring"):
        return _row("retired", "dim", "", retiring.get("time", ""))
    if name in _names(revisions.get("unproven")):
        return _row("never served with all replicas", "dim")
    return _row("current" if name == model.revision("current") else "earlier", "dim")


def _names(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _row(outcome: str, tone: str, detail: object = "", time: object = "") -> dict[str, Any]:
    return {"outcome": outcome, "tone": tone, "detail": detail, "time": time}


def _pods(resource: Mapping[str, Any]) -> dict[str, str]:
    """The replicas of each revision, such as `1/2 serve`."""
    counts: dict[str, list[bool]] = {}
    for each in view(resource).replicas:
        counts.setdefault(each.revision, []).append(each.ready and each.model_ready)
    return {name: f"{sum(serve)}/{len(serve)} serve" for name, serve in counts.items() if name}


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0
