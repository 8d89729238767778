"""Interprets the JSON files beside an encoder: its task, labels, pooling and limits; pure.

    config.json, modules.json, 1_Pooling/config.json, ... -> describe -> Description

Whatever would change the answers and is not supported is an error, never ignored.
Source: the documentation of Transformers ("Configuration", "Pipelines") and of Sentence
Transformers ("Creating Custom Models").
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

import msgspec

from moorage_runtime.values.errors import InvalidConfig

__all__ = ["Description", "Pooling", "Scores", "Task", "describe"]

# The content of a JSON file by its path in the model's folder; None without the file.
Reader = Callable[[str], Any]

_CONFIG: Final = "config.json"
_MODULES: Final = "modules.json"
_TRANSFORMER: Final = "sentence_bert_config.json"
_PROMPTS: Final = "config_sentence_transformers.json"
# A tokenizer without a limit has the largest integer of some library.
_NO_LIMIT: Final = 1_000_000
# Their positions start after the padding's.
_SHIFTED: Final = ("camembert", "mpnet", "roberta", "xlm-roberta")
# The modules of Sentence Transformers up to 5.3, which removes white space around a text. Later
# versions, and Transformers, do not.
_OLDER: Final = "sentence_transformers.models."
_LIBRARY: Final = "sentence_transformers."
# How Sentence Transformers calls a tokenizer; others of its options change the tokens.
_HARMLESS: Final = frozenset({"padding", "return_tensors"})
# The names of labels that a file does not name take memory.
_MOST_UNNAMED: Final = 100_000


class Task(StrEnum):
    """What the model does."""

    CLASSIFY = "classify"
    EMBED = "embed"


class Scores(StrEnum):
    """How logits become scores."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    NONE = "none"


class Pooling(StrEnum):
    """How the embeddings of tokens become the embedding of a text."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"


class Description(msgspec.Struct, frozen=True):
    """An encoder.

    Attributes:
        task: What it does.
        labels: The labels of a classifier by number; empty if the files have none.
        scores: How the logits of a classifier become scores.
        pooling: How an embedding is made.
        normalize: Whether embeddings have the length 1.
        dimensions: How many numbers of an embedding are kept; 0 is all of them.
        max_tokens: Further tokens of a text are cut off; 0 is no limit.
        strip: Whether white space around a text is removed before it is tokenized.
        lower: Whether text is converted to lower case before it is tokenized.
        prompt: Precedes every text.
        pad_id: Token for a graph with a fixed number of tokens.
        truncation_side: Where a text that is too long is cut off: left or right; empty if the
            tokenizer's own file decides.
    """

    task: Task
    labels: tuple[str, ...] = ()
    scores: Scores = Scores.SOFTMAX
    pooling: Pooling = Pooling.MEAN
    normalize: bool = False
    dimensions: int = 0
    max_tokens: int = 0
    strip: bool = False
    lower: bool = False
    prompt: str = ""
    pad_id: int = 0
    truncation_side: str = ""


def describe(read: Reader, task: str | None = None, max_tokens: int | None = None) -> Description:
    """The description of an encoder.

    Args:
        read: Reads a file of the model's folder.
        task: The task in model.yaml, or None.
        max_tokens: The limit in model.yaml, or None.

    Raises:
        InvalidConfig: A file is invalid, or the model needs something that is not supported.
    """
    config = _object(read, _CONFIG)
    modules = _modules(read)
    chosen = Task(task) if task else _task(config, has_modules=modules is not None)
    tokenizer, prompts = _object(read, "tokenizer_config.json"), _object(read, _PROMPTS)
    own = _transformer(read) if modules is not None else {}
    labels = _labels(config) if chosen is Task.CLASSIFY else ()
    pooling, with_prompt = _pooling(read, modules)
    prompt = _prompt(prompts) if chosen is Task.EMBED else ""
    if prompt and not with_prompt:
        raise InvalidConfig(
            "the pooling of the model leaves out its prompt (include_prompt is false), which is "
            "not supported"
        )
    pad_id = _number(config, "pad_token_id")
    return Description(
        chosen,
        labels,
        _scores(config, labels),
        pooling,
        "Normalize" in [_kind(module) for module, _ in modules or ()],
        _number(prompts, "truncate_dim") if modules is not None else 0,
        max_tokens or _limit(config, tokenizer, own, pad_id, is_capped=modules is not None),
        modules is not None and modules[0][0].startswith(_OLDER),
        own.get("do_lower_case") is True,
        prompt,
        pad_id,
        side if (side := tokenizer.get("truncation_side")) in {"left", "right"} else "",
    )


def _task(config: Mapping[str, Any], *, has_modules: bool) -> Task:
    found = config.get("architectures")
    first = cast("Sequence[Any]", found)[0] if isinstance(found, list) and found else None
    name = first if isinstance(first, str) else ""
    if has_modules or name.endswith("Model"):
        return Task.EMBED
    if name.endswith("ForSequenceClassification"):
        return Task.CLASSIFY
    raise InvalidConfig(
        f"{_CONFIG}: architectures is {found!r:.100}, which is neither a sequence classifier nor "
        "an encoder: set text.task in model.yaml to classify or embed"
    )


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    found = config.get("id2label")
    if found is None:
        count = _number(config, "num_labels")
        if count > _MOST_UNNAMED:
            raise InvalidConfig(
                f"{_CONFIG}: num_labels is {config['num_labels']!r:.40}: must be "
                f"{_MOST_UNNAMED} or less without id2label"
            )
        return tuple(f"LABEL_{index}" for index in range(count))
    if isinstance(found, dict):
        named = cast("dict[str, Any]", found)
        labels = [named.get(str(index)) for index in range(len(named))]
        if all(isinstance(label, str) for label in labels):
            return tuple(cast("list[str]", labels))
    raise InvalidConfig(
        f"{_CONFIG}: id2label is {found!r:.100}: must have a label for each number from 0"
    )


def _scores(config: Mapping[str, Any], labels: Sequence[str]) -> Scores:
    kind = config.get("problem_type")
    if kind == "regression":
        return Scores.NONE
    if kind == "multi_label_classification" or len(labels) == 1:
        return Scores.SIGMOID
    return Scores.SOFTMAX


def _modules(read: Reader) -> list[tuple[str, str]] | None:
    """Class and path of each module of Sentence Transformers; None without modules.json."""
    found = read(_MODULES)
    if found is None:
        return None
    modules: list[tuple[str, str]] = []
    for item in cast("list[Any]", found) if isinstance(found, list) else [found]:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        kind, path = fields.get("type"), fields.get("path")
        if not isinstance(kind, str) or not isinstance(path, str):
            raise InvalidConfig(f"{_MODULES}: {item!r:.100} is invalid: must have type and path")
        if not kind.startswith(_LIBRARY):
            raise InvalidConfig(
                f"{_MODULES}: type is {kind!r:.100}, a class of the model's own code, which "
                "does not run here: must be a class of sentence_transformers"
            )
        modules.append((kind, path))
    kinds = [_kind(module) for module, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise InvalidConfig(
            f"{_MODULES}: the modules {', '.join(kinds)} are not supported: must be Transformer, "
            "Pooling and optionally Normalize"
        )
    return modules


def _kind(module: str) -> str:
    """The name of a module's class without its package, which depends on the version."""
    return module.rpartition(".")[2]


