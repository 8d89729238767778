"""`moorage why`: the root cause of a model that does not serve, and the fix; pure.

The root cause is the first condition in the order of blame that is not true. One that only awaits
an answer is passed over if another one is not true either. Later conditions depend on the root
cause, so they are left out. Replicas and the last failure with the same reason add their pods and
log lines to it; other reasons are causes of their own. The fixes come from
docs/reference/conditions.md.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from moorage_cli.judge.advice import advice_for
from moorage_cli.judge.model_view import (
    RUNTIME_UPDATE_PENDING,
    Condition,
    FailureView,
    ModelView,
)
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_lines
from moorage_cli.printing.tables import Palette, Tone, age

__all__ = ["AWAITED_REASONS", "Cause", "EventView", "causes", "why"]

AWAITED_REASONS = frozenset({"AwaitingAnswer", "AwaitingMetadata", "Running"})
"""Reasons of conditions that say only that an answer is missing; another one may say why."""

NO_OPERATOR = (
    "if this lasts longer than a few seconds, check that the operator runs and watches this "
    "namespace: "
    "kubectl get pods -A -l app.kubernetes.io/part-of=moorage"
)
EVENT_LIMIT = 10
_EARLIEST = datetime.min.replace(tzinfo=UTC)
PLACEHOLDER = re.compile(r"\bNAME\b")
# A state that has lasted longer does not resolve by waiting.
PATIENCE_SECONDS = 600
# Conditions that are worth a note while they are true, also of a model that serves.
TOLD_WHILE_TRUE = ("Paused", RUNTIME_UPDATE_PENDING)
# Conditions that are worth a note while they are not true, although Ready does not depend on them.
TOLD_UNLESS_TRUE = ("RouteAccepted", "ScalingActive")
# UpToDate with these reasons only says that the rollout waits for the root cause.
CONSEQUENCES = frozenset({"RollingOut", "OperatorUpdatePending"})


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
    """One independent cause.

    Args:
        where: Where it was observed: a condition, replicas, or a container.
        reason: The reason, in one word.
        message: The message, or the log lines of a container.
        means: What the reason means; empty for an unknown reason.
        do: The fix; empty if no action is required.
        log: The last log lines of the container that failed with this reason.
    """

    where: str
    reason: str
    message: str
    means: str = ""
    do: str = ""
    log: str = ""


def causes(model: ModelView, now: datetime) -> list[Cause]:
    """The independent causes, with the root cause first; empty if there are none."""
    if not model.conditions:
        ready = model.ready
        return [Cause("status", ready.reason, ready.message, do=NO_OPERATOR)]
    if not model.is_current:
        message = (
            f"the operator has not processed generation {model.generation} of the spec yet; the "
            f"status describes generation {model.observed_generation}"
        )
        return [Cause("status", "OfAnEarlierSpec", message, do=NO_OPERATOR)]
    found: list[Cause] = []
    unmet = [step for step in model.steps if not step.holds]
    explained = [step for step in unmet if step.reason not in AWAITED_REASONS]
    root = next(iter(explained or unmet), None)
    if root:
        found.append(_of_condition(root, model, now))
    rollout = model.conditions.get("UpToDate")
    if rollout and not rollout.holds and not (found and rollout.reason in CONSEQUENCES):
        found.append(_of_condition(rollout, model, now))
    notes = [
        each for name in TOLD_WHILE_TRUE if (each := model.conditions.get(name)) and each.holds
    ]
    notes += [
        each
        for name in TOLD_UNLESS_TRUE
        if (each := model.conditions.get(name)) and not each.holds
    ]
    for note in notes:
        if not any(cause.reason == note.reason for cause in found):
            found.append(_of_condition(note, model, now))
    known = {cause.reason for cause in found}
    found += [
        _advised(_where(pods), reason, message, model.name)
        for (reason, message), pods in _failing_replicas(model).items()
        if reason not in known
    ]
    failure = _open_failure(model)
    if failure and failure.reason not in {cause.reason for cause in found}:
        found.append(_advised(_container(failure), failure.reason, failure.message, model.name))
    if not found and not model.is_ready:  # it is being deleted
        found.append(_of_condition(model.ready, model, now))
    return _without_repetition(found)


def why(model: ModelView, events: Sequence[EventView], now: datetime, palette: Palette) -> Report:
    """The root cause and its fix, then other causes; ok if the model is ready."""
    found = causes(model, now)
    shown = _recent(events)
    reason = found[0].reason if found and not model.is_ready else model.ready.reason
    lines = [_headline(model, reason, palette)]
    for number, cause in enumerate(found):
        title = "Note" if model.is_ready else "Also" if number else "Cause"
        lines += ["", *_lines_of(title, cause, palette)]
    if not found:
        lines += ["", "No problems found."]
    if shown:
        lines += ["", palette.paint("Events", Tone.HEAD)]
        lines += [_event_line(event, now) for event in shown]
    document = {
        "namespace": model.namespace,
        "name": model.name,
        "ready": model.is_ready,
        "reason": model.ready.reason,
        "message": model.ready.message,
        "causes": [asdict(cause) for cause in found],
        "events": [_event_document(event) for event in shown],
    }
    return Report("".join(f"{line}\n" for line in lines), document, model.is_ready, (model.name,))


def _of_condition(condition: Condition, model: ModelView, now: datetime) -> Cause:
    """The cause that a condition names, with the pods and the log lines of the same reason."""
    where = f"{condition.type} is {condition.status}"
    pods = [
        pod
        for (reason, _), names in _failing_replicas(model).items()
        for pod in names
        if reason == condition.reason
    ]
    failure = _open_failure(model)
    log = ""
    if failure and failure.reason == condition.reason:
        where = f"{where}; {_container(failure)}"
        log = failure.message if failure.message not in condition.message else ""
    elif pods:
        where = f"{where}; {_where(pods)}"
    cause = _advised(where, condition.reason, condition.message, model.name, log)
    return _without_waiting(cause, condition, now)


def _without_waiting(cause: Cause, condition: Condition, now: datetime) -> Cause:
    """The cause with a fix other than waiting, if the condition has lasted too long for that."""
    if not cause.do.startswith("wait") or condition.since is None:
        return cause
    seconds = (now - condition.since).total_seconds()
    if seconds < PATIENCE_SECONDS:
        return cause
    rest = cause.do.partition("if it lasts, ")[2] or "check what the message and the events name"
    return replace(cause, do=f"it has lasted {age(seconds)}: {rest}")


def _failing_replicas(model: ModelView) -> dict[tuple[str, str], list[str]]:
    """Pods by reason and message."""
    pods: dict[tuple[str, str], list[str]] = {}
    for replica in model.replicas:
        if replica.reason:
            pods.setdefault((replica.reason, replica.message), []).append(replica.pod)
    return pods


def _open_failure(model: ModelView) -> FailureView | None:
    failure = model.last_failure
    return failure if failure and not failure.resolved else None


def _where(pods: Sequence[str]) -> str:
    return f"{'replica' if len(pods) == 1 else 'replicas'} {', '.join(pods)}"


def _container(failure: FailureView) -> str:
    code = "" if failure.exit_code is None else f", exit code {failure.exit_code}"
    return f"container {failure.container} of {failure.pod}{code}"


def _advised(where: str, reason: str, message: str, name: str, log: str = "") -> Cause:
    advice = advice_for(reason)
    if advice is None:
        return Cause(where, reason, message, log=log)
    # The commands of the advice work as they are pasted.
    do = PLACEHOLDER.sub(lambda _: clean(name), advice.do)
    return Cause(where, reason, message, advice.means, do, log)


def _without_repetition(found: Sequence[Cause]) -> list[Cause]:
    """The causes without those that repeat the message of an earlier one."""
    kept: list[Cause] = []
    for cause in found:
        is_repeated = any(cause.message and cause.message in each.message for each in kept)
        if not is_repeated:
            kept.append(cause)
    return kept


def _headline(model: ModelView, reason: str, palette: Palette) -> str:
    if model.is_ready:
        verdict = palette.paint("is ready", Tone.GOOD)
    else:
        verdict = palette.paint("is not ready", Tone.BAD)
    name = f"{model.namespace}/{model.name}" if model.namespace else model.name
    return f"{clean(name)} {verdict}: {clean(reason)}"


def _lines_of(title: str, cause: Cause, palette: Palette) -> list[str]:
    lines = [f"{title}: {palette.paint(clean(cause.reason), Tone.HEAD)} ({clean(cause.where)})"]
    # The operator's message says more than the general meaning of the reason.
    lines += [f"  {line}" for line in clean_lines(cause.message or cause.means)]
    if cause.log:
        lines.append("  Last log lines:")
        lines += [f"    {line}" for line in clean_lines(cause.log)]
    if cause.do:
        lines.append(f"Fix: {palette.paint(cause.do, Tone.UNSURE)}")
    return lines


def _recent(events: Sequence[EventView]) -> list[EventView]:
    """The last events, oldest first; events without a time come before all others."""
    return sorted(events, key=lambda event: event.last or _EARLIEST)[-EVENT_LIMIT:]


def _event_line(event: EventView, now: datetime) -> str:
    ago = age((now - event.last).total_seconds()) if event.last else "?"
    times = f" ({event.count} times)" if event.count > 1 else ""
    about = clean(f"{event.kind}/{event.name}")
    return f"  {ago:>4} {clean(event.reason)} {about}{times}: {clean(event.message)}"


def _event_document(event: EventView) -> dict[str, Any]:
    return {**asdict(event), "last": event.last.isoformat() if event.last else None}
