"""What a server's index of its models tells of one that is not ready; pure.

Triton answers "not ready" alike for a model that loads, one that failed, one in another version
and one that it does not have; MLServer does not say what it has instead. Their index of the
repository does: `POST /v2/repository/index`, or the call `RepositoryIndex`. The drivers of the
Open Inference Protocol ask it after a "no" that does not say why.

Source: Triton, protocol extension "model repository", section "Index".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.planned import ProbeTarget

from . import json_text, metadata
from .driver import quoted, version_not_found

__all__ = ["IndexEntry", "entries_from_json", "verdict"]

NAMES_SHOWN = 10
ENTRY_LIMIT = 10_000
"""Entries that are looked at; a server is not trusted."""

READY = "READY"
# Triton's word for a model that was taken out on request, which is no failure.
UNLOADED = "unloaded"
LOADING = frozenset({"LOADING", "UNLOADING"})


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of one model, as the server lists it; `reason` says why it is unavailable."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


def entries_from_json(body: bytes) -> tuple[IndexEntry, ...] | None:
    """The entries of a JSON index; None when the body is something else."""
    try:
        document = json_text.decode(body)
    except json_text.NotJson:
        return None
    if not isinstance(document, list):
        return None
    items = cast("list[Any]", document)[:ENTRY_LIMIT]
    try:
        return tuple(_entry(metadata.mapping(item, "an entry")) for item in items)
    except metadata.NotMetadata:
        return None


def verdict(target: ProbeTarget, entries: Sequence[IndexEntry]) -> Answer | None:
    """Why the target's model is not ready; None when the index does not know better."""
    named = [entry for entry in entries if entry.name == target.model_name]
    if not named:
        return _answer(AnswerReason.MODEL_NOT_FOUND, _all_names(entries), listed=True)
    wanted = named
    if target.model_version:
        # A model that is listed without a version has not come as far as to have one.
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
    # MLServer's gRPC answer has the name of the enumeration in front: State.READY.
    return entry.state.rpartition(".")[2].upper()


def _all_names(entries: Sequence[IndexEntry]) -> str:
    names = sorted({entry.name for entry in entries})
    if not names:
        return "it has none"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"it has {', '.join(names[:NAMES_SHOWN])}{more}"


def _entry(fields: dict[str, Any]) -> IndexEntry:
    reason = fields.get("reason")
    return IndexEntry(
        name=metadata.text(fields.get("name"), "name"),
        version=metadata.text(fields.get("version") or "", "version"),
        state=metadata.text(fields.get("state") or "", "state"),
        reason=reason if isinstance(reason, str) else "",
    )
