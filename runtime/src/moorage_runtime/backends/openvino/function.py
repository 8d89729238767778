"""One function of an OpenVINO model: compiled on demand, and used by many threads.

    OpenvinoModel -> OpenvinoFunction.run -> compiled form for these ranks -> copied outputs

The library compiles for a fixed number of dimensions. An input of any shape has one compiled form
for each number of dimensions in requests.
"""

import collections
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends import empty_inputs
from moorage_runtime.backends.openvino.library import Port, ov, text_of
from moorage_runtime.backends.openvino.operators import repaired
from moorage_runtime.backends.openvino.shapes import ShapeGuard, guard_of
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules

NO_LABELS: Final[Mapping[str, NDArray[np.object_]]] = MappingProxyType({})
# Maximum number of compiled forms per function, so that clients cannot fill the memory.
_MOST_FORMS: Final = 8

# The library computes them as INT32, and keeps only the lower bits of larger numbers.
_NARROWED: Final = frozenset({Datatype.INT64, Datatype.UINT64, Datatype.UINT32})
_LOWEST: Final = -(2**31)
_HIGHEST: Final = 2**31 - 1

Ranks = tuple[int, ...]


class CompileOptions(msgspec.Struct, frozen=True):
    """How functions are compiled.

    Attributes:
        core: The library.
        threads: Processor cores that one run may use.
    """

    core: ov.Core
    threads: int

    def compile(self, model: ov.Model) -> ov.CompiledModel:
        """Compile for the CPU; raises the library's exceptions."""
        config = {
            # By default, the library uses all cores of the host, regardless of the container. With
            # one thread it loses errors, see openvino.shapes.
            "INFERENCE_NUM_THREADS": max(2, self.threads),
            "PERFORMANCE_HINT": "LATENCY",
            # otherwise, some CPUs compute in bfloat16, regardless of the model
            "EXECUTION_MODE_HINT": "ACCURACY",
        }
        return self.core.compile_model(repaired(model), "CPU", config)