def _transformer(read: Reader) -> Mapping[str, Any]:
    """The configuration of the Transformer module."""
    found = _object(read, _TRANSFORMER)
    calls = found.get("processing_kwargs")
    for name in ("text", "common") if isinstance(calls, dict) else ():
        options = cast("dict[str, Any]", calls).get(name)
        if options and not (isinstance(options, dict) and options.keys() <= _HARMLESS):
            raise InvalidConfig(
                f"{_TRANSFORMER}: processing_kwargs.{name} is {options!r:.100}, which is not "
                f"supported: must have only {' and '.join(sorted(_HARMLESS))}"
            )
    return found


def _pooling(read: Reader, modules: list[tuple[str, str]] | None) -> tuple[Pooling, bool]:
    """The pooling, and whether it includes the tokens of the prompt."""
    path = next((path for module, path in modules or () if _kind(module) == "Pooling"), None)
    if path is None:
        return Pooling.MEAN, True  # the default of Sentence Transformers
    file = f"{path}/{_CONFIG}"
    config = _object(read, file)
    names = {"mean_tokens": Pooling.MEAN, "cls_token": Pooling.CLS, "max_tokens": Pooling.MAX}
    written = config.get("pooling_mode")
    prefix = "pooling_mode_"
    modes = [written] if isinstance(written, str) else [
        name.removeprefix(prefix)
        for name, value in config.items()
        if name.startswith(prefix) and value is True
    ]  # fmt: skip
    known = {**names, **{str(pooling): pooling for pooling in Pooling}}
    if len(modes) != 1 or modes[0] not in known:
        raise InvalidConfig(
            f"{file}: the pooling {' and '.join(modes) or 'none'} is not supported: must be one "
            f"of {', '.join(names)}"
        )
    return known[modes[0]], config.get("include_prompt") is not False


def _prompt(config: Mapping[str, Any]) -> str:
    name = config.get("default_prompt_name")
    if name is None:
        return ""
    prompts = config.get("prompts")
    known = cast("dict[str, Any]", prompts) if isinstance(prompts, dict) else {}
    found = known.get(name) if isinstance(name, str) else None
    if not isinstance(found, str):
        raise InvalidConfig(f"{_PROMPTS}: default_prompt_name is {name!r:.100}: no such prompt")
    return found


def _limit(
    config: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    own: Mapping[str, Any],
    pad_id: int,
    *,
    is_capped: bool,
) -> int:
    """The most tokens of a text, 0 for no limit.

    Sentence Transformers caps the tokenizer's limit at the model's positions; Transformers does
    not, and a model with relative positions may take more.
    """
    positions = _number(config, "max_position_embeddings")
    shift = pad_id + 1 if config.get("model_type") in _SHIFTED else 0
    most = max(positions - shift, 0)
    chosen, limit = _number(own, "max_seq_length"), _number(tokenizer, "model_max_length")
    if 0 < chosen < _NO_LIMIT:
        return chosen
    if chosen or not 0 < limit < _NO_LIMIT:
        return most
    return min(limit, most) if is_capped and most else limit


def _number(config: Mapping[str, Any], name: str) -> int:
    """A number above 0, which may be written with a point; 0 for any other value."""
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < math.inf else 0


def _object(read: Reader, file: str) -> Mapping[str, Any]:
    found = read(file)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidConfig(f"{file}: {found!r:.60} is invalid: must be a JSON object")
    return cast("dict[str, Any]", found)
