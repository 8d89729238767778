"""The interface of backends, which load a model's files.

    loader -> Backend.load(ModelSource) -> LoadedModel; dataplane -> LoadedModel.infer / .stream

Both calls block and run in worker threads. A LoadedModel must be thread-safe.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from moorage_runtime.values.inference import HttpCall, HttpReply, InferRequest, Signature
from moorage_runtime.values.tensors import Tensor, TensorSpec

NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})


def _unreported(activity: str) -> None:
    """Ignore what a load is doing."""


class ModelSource(msgspec.Struct, frozen=True):
    """One version of a model to load.

    Attributes:
        name: The model's name.
        version: The version's name.
        path: The model file.
        inputs: Inputs declared in model.yaml, or None.
        outputs: Outputs declared in model.yaml, or None.
        options: Options of the backend, by name.
        threads: Processor cores that this process may use.
        declared_in: What declares the inputs and outputs, for messages.
        report: Receives what a load that takes minutes is doing, for clients that wait for the
            model, and "" when that is done; called in any thread.
    """

    name: str
    version: str
    path: pathlib.Path
    inputs: tuple[TensorSpec, ...] | None = None
    outputs: tuple[TensorSpec, ...] | None = None
    options: Mapping[str, Any] = NO_OPTIONS
    threads: int = 1
    declared_in: str = "model.yaml"
    report: Callable[[str], None] = _unreported


class LoadedModel(Protocol):
    """A model in memory.

    Attributes:
        platform: Platform name, OIP "Platforms".
        inputs: Declared inputs.
        outputs: Declared outputs; an optional one is returned only on request.
        signatures: TensorFlow Serving signatures in the model's files; those in model.yaml replace
            them.
        dynamic: The model accepts any tensors.
        inline_rows: Rows of the largest request that provably runs in less time than the transfer
            to a thread takes; 0 without such a proof.
        streams: ``stream`` can yield more than once.
        merge_obstacle: Why requests are not merged unless model.yaml enables it; "" if the rows of
            a batch are provably independent of each other.
    """

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    signatures: Mapping[str, Signature]
    dynamic: bool
    inline_rows: int
    streams: bool
    merge_obstacle: str

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run once; returns at least the requested outputs, in any order.

        Raises:
            InvalidRequest: The model refuses the request.
            ModelFailed: The model or its library raised an exception.
        """
        ...

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Run, and yield each part of the response as it arrives; raises like ``infer``."""
        ...

    def close(self) -> None:
        """Free the model's resources."""
        ...


@runtime_checkable
class HttpModel(Protocol):
    """A loaded model with its own HTTP format.

    Attributes:
        http_path: Its path, which starts with "/" and is not a path of a protocol.
        http_predict: Whether it also handles GRPS's predict path.
    """

    http_path: str
    http_predict: bool

    def http(self, call: HttpCall) -> HttpReply:
        """Answer a request; raises like ``LoadedModel.infer``."""
        ...


@runtime_checkable
class Supervised(Protocol):
    """A loaded model that can be temporarily unavailable, such as while its process restarts."""

    def problem(self) -> str:
        """Why it cannot currently answer; "" if it can."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Register a callback for changes of ``problem``, which is called in any thread."""
        ...


class Backend(Protocol):
    """Loads models of one format."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a model; blocks.

        Raises:
            InvalidConfig: The files or the configuration are invalid; the message says why.
        """
        ...
