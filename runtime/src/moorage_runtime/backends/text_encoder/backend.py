"""The backend of encoders: BYTES text to labels and scores, or to embeddings.

    text -> tokenizer -> ONNX session -> scores, or pooling and normalization

Texts with the same number of tokens share a run, so no text is padded: an answer depends neither
on the other texts of its request nor on merged requests, and a graph that ignores its attention
mask gives correct answers. Only a graph with a fixed number of tokens needs padding.
"""

import importlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import contained, sentence_of
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.text_encoder.arithmetic import Floats, normalized, pooled, scored
from moorage_runtime.backends.text_encoder.description import Description, Task, describe
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest, ModelFailed
from moorage_runtime.values.inference import NO_SIGNATURES, InferRequest, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

# A run has one thread of the server; the library would use all cores of the host.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Any, because this extra is not installed for type checks.
tokenizers: Any = importlib.import_module("tokenizers")

__all__ = ["TextEncoderBackend"]

TOKENIZER: Final = "tokenizer.json"
_LIMIT_BYTES: Final = 64 * 1024 * 1024
_TEXT: Final = TensorSpec("text", Datatype.BYTES, (-1,))
_IDS, _MASK, _TYPES = "input_ids", "attention_mask", "token_type_ids"
# The first of these that the graph has is used.
_OUTPUTS: Final = {
    Task.CLASSIFY: ("logits",),
    Task.EMBED: ("sentence_embedding", "token_embeddings", "last_hidden_state"),
}
_FLOATS: Final = {Datatype.FP16, Datatype.FP32, Datatype.FP64}


class TextEncoderBackend:
    """Loads encoders.

    Args:
        onnx: The backend of their graphs.
    """

    def __init__(self, onnx: OnnxBackend) -> None:
        self._onnx = onnx

    def load(self, source: ModelSource) -> LoadedModel:
        """Load the tokenizer and the graph.

        Raises:
            InvalidConfig: A file is missing or invalid, or the model needs something that is not
                supported.
        """
        folder = _folder(source.path)
        options = source.options
        told = describe(
            lambda name: _json(folder / name, name),
            options.get("text_task"),
            options.get("text_max_tokens"),
        )
        plain = {**options, "inline": False}
        graph = self._onnx.load(
            msgspec.structs.replace(source, inputs=None, outputs=None, options=plain)
        )
        try:
            model = TextEncoder(folder / TOKENIZER, told, graph)
            check_declared(source, model.inputs, model.outputs)
        except BaseException:
            graph.close()
            raise
        return model


class TextEncoder:
    """A tokenizer and a graph; both allow concurrent calls.

    Args:
        tokenizer: The file of the tokenizer.
        description: What the files beside it say.
        graph: The loaded graph.

    Raises:
        InvalidConfig: The tokenizer is invalid, or the graph has other tensors than an encoder.
    """

    platform = "huggingface_onnx"
    signatures = NO_SIGNATURES
    dynamic = False
    streams = False
    inline_rows = 0

    def __init__(
        self, tokenizer: pathlib.Path, description: Description, graph: LoadedModel
    ) -> None:
        self._graph = graph
        self._description = description
        self._inputs = _checked_inputs(graph.inputs)
        self._output = _output(graph.outputs, description.task)
        # a graph may have a fixed number of texts or tokens
        texts, self._tokens = self._inputs[_IDS].shape
        self._one_by_one = texts == 1
        limit = description.max_tokens
        if self._tokens > 0:
            limit = min(limit or self._tokens, self._tokens)
        self._tokenizer = _tokenizer(tokenizer, description, limit)
        self._labels = _labels(description, self._output)
        self.merge_obstacle = graph.merge_obstacle
        self.inputs = (_TEXT,)
        self.outputs = _declared(description, len(self._labels), self._output)

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Labels and scores, the best first; or embeddings.

        Raises:
            InvalidRequest: An element is not UTF-8, or has no tokens.
            ModelFailed: The tokenizer or the graph failed.
        """
        texts = [
            self._text(index, element)
            for index, element in enumerate(request.inputs[0].array.reshape(-1).tolist())
        ]
        found: list[Any] = contained(lambda: self._tokenizer.encode_batch_fast(texts))
        rows = self._rows([(each.ids, each.type_ids) for each in found], request)
        if self._description.task is Task.EMBED:
            return (Tensor("embedding", Datatype.FP32, rows),)
        order = np.argsort(-rows, axis=1, kind="stable")
        labels = self._labels[order]
        scores = np.ascontiguousarray(np.take_along_axis(rows, order, axis=1))
        return (
            Tensor("labels", Datatype.BYTES, labels),
            Tensor("scores", Datatype.FP32, scores),
        )

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Close the graph."""
        self._graph.close()

    def _text(self, index: int, element: bytes) -> str:
        try:
            text = bytes(element).decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"input 'text': element {index} is not UTF-8 text (at byte {error.start})"
            ) from None
        text = f"{self._description.prompt}{text}"
        if self._description.strip:
            text = text.strip()
        return text.lower() if self._description.lower else text

    def _rows(
        self, encoded: Sequence[tuple[list[int], list[int]]], request: InferRequest
    ) -> Floats:
        """The scores or the embedding of each text."""
        groups: dict[int, list[int]] = {}
        for index, (ids, _) in enumerate(encoded):
            if not ids:
                raise InvalidRequest(f"input 'text': element {index} has no tokens")
            groups.setdefault(len(ids), []).append(index)
        size = self.outputs[-1].shape[1]
        result = np.zeros((len(encoded), max(size, 0)), np.float32)
        for count, members in groups.items():
            step = 1 if self._one_by_one else len(members)
            for start in range(0, len(members), step):
                part = members[start : start + step]
                rows = self._run([encoded[index] for index in part], count, request)
                if result.shape[1] != rows.shape[1]:
                    if size >= 0:
                        raise ModelFailed(
                            f"output '{self._output.name}' of the graph has {rows.shape[1]} "
                            f"numbers for each text: must be {size}"
                        )
                    # the graph does not say the size of its embeddings
                    result = np.zeros((len(encoded), rows.shape[1]), np.float32)
                    size = rows.shape[1]
                result[part] = rows
        return result

    def _run(
        self, encoded: Sequence[tuple[list[int], list[int]]], count: int, request: InferRequest
    ) -> Floats:
        """The rows of texts that have equally many tokens."""
        length = self._tokens if self._tokens > 0 else count
        feeds = {
            _IDS: np.full((len(encoded), length), self._description.pad_id, np.int64),
            _MASK: np.zeros((len(encoded), length), np.int64),
            _TYPES: np.zeros((len(encoded), length), np.int64),
        }
        feeds[_IDS][:, :count] = [ids for ids, _ in encoded]
        feeds[_MASK][:, :count] = 1
        feeds[_TYPES][:, :count] = [types for _, types in encoded]
        inputs = tuple(
            Tensor(name, spec.datatype, feeds[name].astype(NUMPY_DTYPE[spec.datatype]))
            for name, spec in self._inputs.items()
        )
        asked = (RequestedOutput(self._output.name),)
        call = InferRequest(request.model_name, request.model_version, inputs, asked)
        (answer,) = self._graph.infer(call)
        array = answer.array.astype(np.float32)
        if self._description.task is Task.CLASSIFY:
            return scored(array, self._description.scores)
        if array.ndim == 3:
            array = pooled(array, count, self._description.pooling)
        whole = normalized(array) if self._description.normalize else array
        return whole[:, : self._description.dimensions or None]


