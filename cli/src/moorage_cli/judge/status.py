"""`moorage status`: a table of models with their progress, conditions and replicas; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moorage_cli.judge.model_view import Condition, ModelView, ReplicaView
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import (
    Cell,
    GrowingTable,
    Palette,
    Tone,
    age,
    render,
    shorten,
)

__all__ = ["StatusChanges", "progress", "status_of_many", "status_of_one"]

HEAD = ("NAME", "READY", "PROGRESS", "REPLICAS", "MODEL", "VERSION", "PROTOCOL", "REASON", "AGE")
MESSAGE_WIDTH = 100
# What a watch shows of a model that was deleted.
DELETED = "Deleted"
_TONES = {"True": Tone.GOOD, "False": Tone.BAD}


def progress(model: ModelView) -> str:
    """The number of completed steps to Ready, and the next step: `2/4 ProtocolMatched`.

    Conditions of an earlier spec do not count as completed.
    """
    steps = model.steps
    done = 0
    for step in steps:
        if not step.holds or step.generation < model.generation:
            return f"{done}/{len(steps)} {step.type}"
        done += 1
    return f"{done}/{len(steps)}" if steps else ""


def status_of_many(
    models: Sequence[ModelView], now: datetime, palette: Palette, *, namespaces: bool
) -> Report:
    """One row per model; ok if every model is ready."""
    head = ("NAMESPACE", *HEAD) if namespaces else HEAD
    rows = [_row(model, now, namespaces=namespaces) for model in models]
    text = render(head, rows, palette) if rows else "No InferenceModels found.\n"
    return Report(
        text=text,
        document=[_document(model) for model in models],
        ok=all(model.is_ready for model in models),
        names=tuple(model.name for model in models),
    )


def status_of_one(model: ModelView, now: datetime, palette: Palette) -> Report:
    """The row, conditions and replicas of one model; ok if it is ready."""
    parts = [render(HEAD, [_row(model, now, namespaces=False)], palette)]
    if not model.is_current:
        parts.append(_stale(model))
    if model.external_url:
        parts.append(f"URL outside the cluster: {clean(model.external_url)}\n")
    if model.conditions:
        rows = [_condition_row(item, model, now) for item in model.conditions.values()]
        parts.append(render(("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"), rows, palette))
    if model.replicas:
        rows = [_replica_row(item) for item in model.replicas]
        head = ("REPLICA", "SERVES", "REVISION", "RESTARTS", "REASON", "MESSAGE")
        parts.append(render(head, rows, palette))
    if model.omitted_replicas:
        parts.append(f"The status omits {model.omitted_replicas} more replicas.\n")
    return Report("\n".join(parts), _document(model), model.is_ready, (model.name,))


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a watch shows of one model; the age is not compared."""

    name: str
    document: dict[str, Any]
    cells: Sequence[Cell]
    age: Cell = field(default=Cell(""), compare=False)


