"""A fake dataplane with functions as models and a readiness that tests can change."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.values import validation
from moorage_runtime.values.errors import ModelNotFound, ModelNotReady, VersionNotFound
from moorage_runtime.values.inference import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatus,
    ServerMetadata,
)
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

Arrays = Mapping[str, NDArray[Any]]


@dataclasses.dataclass
class FakeModel:
    """One version of a model: its declaration, function and state."""

    metadata: ModelMetadata
    compute: Callable[[Arrays], Arrays]
    state: str = "READY"
    message: str = ""


class FakeDataplane:
    """The interface for frontends, without threads."""

    def __init__(self, *models: FakeModel) -> None:
        self.models = list(models)
        self.requests: list[InferRequest] = []
        self.is_online = True
        self.is_draining = False
        self.is_quick = True
        self._callbacks: list[Callable[[], None]] = []

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return (
            self.is_online
            and not self.is_draining
            and all(model.state == "READY" for model in self.models)
        )

    def repository_problem(self) -> str:
        return ""

    def accepting(self) -> bool:
        return not self.is_draining

    def drain(self) -> None:
        self.is_draining = True
        self.announce()

    def announce(self) -> None:
        for callback in self._callbacks:
            callback()

    def on_readiness_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def server_metadata(self) -> ServerMetadata:
        return ServerMetadata("moorage-runtime", "0.1.0", ("binary_tensor_data",))

    def model_index(self) -> tuple[ModelStatus, ...]:
        return tuple(
            ModelStatus(m.metadata.name, m.metadata.version, m.state, m.message)
            for m in self.models
        )

    def labelled(self, label: str) -> tuple[str, str] | None:
        for found in self.model_index():
            if label == f"{found.name}-{found.version}":
                return found.name, found.version
        return (label, "") if label in {each.name for each in self.model_index()} else None

    def check_scanned(self) -> None:
        """The repository has been read."""

    def model_ready(self, name: str, version: str = "") -> ModelStatus:
        model = self._find(name, version)
        if self.is_draining and model.state == "READY":
            message = "the server is shutting down"
            return ModelStatus(name, model.metadata.version, "UNLOADED", message)
        return ModelStatus(name, model.metadata.version, model.state, model.message)

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        model = self._find(name, version)
        if model.state != "READY":
            raise ModelNotReady(f"model '{name}' is not ready")
        return model.metadata

    async def infer(self, request: InferRequest) -> InferResponse:
        return self._answer(request)

    async def infer_stream(self, request: InferRequest) -> AsyncIterator[InferResponse]:
        yield self._answer(request)

    def begin(self, request: InferRequest) -> InferResponse | Awaitable[InferResponse]:
        return self._answer(request) if self.is_quick else self.infer(request)

    def _answer(self, request: InferRequest) -> InferResponse:
        self.requests.append(request)
        metadata = self.model_metadata(request.model_name, request.model_version)
        rules = validation.rules_of(metadata)
        rules.check(request)
        compute = self._find(request.model_name, request.model_version).compute
        results = compute({tensor.name: tensor.array for tensor in request.inputs})
        outputs = [Tensor(s.name, s.datatype, results[s.name]) for s in metadata.outputs]
        return InferResponse(metadata.name, metadata.version, rules.select(request, outputs))

    def _find(self, name: str, version: str) -> FakeModel:
        named = [model for model in self.models if model.metadata.name == name]
        if not named:
            raise ModelNotFound(f"no model '{name}'")
        if not version:
            return named[-1]
        for model in named:
            if model.metadata.version == version:
                return model
        raise VersionNotFound(f"no version '{version}' of model '{name}'")


def spec(name: str, datatype: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, Datatype(datatype), shape)


def model(  # the columns of a table of models
    name: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    compute: Callable[[Arrays], Arrays],
    *,
    version: str = "1",
    batching: bool = False,
) -> FakeModel:
    metadata = ModelMetadata(
        name, version, (version,), "onnx_onnxv1", inputs, outputs, batching=batching
    )
    return FakeModel(metadata, compute)


def identity(name: str, datatype: str, *shape: int, version: str = "1") -> FakeModel:
    """``y = x``."""
    return model(
        name,
        (spec("x", datatype, *shape),),
        (spec("y", datatype, *shape),),
        lambda arrays: {"y": arrays["x"]},
        version=version,
        batching=version == "v10",
    )


def seed_models() -> tuple[FakeModel, ...]:
    """The models of the protocol's own examples, and identities of several datatypes."""
    constant = np.array([[1.0, 1.1], [2.0, 2.1], [3.0, 3.1]], np.float32)
    return (
        model(
            "mymodel",
            (spec("input0", "UINT32", 2, 2), spec("input1", "BOOL", 3)),
            (spec("output0", "FP32", 3, 2),),
            lambda _: {"output0": constant},
        ),
        identity("my_model", "FP32", -1, 4, version="v10"),
        identity("identity_fp32", "FP32", -1),
        identity("identity_2d_int32", "INT32", -1, -1),
        identity("identity_bytes", "BYTES", -1),
        identity("identity_bytes1", "BYTES", 1),
        identity("identity_uint8", "UINT8", -1),
        identity("identity_fp16", "FP16", -1),
        identity("identity_bf16", "BF16", -1),
        model(
            "two_out",
            (spec("x", "FP32", -1),),
            (spec("a", "FP32", -1), spec("b", "INT64", 1)),
            lambda arrays: {"a": arrays["x"], "b": np.array([len(arrays["x"])], np.int64)},
        ),
    )
