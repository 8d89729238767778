"""What the page shows of a model, as JSON; pure.

resource -> ModelView -> row of the wall
                      -> document of one model, with the causes that `moorage why` names, and its
                         rollout
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from moorage_cli.ask.inference.sample import sample_request, sample_tensors
from moorage_cli.judge.model_view import Condition, ModelView, view
from moorage_cli.judge.status import progress
from moorage_cli.judge.waiting import FAILED_REASONS
from moorage_cli.judge.why import causes
from moorage_cli.page.rollouts import canary, timeline
from moorage_cli.printing.sanitizing import clean_document

__all__ = ["details", "key_of", "row"]

# Reasons of models that serve nothing because their owner wants it so.
RESTING = frozenset({"Suspended", "ScaledToZero", "Deleting"})
# Reasons of replicas that start as they should.
STARTING = frozenset({"Pending", "AwaitingAnswer", "AwaitingMetadata", "ModelLoading", "Running"})

_STATUS_PARTS = (
    "conditions",
    "replicaStatuses",
    "omittedReplicas",
    "timings",
    "endpoints",
    "url",
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
    state = _state(model)
    # what serves has nothing to explain, in contrast to what is to replace it
    decisive = _up_to_date(model) if state in {"changing", "stuck"} else model.ready
    return clean_document(
        {
            "namespace": model.namespace,
            "name": model.name,
            "state": state,
            "reason": decisive.reason,
            "message": decisive.message,
            "progress": progress(model) if state == "waiting" else "",
            "replicas": model.replica_summary,
            "protocol": model.protocol or model.declared_protocol,
            "version": model.versions,
            "uri": _object(spec.get("model")).get("uri", ""),
            "created": model.created.isoformat() if model.created else "",
        }
    )


def details(
    resource: Mapping[str, Any], kept: Sequence[Mapping[str, Any]], now: datetime
) -> dict[str, Any]:
    """One model with everything that the page shows of it.

    Args:
        resource: The model.
        kept: The objects that keep its earlier revisions.
        now: The current time, aware.
    """
    model = view(resource)
    status, spec = _object(resource.get("status")), _object(resource.get("spec"))
    tensors = _object(status.get("model"))
    rollout = _object(spec.get("rollout"))
    shown = {
        **row(resource),
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
        "revisions": _object(status.get("revisions")),
        "upToDateReason": _up_to_date(model).reason,
        "canary": canary(resource),
        "timeline": timeline(resource, kept),
        **{name: status[name] for name in _STATUS_PARTS if name in status},
    }  # fmt: skip
    return clean_document(shown)


def _state(model: ModelView) -> str:
    """The state of a model on the wall.

    A model that is `changing` or `stuck` serves an earlier spec; `stuck` waits for an edit.
    """
    if model.is_ready:
        latest = _up_to_date(model)
        if latest.status != "False":
            return "serving"
        return "stuck" if latest.reason in FAILED_REASONS else "changing"
    if model.ready.reason in RESTING:
        return "resting"
    stalled = model.conditions.get("Stalled")
    is_failing = (stalled is not None and stalled.holds) or any(
        each.reason not in STARTING | {""} and not each.ready for each in model.replicas
    )
    return "failing" if is_failing else "waiting"


def _up_to_date(model: ModelView) -> Condition:
    return model.conditions.get("UpToDate", Condition("UpToDate", "Unknown", "", "", 0, None))


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
