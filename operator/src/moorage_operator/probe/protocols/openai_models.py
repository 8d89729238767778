"""Parses the list of models of an OpenAI-compatible server; pure.

The API defines only names and owners. Some servers add the context length of each model, and
llama.cpp adds its state.

Source: OpenAI API reference, "Models: List models"; vLLM, `ModelCard`; llama.cpp, server README,
"GET /v1/models" and "GET /models".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.words import printable, quoted, word

from . import metadata
from .metadata import NotMetadata

__all__ = ["Entry", "error_of", "info_of", "judged", "listed_models"]

NAMES_SHOWN = 10

# vLLM and SGLang; LiteLLM, OpenRouter and others; LM Studio.
_LENGTHS = ("max_model_len", "context_length", "max_context_length")
# llama.cpp's `meta`: the context of the running server, and the one of the model's training.
_META_LENGTHS = ("n_ctx", "n_ctx_train")
_LONGEST = 1 << 40

# llama.cpp in router mode; a sleeping model wakes up with a request.
_STATES = {
    "loaded": AnswerReason.READY,
    "sleeping": AnswerReason.READY,
    "loading": AnswerReason.LOADING,
    "downloading": AnswerReason.LOADING,
}


Entry = Mapping[str, Any]
"""An entry of the list, which has at least a name."""


@dataclass(frozen=True, slots=True)
class _ListedModel:
    """A model of the list; `state` is empty if the server reports none."""

    owner: str
    context_length: int | None
    state: str
    failed: bool


def listed_models(document: Mapping[str, Any]) -> Sequence[Entry] | None:
    """Return the entries of a list of models, None if the body is something else.

    There may be thousands, so only the one of the wanted model is parsed later.
    """
    listed: object = document.get("data")
    if document.get("object") != "list" or "data" not in document:
        return None
    if listed is None:  # Ollama without models
        return ()
    if not isinstance(listed, list):
        return None
    entries = cast("list[Any]", listed)
    return entries if all(map(_is_model, entries)) else None


def judged(target: ProbeTarget, listed: Sequence[Entry]) -> Answer:
    """Judge whether a server that is ready lists the target's model, and in which state."""
    found = _find(target.model_name, listed)
    if found is None:
        names = [each["id"][: metadata.TEXT_LIMIT] for each in listed[:NAMES_SHOWN]]
        more = f" and {len(listed) - NAMES_SHOWN} more" if len(listed) > NAMES_SHOWN else ""
        has = f"the server lists {printable(', '.join(names))}{more}" if names else ""
        message = quoted(has or "the server lists no models")
        return Answer(
            verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=message, listed=bool(names)
        )
    if found.failed:
        message = "the server lists it as failed"
        return Answer(verdict=False, reason=AnswerReason.LOAD_FAILED, message=message)
    reason = _STATES.get(found.state, AnswerReason.NOT_READY) if found.state else None
    if reason in (None, AnswerReason.READY):
        return Answer(verdict=True, reason=AnswerReason.READY)
    message = quoted(f"the server lists it as {found.state}")
    return Answer(verdict=False, reason=reason, message=message)


def info_of(name: str, listed: Sequence[Entry]) -> ModelInfo | None:
    """Return the metadata of a model in the list, None if it is not there or not valid."""
    found = _find(name, listed)
    if found is None:
        return None
    try:
        platform = metadata.text(found.owner)
        return ModelInfo(
            metadata.text(name), platform=platform, context_length=found.context_length
        )
    except NotMetadata:
        return None


def error_of(document: Mapping[str, Any]) -> str:
    """Return the message of an error body, "" if there is none.

    The API has an object with a message; vLLM had the message at the top, FastAPI has `detail`.
    """
    error: object = document.get("error")
    holder = cast("Mapping[str, Any]", error) if isinstance(error, Mapping) else document
    for each in (error, holder.get("message"), document.get("detail")):
        if isinstance(each, str):
            return quoted(each)
    return ""


def _is_model(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(cast("Entry", entry).get("id"), str)


def _find(name: str, listed: Sequence[Entry]) -> _ListedModel | None:
    entry = next((each for each in listed if each["id"] == name), None)
    if entry is None:
        return None
    meta, status = _mapping(entry.get("meta")), _mapping(entry.get("status"))
    lengths = [entry.get(name) for name in _LENGTHS] + [meta.get(name) for name in _META_LENGTHS]
    return _ListedModel(
        owner=word(entry.get("owned_by")),
        context_length=next((each for each in lengths if _is_length(each)), None),
        state=word(status.get("value"))[: metadata.TEXT_LIMIT],
        failed=status.get("failed") is True,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LONGEST
