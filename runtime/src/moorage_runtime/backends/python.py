"""Models that are a Python class: ``model.py`` beside a :class:`PythonModel`.

    from moorage_runtime.backends.python import PythonModel

    class Doubler(PythonModel):
        inputs = [("x", "FP32", [-1])]
        outputs = [("y", "FP32", [-1])]

        def predict(self, inputs, request):
            return {"y": inputs["x"] * 2}

The file may import its neighbours by relative import. It runs with the rights of the server: a
model repository is code, not data.
"""

import hashlib
import importlib.util
import inspect
import logging
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.errors import InvalidConfig, ModelFailed, RuntimeFault
from moorage_runtime.inference import InferRequest
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

log = logging.getLogger(__name__)

# How a class declares a tensor: (name, datatype, shape), shape with -1 for a variable dimension.
Declared = tuple[str, str, Sequence[int]]
# What predict may give for one output: an array or anything numpy makes one of, or a Tensor.
Answer = Mapping[str, Any]

_DATATYPE_OF: Final = {
    dtype: datatype
    for datatype, dtype in NUMPY_DTYPE.items()
    if datatype not in (Datatype.BF16, Datatype.BYTES)
}
# The module that model.py becomes inside the package that stands for its folder.
_MODULE: Final = "model"


class ModelContext(msgspec.Struct, frozen=True):
    """What ``load`` learns of the model.

    Attributes:
        name: The model's name.
        version: The version's name.
        folder: The folder that model.py lies in, for weights and vocabularies beside it.
        parameters: ``parameters`` of model.yaml.
    """

    name: str
    version: str
    folder: pathlib.Path
    parameters: Mapping[str, Any]


