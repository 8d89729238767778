"""`moorage rollout`: a tree of a model's revisions and their replicas; pure.

ModelView, kept revisions --> branches --> tree for people, document for programs
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from moorage_cli.judge.model_view import Condition, ModelView, ReplicaView
from moorage_cli.judge.waiting import Outcome, outcome_of
from moorage_cli.judge.why import CONSEQUENCES, Cause, causes
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Cell, Palette, Tone, age, render, shorten

__all__ = ["KeptRevision", "line", "tree"]

HEAD = ("REVISION", "STATE", "READY", "MODEL", "WEIGHT", "RESTARTS", "AGE", "REASON")
MESSAGE_WIDTH = 100
FORK, LAST, PASS, GAP = "├─ ", "└─ ", "│  ", "   "
PHASE_NAMES = {
    "scheduled": "scheduling",
    "artifact": "model files",
    "started": "container",
    "modelReady": "model",
}
_TONES = {
    Outcome.SERVES: Tone.GOOD,
    Outcome.FAILED: Tone.BAD,
    Outcome.PENDING: Tone.UNSURE,
}


@dataclass(frozen=True, slots=True)
class KeptRevision:
    """A revision whose spec the cluster keeps, and when its object was created."""

    revision: str
    created: datetime | None


@dataclass(frozen=True, slots=True)
class _Branch:
    """One revision of the tree."""

    revision: str
    state: str
    weight: int | None
    created: datetime | None
    replicas: tuple[ReplicaView, ...]


def tree(
    model: ModelView, kept: Sequence[KeptRevision], now: datetime, palette: Palette
) -> Report:
    """The tree; ok if the spec serves.

    Args:
        model: The model.
        kept: The kept revisions, the last to run first.
        now: The current time, aware.
        palette: Colours.
    """
    outcome = outcome_of(model, now)
    found = _branches(model, kept)
    cause = _cause(model, outcome, now)
    lines = [_headline(model, outcome, palette)]
    up_to_date = model.conditions.get("UpToDate")
    if model.is_current and up_to_date is not None and up_to_date.message:
        lines.append(f"  {clean(up_to_date.message)}")
    lines += [f"  {each}" for each in (_step(model, now), _phases(model)) if each]
    rows = [row for at, each in enumerate(found) for row in _rows(each, now, at == len(found) - 1)]
    text = "".join(f"{each}\n" for each in lines)
    if rows:
        text += f"\n{render(HEAD, rows, palette)}"
    if model.omitted_replicas:
        text += f"The status omits {model.omitted_replicas} more replicas.\n"
    if cause is not None:
        text += f"\nCause: {palette.paint(clean(cause.reason), Tone.HEAD)}\n"
        text += f"  {clean(cause.message or cause.means)}\n"
        text += f"Fix: {palette.paint(cause.do, Tone.UNSURE)}\n" if cause.do else ""
    document = _document(model, outcome, found, cause)
    failed = ExitCode.ROLLOUT_FAILED if outcome is Outcome.FAILED else ExitCode.NOT_OK
    return Report(text, document, outcome is Outcome.SERVES, (model.name,), failed=failed)


def line(model: ModelView) -> str:
    """Where the rollout is, in one line."""
    leading = _leading(model)
    if leading is None:
        return "waiting for the operator"
    replicas = f"{model.replica_summary} replicas, " if model.replica_summary else ""
    return f"{replicas}{leading.reason}: {leading.message}"


def _leading(model: ModelView) -> Condition | None:
    """The condition that says where the rollout is; None before the operator has seen the spec.

    A model that is being deleted has only Ready.
    """
    up_to_date = model.conditions.get("UpToDate")
    if not model.is_current or not model.conditions:
        return None
    return model.ready if up_to_date is None or up_to_date.holds else up_to_date


def _headline(model: ModelView, outcome: Outcome, palette: Palette) -> str:
    leading, up_to_date = _leading(model), model.conditions.get("UpToDate")
    if leading is None:
        reason = "waiting for the operator"
    elif leading.holds and up_to_date is not None:
        reason = up_to_date.reason
    else:
        reason = leading.reason
    name = f"{model.namespace}/{model.name}" if model.namespace else model.name
    return (
        f"{clean(name)}: {palette.paint(clean(reason), _TONES[outcome])}, "
        f"{clean(model.rollout.strategy)}, {clean(model.replica_summary) or '0'} replicas"
    )


def _step(model: ModelView, now: datetime) -> str:
    """The step of a canary, and what ends it."""
    canary, steps = model.rollout.canary, model.rollout.steps
    if canary is None:
        return ""
    if canary.step > len(steps) > 0:
        return "all steps are done: the canary receives all requests"
    if canary.step == 0:
        return f"before step 1 of {len(steps)}: all replicas of the canary have to serve first"
    share = f"step {canary.step} of {len(steps)}, {canary.weight} percent of the requests"
    if canary.since is None:
        return f"{share}: waits for the gateway"
    pause = steps[canary.step - 1].pause_seconds if steps else None
    if pause is None:
        return f"{share}: waits for approval: moorage promote {clean(model.name)}"
    left = (canary.since + timedelta(seconds=pause) - now).total_seconds()
    return f"{share}: {age(left)} left"


def _phases(model: ModelView) -> str:
    """How long the first replica took to serve."""
    known = model.rollout.phases
    if "total" not in known:
        return ""
    parts = [
        f"{name} {age(known[key] / 1000)}" for key, name in PHASE_NAMES.items() if key in known
    ]
    head = f"first replica of {clean(model.rollout.timed)} served after"
    return f"{head} {age(known['total'] / 1000)}: {', '.join(parts)}"


def _branches(model: ModelView, kept: Sequence[KeptRevision]) -> list[_Branch]:
    """The revisions: that of the spec first, then those that serve, end, or ran before."""
    rollout = model.rollout
    # what `moorage rollback` would restore, so none that never served
    passed = {rollout.current, *rollout.unproven}
    previous = next((each.revision for each in kept if each.revision not in passed), None)
    names: list[str | None] = [rollout.current, rollout.last_good, rollout.retiring]
    names += [each.revision for each in model.replicas]
    names.append(previous)
    created = {each.revision: each.created for each in kept}
    return [
        _Branch(
            revision=name,
            state=_state(model, name, previous),
            weight=_weight(model, name),
            created=created.get(name),
            replicas=tuple(each for each in model.replicas if each.revision == name),
        )
        for name in dict.fromkeys(filter(None, names))
    ]


def _state(model: ModelView, name: str, previous: str | None) -> str:
    rollout = model.rollout
    if name == rollout.rejected:
        return "failed"
    if name == rollout.candidate:
        return "candidate"
    if name == rollout.current:
        return "current"
    if name == rollout.last_good:
        return "last good"
    if name == rollout.retiring:
        return "retiring"
    return "previous" if name == previous else "earlier"


def _weight(model: ModelView, name: str) -> int | None:
    """The percentage of the requests of the gateway; None without a canary."""
    rollout = model.rollout
    if rollout.canary is None:
        return None
    if name == rollout.canary.revision:
        return rollout.canary.weight
    return 100 - rollout.canary.weight if name == rollout.last_good else None


def _rows(branch: _Branch, now: datetime, is_last: bool) -> list[list[Cell]]:
    total = len(branch.replicas)
    ready = sum(each.ready for each in branch.replicas)
    loaded = sum(each.model_ready for each in branch.replicas)
    serves = sum(each.serves for each in branch.replicas)
    tone = Tone.PLAIN if not total else Tone.GOOD if serves == total else Tone.UNSURE
    tones = {"failed": Tone.BAD, "candidate": Tone.UNSURE}
    rows = [
        [
            Cell(branch.revision, lead=LAST if is_last else FORK),
            Cell(branch.state, tones.get(branch.state, Tone.PLAIN)),
            Cell(f"{ready}/{total}", tone),
            Cell(f"{loaded}/{total}", tone),
            Cell("" if branch.weight is None else f"{branch.weight} %"),
            Cell(sum(each.restarts for each in branch.replicas) if total else ""),
            Cell(_since(branch.created, now)),
            Cell(""),
        ]
    ]
    inner = GAP if is_last else PASS
    for at, each in enumerate(branch.replicas):
        reason = f"{each.reason}: {each.message}" if each.message else each.reason
        rows.append(
            [
                Cell(each.pod, lead=inner + (LAST if at == total - 1 else FORK)),
                Cell(*_replica_state(each)),
                Cell("yes" if each.ready else "no"),
                Cell("yes" if each.model_ready else "no"),
                Cell(""),
                Cell(each.restarts),
                Cell(_since(each.since, now)),
                Cell(shorten(reason, MESSAGE_WIDTH)),
            ]
        )
    return rows


def _replica_state(replica: ReplicaView) -> tuple[str, Tone]:
    if replica.serves:
        return "serves", Tone.GOOD
    return ("waits", Tone.UNSURE) if not replica.restarts else ("fails", Tone.BAD)


def _since(time: datetime | None, now: datetime) -> str:
    return age((now - time).total_seconds()) if time else ""


def _cause(model: ModelView, outcome: Outcome, now: datetime) -> Cause | None:
    """The root cause of trouble; a rollout that only takes its time has none."""
    if outcome is Outcome.SERVES or not model.conditions:
        return None
    found = [each for each in causes(model, now) if each.reason not in CONSEQUENCES]
    return found[0] if found else None


def _document(
    model: ModelView, outcome: Outcome, found: Sequence[_Branch], cause: Cause | None
) -> dict[str, Any]:
    rollout, up_to_date = model.rollout, model.conditions.get("UpToDate")
    canary = rollout.canary
    return {
        "namespace": model.namespace,
        "name": model.name,
        "outcome": outcome.value,
        "reason": up_to_date.reason if up_to_date else "",
        "message": up_to_date.message if up_to_date else "",
        "strategy": rollout.strategy,
        "replicas": model.replica_summary,
        "canary": {
            "revision": canary.revision,
            "step": canary.step,
            "steps": len(rollout.steps),
            "weight": canary.weight,
            "since": canary.since.isoformat() if canary.since else None,
        }
        if canary
        else None,
        "timings": {"revision": rollout.timed, **rollout.phases} if rollout.phases else None,
        "revisions": [
            {
                "revision": each.revision,
                "state": each.state,
                "weight": each.weight,
                "created": each.created.isoformat() if each.created else None,
                "ready": sum(pod.ready for pod in each.replicas),
                "modelReady": sum(pod.model_ready for pod in each.replicas),
                "total": len(each.replicas),
                "replicas": [_replica_document(pod) for pod in each.replicas],
            }
            for each in found
        ],
        "cause": asdict(cause) if cause else None,
    }


def _replica_document(pod: ReplicaView) -> dict[str, Any]:
    document = asdict(pod)
    document["modelReady"] = document.pop("model_ready")
    return {**document, "since": pod.since.isoformat() if pod.since else None}
