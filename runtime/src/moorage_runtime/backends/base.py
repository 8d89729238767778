"""What a backend is: a way to turn a model's files into something that runs.

    loader -> Backend.load(ModelSource) -> LoadedModel; dataplane -> LoadedModel.infer / .stream

Both calls block and run in worker threads; a LoadedModel must be usable from several threads.
"""

import pathlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from moorage_runtime.inference import HttpCall, HttpReply, InferRequest, Signature
from moorage_runtime.tensors import Tensor, TensorSpec

NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})


class ModelSource(msgspec.Struct, frozen=True):
    """One version of a model, ready to be loaded.

    Attributes:
        name: The model's name.
        version: The version's name.
        path: The model file.
        inputs: Inputs declared in model.yaml, None when it declares none.
        outputs: Outputs declared in model.yaml, None when it declares none.
        options: Options of the backend, by name.
        threads: Processor cores that this process may use.
    """

    name: str
    version: str
    path: pathlib.Path
    inputs: tuple[TensorSpec, ...] | None = None
    outputs: tuple[TensorSpec, ...] | None = None
    options: Mapping[str, Any] = NO_OPTIONS
    threads: int = 1


class LoadedModel(Protocol):
    """A model in memory.

    Attributes:
        platform: Platform name, OIP "Platforms".
        inputs: What it takes.
        outputs: What it gives; an optional one only when a request names it.
        signatures: TensorFlow Serving signatures that the files declare; model.yaml's replace
            them.
        dynamic: It takes whatever tensors come.
        steady: Equal shapes cost equal time and never block, so that a cheap inference may run
            in the event loop.
        streams: ``stream`` can yield more than once.
        row_wise: The library computes every row of a batch by itself unless the model says
            otherwise, so that merging requests is worth a trial unasked.
    """

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    signatures: Mapping[str, Signature]
    dynamic: bool
    steady: bool
    streams: bool
    row_wise: bool

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run once; at least the requested outputs, in any order.

        Raises:
            InvalidRequest: The model finds the request wrong.
            ModelFailed: The model or its library raised.
        """
        ...

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Run, yielding each part of the answer when it is there; raises as ``infer``."""
        ...

    def close(self) -> None:
        """Free what the model holds."""
        ...


@runtime_checkable
class HttpModel(Protocol):
    """A loaded model that answers HTTP in a format of its own.

    Attributes:
        http_path: Where; it begins with "/" and is no path of a protocol.
        http_predict: At GRPS's predict path as well.
    """

    http_path: str
    http_predict: bool

    def http(self, call: HttpCall) -> HttpReply:
        """Answer; raises as ``LoadedModel.infer``."""
        ...


class Backend(Protocol):
    """Loads models of one format."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a model; blocks.

        Raises:
            InvalidConfig: The files or the configuration are wrong; the message says what.
        """
        ...
