"""Finds in a server's model index why a model is not ready; pure.

Triton answers "not ready" in the same way for a model that is loading, that failed, that has
another version or that does not exist. MLServer does not list the models that it has instead.
Their repository index does: `POST /v2/repository/index`, or the call `RepositoryIndex`. The
drivers of the Open Inference Protocol query it if an answer has no reason.

Source: Triton, protocol extension "model repository", section "Index".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from moorage_operator.probe.driver import version_not_found
from moorage_operator.probe.reading import json_text
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.words import quoted

from . import metadata

__all__ = ["IndexEntry", "entries_from_json", "verdict"]

NAMES_SHOWN = 10
ENTRY_LIMIT = 10_000
"""The number of entries that are read from an untrusted server."""

READY = "READY"
# Triton's reason for a model that was unloaded on request, which is not a failure.
UNLOADED = "unloaded"
LOADING = frozenset({"LOADING", "UNLOADING"})


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a model in the index; `reason` says why it is unavailable."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


def entries_from_json(body: bytes) -> tuple[IndexEntry, ...] | None:
    """Parse the entries of a JSON index; None if the body is something else."""
    try:
        document = json_text.decode(body)
    except json_text.NotJson:
        return None
    if not isinstance(document, list):
        return None
    items = cast("list[Any]", document)[:ENTRY_LIMIT]
    try:
        return tuple(_entry(metadata.mapping(item)) for item in items)
    except metadata.NotMetadata:
        return None


def verdict(target: ProbeTarget, entries: Sequence[IndexEntry]) -> Answer | None:
    """Return why the target's model is not ready; None if the index does not explain it."""
    named = [entry for entry in entries if entry.name == target.model_name]
    if not named:
        return _answer(AnswerReason.MODEL_NOT_FOUND, _all_names(entries), listed=True)
    wanted = named
    if target.model_version:
        # A model that has not been loaded yet may be listed without a version.
        wanted = [entry for entry in named if entry.version in {target.model_version, ""}]
        if not wanted:
            versions = [entry.version for entry in named]
            return replace(version_not_found(target, versions), listed=True)
    states = {_state(entry) for entry in wanted}
    if states & LOADING:
        return _answer(AnswerReason.LOADING, "")
    if READY in states:
        return None
    reasons = [entry.reason for entry in wanted if entry.reason not in {"", UNLOADED}]
    if reasons:
        return _answer(AnswerReason.LOAD_FAILED, reasons[0])
    return _answer(AnswerReason.NOT_READY, f"the server lists it as {wanted[0].state or 'absent'}")


def _answer(reason: AnswerReason, message: str, *, listed: bool = False) -> Answer:
    return Answer(verdict=False, reason=reason, message=quoted(message), listed=listed)


def _state(entry: IndexEntry) -> str:
    # MLServer's gRPC answer includes the name of the enumeration: State.READY.
    return entry.state.rpartition(".")[2].upper()


def _all_names(entries: Sequence[IndexEntry]) -> str:
    names = sorted({entry.name for entry in entries if entry.name})
    if not names:
        return "it has none"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"it has {', '.join(names[:NAMES_SHOWN])}{more}"


def _entry(fields: dict[str, Any]) -> IndexEntry:
    reason = fields.get("reason")
    return IndexEntry(
        name=metadata.text(fields.get("name")),
        version=metadata.text(fields.get("version") or ""),
        state=metadata.text(fields.get("state") or ""),
        reason=reason if isinstance(reason, str) else "",
    )
