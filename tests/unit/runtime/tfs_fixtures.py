"""A fake dataplane with functions as models, for the TensorFlow Serving tests."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse
from moorage_runtime.frontends.tfs.rest import TfsRestFrontend
from moorage_runtime.values.errors import ModelNotFound, ModelNotReady, VersionNotFound
from moorage_runtime.values.inference import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatus,
    Signature,
)
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

Arrays = Mapping[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class FakeModel:
    """One version of a model: its declaration and function."""

    metadata: ModelMetadata
    compute: Callable[[Arrays], Arrays]
    state: str = "READY"
    message: str = ""


class FakeDataplane:
    """The interface for the frontend, without validation or threads."""

    def __init__(self, *models: FakeModel) -> None:
        self._models = models
        self.requests: list[InferRequest] = []
        self.is_quick = True

    def model_index(self) -> tuple[ModelStatus, ...]:
        return tuple(
            ModelStatus(m.metadata.name, m.metadata.version, m.state, m.message)
            for m in self._models
        )

    def check_scanned(self) -> None:
        """The repository has been read."""

    def model_ready(self, name: str, version: str = "") -> ModelStatus:
        model = self._find(name, version)
        return ModelStatus(name, model.metadata.version, model.state, model.message)

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        model = self._find(name, version)
        if model.state != "READY":
            raise ModelNotReady(f"model {name} is not ready")
        return model.metadata

    def begin(self, request: InferRequest) -> InferResponse | Awaitable[InferResponse]:
        return self._answer(request) if self.is_quick else self.infer(request)

    async def infer(self, request: InferRequest) -> InferResponse:
        return self._answer(request)

    def _answer(self, request: InferRequest) -> InferResponse:
        self.requests.append(request)
        model = self._find(request.model_name, request.model_version)
        results = model.compute({tensor.name: tensor.array for tensor in request.inputs})
        names = [output.name for output in request.outputs] or list(results)
        declared = {spec.name: spec.datatype for spec in model.metadata.outputs}
        outputs = tuple(Tensor(name, declared[name], results[name]) for name in names)
        return InferResponse(request.model_name, model.metadata.version, outputs)

    def _find(self, name: str, version: str) -> FakeModel:
        named = [model for model in self._models if model.metadata.name == name]
        if not named:
            raise ModelNotFound(f"no model {name}")
        if not version:
            return named[-1]
        for model in named:
            if model.metadata.version == version:
                return model
        raise VersionNotFound(f"no version {version} of {name}")


def spec(name: str, datatype: str, *shape: int, optional: bool = False) -> TensorSpec:
    return TensorSpec(name, Datatype(datatype), shape, optional=optional)


def metadata(
    name: str, inputs: Any, outputs: Any, version: str = "1", **rest: Any
) -> ModelMetadata:
    return ModelMetadata(
        name, version, (version,), "python_class", tuple(inputs), tuple(outputs), **rest
    )


def array(datatype: str, values: Any) -> NDArray[Any]:
    return np.array(values, NUMPY_DTYPE[Datatype(datatype)])


def half_plus_three(name: str, version: str, **rest: Any) -> FakeModel:
    declared = metadata(
        name, [spec("x", "FP32", -1)], [spec("y", "FP32", -1)], version=version, **rest
    )
    return FakeModel(declared, lambda arrays: {"y": arrays["x"] * np.float32(0.5) + 3})


def identity(name: str, *specs: TensorSpec, **rest: Any) -> FakeModel:
    return FakeModel(metadata(name, specs, specs, **rest), lambda arrays: arrays)


def iris() -> FakeModel:
    """Returns (cat 0.25, nameless 0.75) for every example."""

    def compute(arrays: Arrays) -> Arrays:
        batch = len(arrays["image"])
        return {
            "classes": array("BYTES", [[b"cat", b""]] * batch),
            "scores": array("FP32", [[0.25, 0.75]] * batch),
        }

    classify = Signature(
        "classify",
        {"image": "image", "caption": "caption"},
        {"classes": "classes", "scores": "scores"},
    )
    return FakeModel(
        metadata(
            "iris",
            [spec("image", "BYTES", -1), spec("caption", "BYTES", -1)],
            [spec("classes", "BYTES", -1, 2), spec("scores", "FP32", -1, 2)],
            signatures={"classify_objects": classify},
        ),
        compute,
    )


def sensor_regress() -> FakeModel:
    """Returns the last of an example's readings."""
    regress = Signature("regress", {"sensor_readings": "readings"}, {"outputs": "last"})
    return FakeModel(
        metadata(
            "sensor_regress",
            [spec("readings", "FP32", -1, -1)],
            [spec("last", "FP32", -1)],
            signatures={"serving_default": regress},
        ),
        lambda arrays: {"last": arrays["readings"][:, -1]},
    )


def two_out() -> FakeModel:
    """Two outputs with different lengths."""
    return FakeModel(
        metadata(
            "two_out",
            [spec("x", "FP32", -1)],
            [spec("a", "FP32", -1), spec("b", "INT64", 1)],
        ),
        lambda arrays: {"a": arrays["x"], "b": array("INT64", [len(arrays["x"])])},
    )


def multi() -> FakeModel:
    """Returns its three named inputs."""
    return identity(
        "multi",
        spec("tag", "BYTES", -1, 1),
        spec("signal", "INT32", -1, 5),
        spec("sensor", "INT32", -1, 2, 2),
    )


async def ask(dataplane: FakeDataplane, method: str, path: str, body: bytes = b"") -> HttpResponse:
    """One request through a new frontend."""
    request = HttpRequest(method, path, "", {}, body)
    answer = TfsRestFrontend(dataplane).handle(request)  # pyright: ignore[reportArgumentType] # a fake
    return answer if isinstance(answer, HttpResponse) else await answer
