"""`moorage why`: the chain of causes from what a user sees down to what to do; pure.

The conditions are taken in the order of blame, then the replicas that do not serve, the last
failure while it is not mended, and the cluster's own events. Each cause carries the advice of
docs/reference/conditions.md.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from .advice import advice_for
from .model_view import Condition, FailureView, ModelView, ReplicaView
from .report import Report
from .sanitizing import clean, clean_lines
from .tables import Palette, Tone, age

__all__ = ["Cause", "EventView", "causes", "why"]

NO_OPERATOR = (
    "see whether the operator runs and watches this namespace: "
    "kubectl get pods -A -l app.kubernetes.io/name=moorage"
)
EVENT_LIMIT = 10


@dataclass(frozen=True, slots=True)
class EventView:
    """An event of the cluster about the model, its pods or its Deployment."""

    kind: str
    name: str
    type: str
    reason: str
    message: str
    count: int
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of the chain.

    Args:
        where: What says so: a condition, replicas, a container.
        reason: In one word.
        message: In a sentence or in log lines.
        means: What the reason means; empty when it is not in the page.
        do: What to do; empty when there is nothing to do.
    """

    where: str
    reason: str
    message: str
    means: str = ""
    do: str = ""


def causes(model: ModelView) -> list[Cause]:
    """Everything that is against the model, the first cause first; empty when nothing is."""
    if not model.conditions:
        ready = model.ready
        return [Cause("status", ready.reason, ready.message, do=NO_OPERATOR)]
    found: list[Cause] = []
    if not model.is_current:
        sentence = "the operator has not seen the last change of the spec yet"
        found.append(Cause("status", "OfAnEarlierSpec", sentence, do=NO_OPERATOR))
    found += [_of_condition(step) for step in model.steps if not step.holds]
    rollout = model.conditions.get("UpToDate")
    if rollout and not rollout.holds:
        found.append(_of_condition(rollout))
    found += _of_replicas(model.replicas)
    if model.last_failure and not model.last_failure.resolved:
        found.append(_of_failure(model.last_failure))
    return found


def why(model: ModelView, events: Sequence[EventView], now: datetime, palette: Palette) -> Report:
    """The chain of causes with what to do; ok when the model is ready."""
    chain = causes(model)
    shown = _recent(events)
    lines = [_headline(model, palette)]
    for number, cause in enumerate(chain, start=1):
        lines += ["", *_told(number, cause, palette)]
    if not chain:
        lines += ["", "Nothing is against it."]
    if shown:
        lines += ["", palette.paint("Events", Tone.HEAD)]
        lines += [_event_line(event, now) for event in shown]
    document = {
        "namespace": model.namespace,
        "name": model.name,
        "ready": model.is_ready,
        "reason": model.ready.reason,
        "message": model.ready.message,
        "causes": [asdict(cause) for cause in chain],
        "events": [_event_document(event) for event in shown],
    }
    return Report("".join(f"{line}\n" for line in lines), document, model.is_ready, (model.name,))


def _of_condition(condition: Condition) -> Cause:
    return _advised(f"{condition.type} is {condition.status}", condition.reason, condition.message)


def _of_replicas(replicas: Sequence[ReplicaView]) -> list[Cause]:
    """One cause for all replicas that say the same."""
    pods: dict[tuple[str, str], list[str]] = {}
    for replica in replicas:
        if replica.reason:
            pods.setdefault((replica.reason, replica.message), []).append(replica.pod)
    return [
        _advised(f"replica {', '.join(names)}", reason, message)
        for (reason, message), names in pods.items()
    ]


def _of_failure(failure: FailureView) -> Cause:
    code = "" if failure.exit_code is None else f" ended with exit code {failure.exit_code}"
    return _advised(
        f"container {failure.container} of {failure.pod}{code}", failure.reason, failure.message
    )


def _advised(where: str, reason: str, message: str) -> Cause:
    advice = advice_for(reason)
    if advice is None:
        return Cause(where, reason, message)
    return Cause(where, reason, message, advice.means, advice.do)


def _headline(model: ModelView, palette: Palette) -> str:
    ready = model.ready
    if model.is_ready:
        verdict = palette.paint("is ready", Tone.GOOD)
    else:
        verdict = palette.paint("is not ready", Tone.BAD)
    name = f"{model.namespace}/{model.name}" if model.namespace else model.name
    return f"{clean(name)} {verdict}: {clean(ready.reason)}, {clean(ready.message)}"


def _told(number: int, cause: Cause, palette: Palette) -> list[str]:
    lines = [f"{number}. {clean(cause.where)}: {palette.paint(clean(cause.reason), Tone.HEAD)}"]
    lines += [f"     {line}" for line in clean_lines(cause.message)]
    if cause.means:
        lines.append(f"   means: {cause.means}")
    if cause.do:
        lines.append(f"   do:    {palette.paint(cause.do, Tone.UNSURE)}")
    return lines


def _recent(events: Sequence[EventView]) -> list[EventView]:
    """The last events, oldest first; those without a time before all others."""
    dated = sorted(events, key=lambda event: event.last.timestamp() if event.last else 0.0)
    return dated[-EVENT_LIMIT:]


def _event_line(event: EventView, now: datetime) -> str:
    ago = age((now - event.last).total_seconds()) if event.last else "?"
    times = f" ({event.count} times)" if event.count > 1 else ""
    about = clean(f"{event.kind}/{event.name}")
    return f"  {ago:>4} {clean(event.reason)} {about}{times}: {clean(event.message)}"


def _event_document(event: EventView) -> dict[str, Any]:
    return {**asdict(event), "last": event.last.isoformat() if event.last else None}