class StatusChanges:
    """The changes of models, as rows of one table, without those that repeat the previous one.

    Args:
        palette: Colours.
        namespaces: Whether to show the namespaces.
    """

    def __init__(self, palette: Palette, *, namespaces: bool) -> None:
        self._table = GrowingTable(("NAMESPACE", *HEAD) if namespaces else HEAD, palette)
        self._namespaces = namespaces
        self._shown: dict[tuple[str, str], _Shown] = {}

    def listed(self, models: Sequence[ModelView], now: datetime) -> Report:
        """What has changed if these are all models."""
        left = {(model.namespace, model.name) for model in models}
        gone = [key for key in self._shown if key not in left]
        changes = [self._put(model, now) for model in models]
        return self._report([*changes, *(self._removed(key) for key in gone)])

    def put(self, model: ModelView, now: datetime) -> Report:
        """What has changed if this model is new or has changed."""
        return self._report([self._put(model, now)])

    def deleted(self, model: ModelView) -> Report:
        """What has changed if this model was deleted."""
        key = (model.namespace, model.name)
        return self._report([self._removed(key)] if key in self._shown else [])

    def _put(self, model: ModelView, now: datetime) -> tuple[_Shown | None, _Shown]:
        *cells, since = _row(model, now, namespaces=self._namespaces)
        found = _Shown(model.name, _document(model), cells, since)
        before = self._shown.get((model.namespace, model.name))
        self._shown[model.namespace, model.name] = found
        return before, found

    def _removed(self, key: tuple[str, str]) -> tuple[_Shown | None, _Shown]:
        before = self._shown.pop(key)
        document = {**before.document, "ready": False, "reason": DELETED, "deleted": True}
        first = len(before.cells) + 1 - len(HEAD)  # after the namespace
        names = [*before.cells[: first + 1]]
        cells = [*names, *[Cell("")] * (len(HEAD) - 3), Cell(DELETED, Tone.BAD)]
        return before, _Shown(before.name, document, cells)

    def _report(self, changes: Sequence[tuple[_Shown | None, _Shown]]) -> Report:
        changed = [(before, found) for before, found in changes if before != found]
        rows = [
            [*found.cells, found.age]
            for before, found in changed
            if before is None or before.cells != found.cells
        ]
        return Report(
            text=self._table.added(rows) if rows else "",
            document=[found.document for _, found in changed],
            ok=True,
            names=tuple(found.name for _, found in changed),
        )


def _stale(model: ModelView) -> str:
    return (
        f"The status describes generation {model.observed_generation} of the spec; the current "
        f"generation is {model.generation}. The operator has not processed the last change yet.\n"
    )


def _row(model: ModelView, now: datetime, *, namespaces: bool) -> list[Cell]:
    ready = model.ready.status if model.is_current else "Unknown"
    tone = _TONES.get(ready, Tone.UNSURE)
    row = [
        Cell(model.name),
        Cell(ready, tone),
        Cell(progress(model)),
        Cell(model.replica_summary),
        Cell(model.served_name),
        Cell(model.versions),
        Cell(model.protocol),
        Cell(model.ready.reason, Tone.PLAIN if model.is_ready else tone),
        Cell(_since(model.created, now)),
    ]
    return [Cell(model.namespace), *row] if namespaces else row


def _condition_row(condition: Condition, model: ModelView, now: datetime) -> list[Cell]:
    earlier = " (of an earlier spec)" if condition.generation < model.generation else ""
    return [
        Cell(condition.type),
        Cell(f"{condition.status}{earlier}", _TONES.get(condition.status, Tone.UNSURE)),
        Cell(condition.reason),
        Cell(_since(condition.since, now)),
        Cell(shorten(condition.message, MESSAGE_WIDTH)),
    ]


def _replica_row(replica: ReplicaView) -> list[Cell]:
    return [
        Cell(replica.pod),
        Cell("yes" if replica.serves else "no", Tone.GOOD if replica.serves else Tone.BAD),
        Cell(replica.revision),
        Cell(replica.restarts),
        Cell(replica.reason),
        Cell(shorten(replica.message, MESSAGE_WIDTH)),
    ]


def _since(time: datetime | None, now: datetime) -> str:
    return age((now - time).total_seconds()) if time else ""


def _document(model: ModelView) -> dict[str, Any]:
    return {
        "namespace": model.namespace,
        "name": model.name,
        "ready": model.is_ready,
        "current": model.is_current,
        "progress": progress(model),
        "reason": model.ready.reason,
        "message": model.ready.message,
        "replicas": model.replica_summary,
        "model": model.served_name,
        "versions": model.versions,
        "protocol": model.protocol,
        "url": model.url,
        "externalUrl": model.external_url,
        "conditions": [
            {
                "type": item.type,
                "status": item.status,
                "reason": item.reason,
                "message": item.message,
                "observedGeneration": item.generation,
            }
            for item in model.conditions.values()
        ],
        "replicaStatuses": [
            {
                "pod": item.pod,
                "serves": item.serves,
                "revision": item.revision,
                "restarts": item.restarts,
                "reason": item.reason,
                "message": item.message,
            }
            for item in model.replicas
        ],
    }