class OpenvinoFunction:
    """One function; each of the library's requests is used by one thread at a time.

    Args:
        model: The result of the library's reader.
        options: How to compile it.
        inputs: In the order of the model's inputs.
        outputs: In the order of the model's outputs, then those of constant labels.
        labels: Output name to one row of labels, which is the same for every example.
    """

    def __init__(
        self,
        model: ov.Model,
        options: CompileOptions,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        labels: Mapping[str, NDArray[np.object_]] = NO_LABELS,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.input_names = frozenset(spec.name for spec in inputs)
        self.output_names = frozenset(spec.name for spec in outputs)
        self.rules = RequestRules(inputs, outputs, dynamic=False)
        self.takes_any_shape = any(spec.any_shape for spec in inputs)
        self._narrowed = [
            spec.name
            for spec, port in zip(inputs, model.inputs, strict=True)
            if spec.datatype in _NARROWED and _is_computed(port)
        ]
        self._model: ov.Model | None = model
        self._options = options
        self._labels = labels
        self._computed = [spec for spec in outputs if spec.name not in labels]
        self._compiling = threading.Lock()
        self._own_ranks = tuple(len(spec.shape) for spec in inputs)
        self._forms: dict[Ranks, _CompiledForm | str] = {}

    def prepare(self) -> None:
        """Compile for the inputs' own shapes; raises the library's exceptions."""
        with self._compiling:
            if self._own_ranks not in self._forms:
                self._forms[self._own_ranks] = self._compile(self._own_ranks)

    def run(self, request: InferRequest) -> tuple[Tensor, ...]:
        """All outputs; the arrays own their memory.

        Raises:
            InvalidRequest: The function does not accept inputs of these shapes, fails on an empty
                one, or an integer needs more than 32 bits.
            ModelFailed: The library raised an exception.
        """
        given = {tensor.name: tensor for tensor in request.inputs}
        tensors = [given[spec.name] for spec in self.inputs]
        for name in self._narrowed:
            _check_range(given[name])
        try:
            arrays = self._form(tensors).run(tensors, self._computed)
        except InvalidRequest:
            raise
        except Exception as error:
            message = f"OpenVINO: {text_of(error)}"
            if self.takes_any_shape and not self._have_own_shapes(tensors):
                raise InvalidRequest(message) from error
            raise empty_inputs.failed(message, tensors) from error
        outputs = [
            Tensor(spec.name, spec.datatype, array)
            for spec, array in zip(self._computed, arrays, strict=True)
        ]
        batch = tensors[0].shape[0] if self._labels else 0
        outputs.extend(
            Tensor(name, Datatype.BYTES, np.repeat(labels, batch, axis=0))
            for name, labels in self._labels.items()
        )
        return tuple(outputs)

    def _form(self, tensors: list[Tensor]) -> "_CompiledForm":
        ranks = self._own_ranks
        if self.takes_any_shape:
            ranks = tuple(tensor.array.ndim for tensor in tensors)
        form = self._forms.get(ranks)
        if form is None:
            with self._compiling:
                form = self._forms.get(ranks)
                if form is None:
                    form = self._forms[ranks] = self._attempt(ranks)
        if isinstance(form, str):
            raise InvalidRequest(form)
        return form

    def _attempt(self, ranks: Ranks) -> "_CompiledForm | str":
        """The form for these numbers of dimensions, or the reason why there is none."""
        if ranks == self._own_ranks:
            return self._compile(ranks)
        if len(self._forms) >= _MOST_FORMS:
            raise InvalidRequest(
                f"inputs of {', '.join(map(str, ranks))} dimensions are not served, because "
                f"{_MOST_FORMS} other forms are in use: must have {self._own_ranks}"
            )
        try:
            return self._compile(ranks)
        except Exception as error:  # noqa: BLE001 - the library may raise any exception
            return f"OpenVINO: {text_of(error)}"

    def _compile(self, ranks: Ranks) -> "_CompiledForm":
        model = self._model
        if model is None:
            raise RuntimeError("compiled already")
        if self.takes_any_shape:
            model = model.clone()
            model.reshape(
                {
                    index: ov.PartialShape([-1] * rank if spec.any_shape else list(spec.shape))
                    for index, (spec, rank) in enumerate(zip(self.inputs, ranks, strict=True))
                }
            )
        else:
            # there is only one form, so the reader's result is not needed any more
            self._model = None
        compiled = self._options.compile(model)
        return _CompiledForm(compiled, guard_of(model, compiled))

    def _have_own_shapes(self, tensors: list[Tensor]) -> bool:
        return all(
            len(spec.shape) == tensor.array.ndim
            and all(own in (-1, size) for own, size in zip(spec.shape, tensor.shape, strict=True))
            for spec, tensor in zip(self.inputs, tensors, strict=True)
        )


class _CompiledForm:
    """A compiled model and its idle requests."""

    def __init__(self, compiled: ov.CompiledModel, guard: ShapeGuard | None) -> None:
        self._compiled = compiled
        self._guard = guard
        self._idle: collections.deque[ov.InferRequest] = collections.deque()
        self._has_state = False

    def run(self, inputs: list[Tensor], outputs: list[TensorSpec]) -> list[NDArray[Any]]:
        """Copies of the outputs, in order; raises the library's exceptions."""
        if self._guard is not None:
            self._guard.check([tensor.array for tensor in inputs])
        try:
            running = self._idle.pop()
        except IndexError:
            running = self._compiled.create_infer_request()
            self._has_state = bool(running.query_state())
        else:
            # otherwise, what one client has sent would change the answer of another
            if self._has_state:
                running.reset_state()
        running.infer({index: _feed(tensor) for index, tensor in enumerate(inputs)})
        arrays = [
            _copied(running.get_output_tensor(index), spec) for index, spec in enumerate(outputs)
        ]
        self._idle.append(running)
        return arrays


def _is_computed(port: Port) -> bool:
    """Whether an input is used for more than to be returned as it is."""
    targets = (target.get_node() for target in port.get_target_inputs())
    return any(node.get_type_name() != "Result" for node in targets)


def _check_range(tensor: Tensor) -> None:
    if not tensor.array.size:
        return
    for value in (int(tensor.array.min()), int(tensor.array.max())):
        if not _LOWEST <= value <= _HIGHEST:
            raise InvalidRequest(
                f"input '{tensor.name}' has the value {value}, and OpenVINO computes integers "
                f"with 32 bits: must be from {_LOWEST} to {_HIGHEST}"
            )


def _feed(tensor: Tensor) -> ov.Tensor:
    array = tensor.array
    if tensor.datatype is Datatype.BYTES:
        feed = ov.Tensor(ov.Type.string, ov.Shape(array.shape))
        if array.size:
            feed.bytes_data = array.astype(np.bytes_)
        return feed
    if tensor.datatype is Datatype.BF16:
        return ov.Tensor(np.array(array), ov.Shape(array.shape), ov.Type.bf16)
    # the library does not accept read-only arrays, so a request's buffer is copied
    return ov.Tensor(array, shared_memory=array.flags.writeable)


def _copied(tensor: ov.Tensor, spec: TensorSpec) -> NDArray[Any]:
    """A copy, because the library reuses the memory for the next response."""
    if spec.datatype is Datatype.BYTES:
        return _text(tensor)
    array = np.array(tensor.data)
    return array.view(np.uint16) if spec.datatype is Datatype.BF16 else array


def _text(tensor: ov.Tensor) -> NDArray[np.object_]:
    """The elements of a tensor of text, as bytes.

    If all elements are empty, the array that the library makes has elements of one byte that are
    not initialized, which only its strides tell.
    """
    shape = tuple(tensor.get_shape())
    if not tensor.get_size():  # the library ends the process when such text is read
        return np.empty(shape, np.object_)
    if not shape:  # an array without dimensions has no strides
        copy = ov.Tensor(ov.Type.string, ov.Shape(shape))
        tensor.copy_to(copy)
        copy.shape = [1]
        return _text(copy).reshape(shape)
    found = tensor.bytes_data
    return np.array(found).astype(np.object_) if any(found.strides) else np.full(shape, b"", "O")