def _folder(graph: pathlib.Path) -> pathlib.Path:
    """The folder of the tokenizer: that of the graph, or the one above."""
    for folder in (graph.parent, graph.parent.parent):
        if (folder / TOKENIZER).is_file():
            return folder
    raise InvalidConfig(f"{graph.name} has no {TOKENIZER} beside it or in the folder above")


def _json(path: pathlib.Path, name: str) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidConfig(f"{name} cannot be read: {error.strerror}") from error
    if len(content) > _LIMIT_BYTES:
        raise InvalidConfig(f"{name} is too large: must have {_LIMIT_BYTES} bytes or fewer")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"{name} is not valid JSON: {sentence_of(error)}") from error


def _tokenizer(file: pathlib.Path, told: Description, limit: int) -> Any:
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        tokenizer.no_padding()
        if limit:
            own = tokenizer.truncation or {}
            side = told.truncation_side or own.get("direction", "right")
            tokenizer.enable_truncation(limit, direction=side)
        else:
            tokenizer.no_truncation()
    except BaseException as error:
        words = sentence_of(error).replace(str(file), file.name)
        raise InvalidConfig(f"{file.name} is not a valid tokenizer: {words}") from error
    return tokenizer


def _checked_inputs(specs: Sequence[TensorSpec]) -> Mapping[str, TensorSpec]:
    known = (_IDS, _MASK, _TYPES)
    for spec in specs:
        whole = spec.datatype in {Datatype.INT64, Datatype.INT32} and len(spec.shape) == 2
        if spec.name not in known or not whole or spec.shape[0] not in {-1, 1}:
            raise InvalidConfig(
                f"the graph has the input '{spec.name}' {spec.datatype} {list(spec.shape)}: must "
                f"have only {', '.join(known)}, INT64 or INT32 [-1, -1]"
            )
    inputs = {spec.name: spec for spec in specs}
    if _IDS not in inputs:
        raise InvalidConfig(f"the graph has no input '{_IDS}'")
    return inputs


def _output(specs: Sequence[TensorSpec], task: Task) -> TensorSpec:
    by_name = {spec.name: spec for spec in specs}
    found = next((by_name[name] for name in _OUTPUTS[task] if name in by_name), None)
    if found is None:
        raise InvalidConfig(
            f"the graph has no output for the task {task}: must have "
            f"{' or '.join(_OUTPUTS[task])}, but has {', '.join(by_name)}"
        )
    rank = 2 if found.name in {"logits", "sentence_embedding"} else 3
    if found.datatype not in _FLOATS or len(found.shape) != rank:
        raise InvalidConfig(
            f"the graph has the output '{found.name}' {found.datatype} {list(found.shape)}: must "
            f"have {rank} dimensions of floating-point numbers"
        )
    return found


def _labels(told: Description, output: TensorSpec) -> NDArray[np.object_]:
    """The labels of a classifier, as bytes."""
    labels = told.labels
    if told.task is Task.CLASSIFY:
        count = output.shape[1]
        labels = labels or tuple(f"LABEL_{index}" for index in range(max(count, 0)))
        if not labels:
            raise InvalidConfig("config.json: id2label is missing: must have the model's labels")
        if count not in {-1, len(labels)}:
            raise InvalidConfig(
                f"config.json: id2label has {len(labels)} labels, but the graph returns {count}"
            )
    return np.array([label.encode() for label in labels], np.object_)


def _declared(told: Description, labels: int, output: TensorSpec) -> tuple[TensorSpec, ...]:
    if told.task is Task.EMBED:
        size = output.shape[-1]
        kept = min(size, told.dimensions or size)
        return (TensorSpec("embedding", Datatype.FP32, (-1, kept)),)
    return (
        TensorSpec("labels", Datatype.BYTES, (-1, labels)),
        TensorSpec("scores", Datatype.FP32, (-1, labels)),
    )
