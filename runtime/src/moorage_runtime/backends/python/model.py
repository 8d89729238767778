"""Models that are a Python class: ``model.py`` beside a :class:`PythonModel`.

    from moorage_runtime.backends.python import PythonModel

    class Doubler(PythonModel):
        inputs = [("x", "FP32", [-1])]
        outputs = [("y", "FP32", [-1])]

        def predict(self, inputs, request):
            return {"y": inputs["x"] * 2}

The file may import its neighbours with relative imports. It runs with the permissions of the
server: a model repository is code, not data.
"""

import gc
import hashlib
import importlib.util
import inspect
import itertools
import logging
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Final, cast

import msgspec
from numpy.typing import NDArray

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import contained, sentence_of
from moorage_runtime.backends.python import methods, neighbours
from moorage_runtime.backends.python.own_http import checked
from moorage_runtime.backends.returned import tensor_of
from moorage_runtime.settings import logs
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import NO_SIGNATURES, HttpCall, HttpReply, InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

log = logging.getLogger(__name__)

# A declared tensor: (name, datatype, shape), shape with -1 for a variable dimension.
Declared = tuple[str, str, Sequence[int]]
# A result of predict: output name to an array, anything that numpy converts to one, or a Tensor.
Answer = Mapping[str, Any]

# Name of the module in the package that represents the folder of model.py.
_MODULE: Final = "model"
# First segments of the protocols' paths.
_PROTOCOL_PATHS: Final = ("", "v1", "v2", "grps", "metrics")


class ModelContext(msgspec.Struct, frozen=True):
    """Information about the model for ``load``.

    Attributes:
        name: The model's name.
        version: The version's name.
        folder: The folder of model.py, for weights and vocabularies beside it.
        parameters: ``parameters`` of model.yaml.
    """

    name: str
    version: str
    folder: pathlib.Path
    parameters: Mapping[str, Any]