class PythonModel:
    """Base of models written in Python.

    Attributes:
        inputs: Declared inputs; requests are checked against them. Without any, the model takes
            whatever comes.
        outputs: Declared outputs.
    """

    inputs: ClassVar[Sequence[Declared]] = ()
    outputs: ClassVar[Sequence[Declared]] = ()

    def load(self, context: ModelContext) -> None:
        """Called once, in a worker thread, before the first request; raise when it fails."""

    def predict(self, inputs: dict[str, NDArray[Any]], request: InferRequest) -> Answer:
        """Answer one request; called from several threads at once.

        Args:
            inputs: Input name to array; BYTES arrays hold ``bytes``.
            request: The whole request, with its id, parameters and requested outputs.

        Returns:
            Output name to array.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither predict nor stream")

    def stream(self, inputs: dict[str, NDArray[Any]], request: InferRequest) -> Iterator[Answer]:
        """Answer one request in parts; by default the one part that ``predict`` gives."""
        yield self.predict(inputs, request)

    def close(self) -> None:
        """Called when the model is unloaded."""


class PythonBackend:
    """Imports model.py and makes one object of its class."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Import, construct and load the model.

        Raises:
            InvalidConfig: The file does not import, has no such class, declares a wrong tensor,
                or its ``load`` raised.
        """
        module = _import(source)
        chosen = _class_of(module, source)
        try:
            model = chosen()
            model.load(
                ModelContext(
                    source.name,
                    source.version,
                    source.path.parent,
                    source.options.get("parameters", {}),
                )
            )
        except Exception as error:
            log.exception("the model's own code failed while loading")
            raise InvalidConfig(
                f"{source.path.name}: {chosen.__name__} failed to load: {_sentence(error)}"
            ) from error
        inputs = source.inputs or _declared(source, chosen, "inputs")
        outputs = source.outputs or _declared(source, chosen, "outputs")
        return PythonServable(model, inputs, outputs)


class PythonServable:
    """Between the tensors of the runtime and the arrays of a PythonModel."""

    platform = "python_callable"
    steady = False

    def __init__(
        self,
        model: PythonModel,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.dynamic = not inputs
        self.streams = type(model).stream is not PythonModel.stream
        self._model = model
        self._datatypes = {spec.name: spec.datatype for spec in outputs}

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """``predict``; of a model that only streams, the last part."""
        if type(self._model).predict is PythonModel.predict and self.streams:
            parts = list(self.stream(request))
            return parts[-1] if parts else ()
        try:
            answer = self._model.predict(_arrays(request), request)
        except Exception as error:
            raise _fault(error) from error
        return self._tensors(answer)

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """``stream``, part by part."""
        try:
            for answer in self._model.stream(_arrays(request), request):
                yield self._tensors(answer)
        except Exception as error:
            raise _fault(error) from error

    def close(self) -> None:
        """Tell the model; what it raises is logged."""
        try:
            self._model.close()
        except Exception:
            log.exception("the model's own code failed while closing")

    def _tensors(self, answer: object) -> tuple[Tensor, ...]:
        if not isinstance(answer, Mapping):
            raise ModelFailed(
                f"the model returned {type(answer).__name__}, expected a dict of output name to "
                "array"
            )
        items = cast("Mapping[str, Any]", answer).items()
        return tuple(_tensor(str(name), value, self._datatypes.get(name)) for name, value in items)


def _import(source: ModelSource) -> ModuleType:
    """Import the file as a module of a package of its own, so that models never collide."""
    digest = hashlib.sha256(str(source.path).encode()).hexdigest()[:12]
    package_name = f"moorage_model_{digest}"
    package = ModuleType(package_name)
    package.__path__ = [str(source.path.parent)]
    name = f"{package_name}.{_MODULE}"
    _forget(package_name)
    sys.modules[package_name] = package
    spec = importlib.util.spec_from_file_location(name, source.path)
    if spec is None or spec.loader is None:
        raise InvalidConfig(f"{source.path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        _forget(package_name)
        log.exception("the model's own code failed while it was imported")
        raise InvalidConfig(f"{source.path.name} does not import: {_sentence(error)}") from error
    return module


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name.split(".", 1)[0] == package]:
        del sys.modules[name]


def _class_of(module: ModuleType, source: ModelSource) -> type[PythonModel]:
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, PythonModel)
        and value.__module__ == module.__name__
    }
    wanted = source.options.get("python_class")
    if wanted is not None:
        if wanted in found:
            return found[wanted]
        raise InvalidConfig(
            f"model.yaml: python_class: {source.path.name} has no class '{wanted}' that extends "
            f"PythonModel, it has {', '.join(sorted(found)) or 'none'}"
        )
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise InvalidConfig(f"{source.path.name} has no class that extends PythonModel")
    raise InvalidConfig(
        f"{source.path.name} has several classes that extend PythonModel "
        f"({', '.join(sorted(found))}): name one as python_class in model.yaml"
    )


def _declared(
    source: ModelSource, chosen: type[PythonModel], field: str
) -> tuple[TensorSpec, ...]:
    specs: list[TensorSpec] = []
    for index, item in enumerate(getattr(chosen, field)):
        try:
            name, datatype, shape = item
            specs.append(
                TensorSpec(str(name), Datatype(datatype), tuple(int(size) for size in shape))
            )
        except (TypeError, ValueError) as error:
            raise InvalidConfig(
                f"{source.path.name}: {chosen.__name__}.{field}[{index}] is {item!r:.100}, "
                f"expected (name, datatype, shape) with a datatype of {', '.join(Datatype)}"
            ) from error
    return tuple(specs)


def _arrays(request: InferRequest) -> dict[str, NDArray[Any]]:
    return {tensor.name: tensor.array for tensor in request.inputs}


def _tensor(name: str, value: object, declared: Datatype | None) -> Tensor:
    """An output as a tensor of its declared datatype, else of the array's own."""
    if isinstance(value, Tensor):
        return Tensor(name, value.datatype, value.array, value.parameters)
    array = _array(value, declared)
    datatype = declared or _DATATYPE_OF.get(array.dtype)
    if array.dtype.kind in "OSU" and datatype in (None, Datatype.BYTES):
        return Tensor(name, Datatype.BYTES, _as_bytes(name, array))
    if datatype is None:
        raise ModelFailed(
            f"output '{name}' of the model is an array of {array.dtype}, which has no datatype"
        )
    dtype = NUMPY_DTYPE[datatype]
    if array.dtype != dtype:
        if not np.can_cast(array.dtype, dtype, "same_kind") or datatype is Datatype.BYTES:
            raise ModelFailed(
                f"output '{name}' of the model is an array of {array.dtype}, expected {datatype}"
            )
        array = array.astype(dtype)
    return Tensor(name, datatype, np.ascontiguousarray(array).reshape(array.shape))


def _array(value: object, declared: Datatype | None) -> NDArray[Any]:
    """The array of what a model returned; lists of text become objects.

    numpy's own types for text have a fixed size, which drops NUL bytes at the end.
    """
    array = np.asarray(value)
    is_text = array.dtype.kind in "SU" and declared in (None, Datatype.BYTES)
    return np.asarray(value, np.object_) if is_text and array is not value else array


def _as_bytes(name: str, array: NDArray[Any]) -> NDArray[np.object_]:
    elements: list[bytes] = []
    for element in array.reshape(-1).tolist():
        if isinstance(element, str):
            elements.append(element.encode("utf-8", "surrogateescape"))
        elif isinstance(element, bytes | bytearray):
            elements.append(bytes(element))
        else:
            raise ModelFailed(
                f"output '{name}' of the model holds {type(element).__name__}, expected str or "
                "bytes"
            )
    result = np.empty(array.shape, dtype=np.object_)
    result.reshape(-1)[:] = elements
    return result


def _fault(error: Exception) -> RuntimeFault:
    if isinstance(error, RuntimeFault):
        return error
    log.error("the model's own code failed", exc_info=error)
    return ModelFailed(f"the model failed: {_sentence(error)}")


def _sentence(error: Exception) -> str:
    """The kind of an error and the first line of its text, for clients: no trace."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__
