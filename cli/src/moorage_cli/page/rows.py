"""What the page shows of a model, as JSON; pure.

resource -> ModelView -> row of the wall
                      -> document of one model, with the causes that `moorage why` names
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from moorage_cli.ask.inference.sample import sample_request, sample_tensors
from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.judge.status import progress
from moorage_cli.judge.why import causes
from moorage_cli.printing.sanitizing import clean_document

__all__ = ["details", "key_of", "row"]

# Reasons of models that serve nothing because their owner wants it so.
RESTING = frozenset({"Suspended", "ScaledToZero"})

_STATUS_PARTS = (
    "conditions",
    "replicaStatuses",
    "omittedReplicas",
    "revisions",
    "rollout",
    "timings",
    "endpoints",
    "lastFailure",
    "server",
    "runtime",
)


def key_of(resource: Mapping[str, Any]) -> str:
    """The identity of a model in the page."""
    metadata = resource["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


def row(resource: Mapping[str, Any]) -> dict[str, Any]:
    """One model of the wall."""
    model = view(resource)
    spec = _object(resource.get("spec"))
    return clean_document(
        {
            "namespace": model.namespace,
            "name": model.name,
            "state": _state(model),
            "reason": model.ready.reason,
            "message": model.ready.message,
            "progress": "" if model.is_ready else progress(model),
            "upToDate": _holds(model, "UpToDate"),
            "replicas": model.replica_summary,
            "protocol": model.protocol or model.declared_protocol,
            "version": model.versions,
            "uri": _object(spec.get("model")).get("uri", ""),
            "created": model.created.isoformat() if model.created else "",
        }
    )


def details(resource: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """One model with everything that the page shows of it."""
    model = view(resource)
    status, spec = _object(resource.get("status")), _object(resource.get("spec"))
    tensors = _object(status.get("model"))
    rollout = _object(spec.get("rollout"))
    shown = {
        **row(resource),
        "generation": model.generation,
        "paused": spec.get("paused") is True,
        "strategy": rollout.get("strategy", "RollingUpdate"),
        "causes": [
            {"where": each.where, "reason": each.reason, "message": each.message,
             "means": each.means, "do": each.do, "log": each.log}
            for each in causes(model, now)
        ],
        "inputs": tensors.get("inputs") or [],
        "outputs": tensors.get("outputs") or [],
        "sample": sample_request(sample_tensors(tensors.get("inputs"))),
        **{name: status[name] for name in _STATUS_PARTS if name in status},
    }  # fmt: skip
    return clean_document(shown)


def _state(model: ModelView) -> str:
    """How the wall colours a model: serving, changing, resting, failing or waiting."""
    if model.is_ready:
        return "serving" if _holds(model, "UpToDate") is not False else "changing"
    if model.ready.reason in RESTING:
        return "resting"
    stalled = model.conditions.get("Stalled")
    is_failing = (stalled is not None and stalled.holds) or any(
        each.reason and not each.ready for each in model.replicas
    )
    return "failing" if is_failing else "waiting"


def _holds(model: ModelView, name: str) -> bool | None:
    condition = model.conditions.get(name)
    if condition is None or condition.status == "Unknown":
        return None
    return condition.holds


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