class PythonModel:
    """Base of models written in Python.

    Attributes:
        inputs: Declared inputs, against which requests are checked. Without any, the model accepts
            any tensors.
        outputs: Declared outputs.
        http_path: Path of ``http``, such as "/generate"; "" without one.
        http_predict: ``http`` also handles GRPS's predict path.
    """

    inputs: ClassVar[Sequence[Declared]] = ()
    outputs: ClassVar[Sequence[Declared]] = ()
    http_path: ClassVar[str] = ""
    http_predict: ClassVar[bool] = False

    def load(self, context: ModelContext) -> None:
        """Called once, in a worker thread, before the first request; raise an exception on
        failure.
        """

    def predict(self, inputs: dict[str, NDArray[Any]], request: InferRequest) -> Answer:
        """Answer one request; called from several threads at once.

        Args:
            inputs: Input name to array; BYTES arrays contain ``bytes``.
            request: The whole request, with its id, parameters and requested outputs.

        Returns:
            Output name to array.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither predict nor stream")

    def stream(self, inputs: dict[str, NDArray[Any]], request: InferRequest) -> Iterator[Answer]:
        """Answer one request in parts; by default the single result of ``predict``."""
        yield self.predict(inputs, request)

    def http(self, call: HttpCall) -> HttpReply:
        """Answer a GET or POST at ``http_path`` in the model's own format.

        If the body is an iterator, its parts are streamed. Source: GRPS, custom HTTP (R3-110).
        """
        raise NotImplementedError(f"{type(self).__name__} has an http_path, but no http method")

    def close(self) -> None:
        """Called when the model is unloaded."""


class PythonBackend:
    """Imports model.py and creates an object of its class."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Import, construct and load the model.

        Raises:
            InvalidConfig: The file cannot be imported, has no such class, declares an invalid
                tensor, has no method that answers requests, or its ``load`` raised an exception.
        """
        try:
            return self._load(source)
        except InvalidConfig as fault:
            # without the trace, which refers to what the model has loaded
            failure = InvalidConfig(fault.message)
        finally:
            logs.enable()
        gc.collect()
        raise failure

    def _load(self, source: ModelSource) -> LoadedModel:
        module = _import(source)
        try:
            neighbours.check(source.path, module)
            return self._loaded(module, source)
        except BaseException:
            _forget(module)
            raise

    def _loaded(self, module: ModuleType, source: ModelSource) -> LoadedModel:
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
            inputs = source.inputs or _declared(source, chosen, "inputs")
            outputs = source.outputs or _declared(source, chosen, "outputs")
            _check_http_path(source, chosen)
            methods.check(source.path.name, model, PythonModel)
            return PythonServable(module, source.path, model, inputs, outputs)
        except InvalidConfig:
            raise
        except BaseException as error:
            logs.enable()
            log.exception("the model's load method raised an exception")
            raise InvalidConfig(
                f"{source.path.name}: {chosen.__name__} failed to load: {sentence_of(error)}"
            ) from error


class PythonServable:
    """Converts between the tensors of the runtime and the arrays of a PythonModel.

    Args:
        module: What the model was imported as; forgotten with the model.
        path: Its file.
        model: The model.
        inputs: Its inputs.
        outputs: Its outputs.
    """

    platform = "python_callable"
    signatures = NO_SIGNATURES
    inline_rows = 0
    merge_obstacle = "a Python class may combine the rows of a batch"

    def __init__(
        self,
        module: ModuleType,
        path: pathlib.Path,
        model: PythonModel,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.dynamic = not inputs
        self.streams = type(model).stream is not PythonModel.stream
        self.http_path = model.http_path
        self.http_predict = model.http_predict
        self._module = module
        self._path = path
        self._model = model
        self._datatypes = {spec.name: spec.datatype for spec in outputs}

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Call ``predict``; for a model that only streams, return the last part."""
        if type(self._model).predict is PythonModel.predict and self.streams:
            parts = list(self.stream(request))
            return parts[-1] if parts else ()
        return contained(lambda: self._tensors(self._model.predict(_arrays(request), request)))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Call ``stream`` and yield each part."""
        answers = contained(lambda: iter(self._model.stream(_arrays(request), request)))
        try:
            while (parts := contained(lambda: self._next_part(answers))) is not None:
                yield parts
        finally:
            close = getattr(answers, "close", None)
            if close is not None:
                contained(close)

    def http(self, call: HttpCall) -> HttpReply:
        """Call ``http``, with errors that clients may see."""
        return contained(lambda: checked(self._model.http(call)))

    def close(self) -> None:
        """Close the model, and free its modules; its exceptions are logged."""
        try:
            self._model.close()
        except BaseException:
            log.exception("the model's close method raised an exception")
        _forget(self._module)
        neighbours.forget(self._path)
        self._module, self._model = ModuleType(_MODULE), PythonModel()
        # functions refer to their module, which refers to them: weights of a module would stay
        # until the interpreter next looks for cycles, which takes it hours in a quiet server
        gc.collect()

    def _next_part(self, answers: Iterator[Answer]) -> tuple[Tensor, ...] | None:
        """The next part, or None at the end."""
        for answer in answers:
            return self._tensors(answer)
        return None

    def _tensors(self, answer: object) -> tuple[Tensor, ...]:
        if not isinstance(answer, Mapping):
            raise ModelFailed(
                f"the model returned {type(answer).__name__}: must return a dict of output name "
                "to array"
            )
        items = cast("Mapping[str, Any]", answer).items()
        return tuple(
            tensor_of(str(name), value, self._datatypes.get(name)) for name, value in items
        )


def _import(source: ModelSource) -> ModuleType:
    """Import the file as a module of a package of its own, so that models cannot collide."""
    # Python would take the compiled files of replaced ones with the same size and second of change
    sys.dont_write_bytecode = True
    # nor does it see a file that was added in the second in which it read the folder
    importlib.invalidate_caches()
    package = _package(source.path)
    name = f"{package.__name__}.{_MODULE}"
    spec = importlib.util.spec_from_file_location(name, source.path)
    if spec is None or spec.loader is None:
        _forget(package)
        raise InvalidConfig(f"{source.path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        neighbours.forget(source.path)
        spec.loader.exec_module(module)
    except InvalidConfig:
        _forget(module)
        raise
    except BaseException as error:
        _forget(module)
        logs.enable()
        log.exception("the model's own code raised an exception during its import")
        raise InvalidConfig(
            f"{source.path.name} cannot be imported: {sentence_of(error)}"
        ) from error
    return module


def _package(path: pathlib.Path) -> ModuleType:
    """A new package for the folder of the file.

    Its name is that of the last one, unless the content before it still serves: that may import
    its neighbours at any time.
    """
    name = f"moorage_model_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    package = ModuleType(name)
    package.__path__ = [str(path.parent)]
    numbers = itertools.count(2)
    while sys.modules.setdefault(package.__name__, package) is not package:
        package.__name__ = f"{name}_{next(numbers)}"
    return package


def _forget(module: ModuleType) -> None:
    """Remove the package of model.py, which is this module or contains it."""
    package = module.__name__.partition(".")[0]
    # other threads import and forget modules at the same time
    for name in list(sys.modules):
        if name.partition(".")[0] == package:
            sys.modules.pop(name, None)


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
            f"PythonModel: must be one of {', '.join(sorted(found)) or 'none'}"
        )
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise InvalidConfig(f"{source.path.name} has no class that extends PythonModel")
    raise InvalidConfig(
        f"{source.path.name} has several classes that extend PythonModel "
        f"({', '.join(sorted(found))}): name one as python_class in model.yaml"
    )


def _check_http_path(source: ModelSource, chosen: type[PythonModel]) -> None:
    path = chosen.http_path
    if chosen.http_predict and not path:
        raise InvalidConfig(
            f"{source.path.name}: {chosen.__name__}.http_predict requires http_path"
        )
    if path and (not path.startswith("/") or path.split("/")[1] in _PROTOCOL_PATHS):
        raise InvalidConfig(
            f"{source.path.name}: {chosen.__name__}.http_path is {path!r:.100}: must be a path "
            f"such as '/generate' that starts with none of /{', /'.join(_PROTOCOL_PATHS[1:])}"
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
                f"{source.path.name}: {chosen.__name__}.{field}[{index}] is {item!r:.100}: must "
                "be (name, datatype, shape) with a shape such as [-1, 4] and a datatype of "
                f"{', '.join(Datatype)}"
            ) from error
        if any(spec.name == specs[-1].name for spec in specs[:-1]):
            raise InvalidConfig(
                f"{source.path.name}: {chosen.__name__}.{field}[{index}]: '{specs[-1].name}' is "
                "already the name of another tensor: must be unique"
            )
    return tuple(specs)


def _arrays(request: InferRequest) -> dict[str, NDArray[Any]]:
    return {tensor.name: tensor.array for tensor in request.inputs}
