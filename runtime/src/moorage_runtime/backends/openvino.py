"""The OpenVINO backend: ONNX, OpenVINO IR, TensorFlow SavedModels and frozen graphs on the CPU.

    path -> functions (one, or one a signature) -> compiled models -> OpenvinoModel

Most files hold one function. A SavedModel holds one for each signature; which one a request means
is told by the inputs that it gives and the outputs that it asks for.
"""

import collections
import logging
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime._generated import saved_model_pb2
from moorage_runtime.backends import saved_model
from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.saved_model import Function
from moorage_runtime.errors import InvalidConfig, InvalidRequest, ModelFailed
from moorage_runtime.inference import NO_SIGNATURES, InferRequest, Signature
from moorage_runtime.tensors import Datatype, Tensor, TensorSpec

# OpenVINO reports its import to its makers through this package, and keeps an identifier in the
# home folder; without it it works the same. A server must not talk to third parties.
sys.modules["openvino_telemetry"] = None  # pyright: ignore[reportArgumentType] # Python's own way to say that it is not there

import openvino as ov  # noqa: E402 - after the line above
from openvino.frontend import FrontEndManager  # noqa: E402 - the same

log = logging.getLogger(__name__)

SAVED_MODEL: Final = "saved_model.pb"
_PLATFORMS: Final = {
    ".onnx": "onnx_onnxv1",
    ".xml": "openvino_ir",
    ".pb": "tensorflow_graphdef",
}
_DATATYPES: Final = {
    "boolean": Datatype.BOOL,
    "u8": Datatype.UINT8,
    "u16": Datatype.UINT16,
    "u32": Datatype.UINT32,
    "u64": Datatype.UINT64,
    "i8": Datatype.INT8,
    "i16": Datatype.INT16,
    "i32": Datatype.INT32,
    "i64": Datatype.INT64,
    "f16": Datatype.FP16,
    "bf16": Datatype.BF16,
    "f32": Datatype.FP32,
    "f64": Datatype.FP64,
    "string": Datatype.BYTES,
}
_TYPES: Final = {datatype: getattr(ov.Type, name) for name, datatype in _DATATYPES.items()}
# Lines of the library's messages that tell where in its source something was thrown.
_NOISE: Final = ("Check '", "Exception from", "FrontEnd API", "Summary:", "To facilitate", "[")


class OpenvinoBackend:
    """Compiles models for the CPU with OpenVINO."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model.

        Raises:
            InvalidConfig: The file is no model that OpenVINO can compile, or it has a tensor
                that OIP cannot carry.
        """
        if source.path.name == SAVED_MODEL:
            model = _load_saved_model(source)
        else:
            model = _load_file(source)
        check_declared(source, model.inputs, model.outputs)
        return model


class CompiledFunction:
    """One compiled function; requests to the library are kept and used by one thread at a time."""

    def __init__(
        self,
        compiled: ov.CompiledModel,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        labels: Mapping[str, NDArray[np.object_]],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.input_names = frozenset(spec.name for spec in inputs)
        self.output_names = frozenset(spec.name for spec in outputs)
        self._compiled = compiled
        self._labels = labels
        self._position = {spec.name: index for index, spec in enumerate(inputs)}
        self._computed = [spec for spec in outputs if spec.name not in labels]
        self._idle: collections.deque[ov.InferRequest] = collections.deque()

    def run(self, request: InferRequest) -> tuple[Tensor, ...]:
        """All outputs; the arrays own their memory.

        Raises:
            ModelFailed: The library raised.
        """
        feeds = {self._position[tensor.name]: _feed(tensor) for tensor in request.inputs}
        try:
            running = self._idle.pop()
        except IndexError:
            running = self._compiled.create_infer_request()
        try:
            running.infer(feeds)
            outputs = [
                Tensor(spec.name, spec.datatype, _array(running.get_output_tensor(index), spec))
                for index, spec in enumerate(self._computed)
            ]
        except Exception as error:
            raise ModelFailed(f"OpenVINO: {_text_of(error)}") from error
        self._idle.append(running)
        batch = request.inputs[0].shape[0] if self._labels else 0
        outputs.extend(
            Tensor(name, Datatype.BYTES, np.repeat(labels, batch, axis=0))
            for name, labels in self._labels.items()
        )
        return tuple(outputs)


class OpenvinoModel:
    """A model's functions, the default one first."""

    dynamic = False
    steady = True
    streams = False

    def __init__(
        self,
        platform: str,
        functions: Sequence[CompiledFunction],
        signatures: Mapping[str, Signature] = NO_SIGNATURES,
    ) -> None:
        self.platform = platform
        self.inputs = _union([function.inputs for function in functions], everywhere=True)
        self.outputs = _union([function.outputs for function in functions], everywhere=False)
        self.signatures = signatures
        self._functions = functions

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run the function that takes these inputs and gives these outputs."""
        return self._chosen(request).run(request)

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """One answer."""
        yield self.infer(request)

    def close(self) -> None:
        """Let the compiled models go; they are freed when the last run ends."""

    def _chosen(self, request: InferRequest) -> CompiledFunction:
        if len(self._functions) == 1:
            return self._functions[0]
        given = frozenset(tensor.name for tensor in request.inputs)
        wanted = frozenset(output.name for output in request.outputs)
        wanted = wanted or self._functions[0].output_names
        for function in self._functions:
            if given == function.input_names and wanted <= function.output_names:
                return function
        known = "; ".join(
            f"{', '.join(sorted(function.input_names))} to "
            f"{', '.join(sorted(function.output_names))}"
            for function in self._functions
        )
        raise InvalidRequest(
            f"no signature of the model takes {', '.join(sorted(given))} and gives "
            f"{', '.join(sorted(wanted))}, expected one of: {known}"
        )


def _load_file(source: ModelSource) -> OpenvinoModel:
    platform = _PLATFORMS.get(source.path.suffix)
    if platform is None:
        raise InvalidConfig(
            f"{source.path.name} is not a file for OpenVINO, expected {SAVED_MODEL} or a name "
            f"that ends with {', '.join(_PLATFORMS)}"
        )
    core = ov.Core()
    try:
        model = core.read_model(source.path)
        compiled = _compile(core, model, source)
    except Exception as error:
        raise _not_loadable(source, error) from error
    inputs = tuple(_spec(source, "input", port) for port in compiled.inputs)
    outputs = tuple(_spec(source, "output", port) for port in compiled.outputs)
    if source.path.suffix == ".pb":
        inputs, outputs = tuple(map(_node_name, inputs)), tuple(map(_node_name, outputs))
    return OpenvinoModel(platform, [CompiledFunction(compiled, inputs, outputs, {})])


def _load_saved_model(source: ModelSource) -> OpenvinoModel:
    try:
        meta_graph = saved_model.parse(source.path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"{SAVED_MODEL} cannot be read: {error.strerror}") from error
    export = saved_model.read(meta_graph)
    problems = dict(export.problems)
    core = ov.Core()
    compiled: list[tuple[Function, CompiledFunction]] = []
    signatures: dict[str, Signature] = {}
    for name, function in export.functions.items():
        try:
            if not any(function is known for known, _ in compiled):
                compiled.append((function, _compile_function(core, meta_graph, function, source)))
        except InvalidConfig as fault:
            problems[name] = fault.message
        else:
            signatures[name] = export.signatures[name]
    _check_problems(source, signatures, problems)
    return OpenvinoModel("tensorflow_savedmodel", [item for _, item in compiled], signatures)


def _check_problems(
    source: ModelSource, signatures: Mapping[str, Signature], problems: Mapping[str, str]
) -> None:
    """A model serves without some of its further signatures, not without its default one."""
    if problems and (not signatures or saved_model.DEFAULT_SIGNATURE in problems):
        listed = "; ".join(f"signature '{name}': {text}" for name, text in problems.items())
        raise InvalidConfig(f"{SAVED_MODEL}: {listed}")
    for name, text in problems.items():
        log.warning(
            "model '%s' version '%s' is served without its signature '%s': %s",
            source.name,
            source.version,
            name,
            text,
        )


def _compile_function(
    core: ov.Core, meta_graph: saved_model_pb2.MetaGraph, function: Function, source: ModelSource
) -> CompiledFunction:
    """Compile one function of a SavedModel.

    The library's reader knows the default signature only, and refuses a graph in which anything
    takes serialized examples; hence a copy of the graph in which the function is the default
    signature, cut out at its inputs. The variables stay where they are.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-") as name:
            folder = pathlib.Path(name)
            (folder / SAVED_MODEL).write_bytes(saved_model.rewritten(meta_graph, function))
            for entry in ("variables", "assets"):
                (folder / entry).symlink_to(source.path.parent.resolve() / entry)
            model = _cut_out(folder, function)
        compiled = _compile(core, model, source)
    except OSError as error:
        raise InvalidConfig(
            f"a SavedModel needs a writable folder for temporary files: {error.strerror}"
        ) from error
    except Exception as error:
        raise _not_loadable(source, error) from error
    inputs = {_name(port): _spec(source, "input", port) for port in compiled.inputs}
    outputs = {_name(port): _spec(source, "output", port) for port in compiled.outputs}
    labels = {name: item.labels for name, item in function.outputs.items() if item.labels}
    found = (set(inputs), {*outputs, *labels})
    if found != (set(function.inputs), set(function.outputs)):
        raise InvalidConfig(
            f"OpenVINO finds inputs {', '.join(inputs) or 'none'} and outputs "
            f"{', '.join(outputs) or 'none'}, expected {', '.join(function.inputs)} and "
            f"{', '.join(name for name in function.outputs if name not in labels)}"
        )
    return CompiledFunction(
        compiled,
        tuple(inputs.values()),
        (
            *outputs.values(),
            *(TensorSpec(n, Datatype.BYTES, (-1, len(texts))) for n, texts in labels.items()),
        ),
        {name: np.array([texts], np.object_) for name, texts in labels.items()},
    )


def _cut_out(folder: pathlib.Path, function: Function) -> ov.Model:
    frontend = FrontEndManager().load_by_framework("tf")
    graph = frontend.load(str(folder))
    inputs = [
        (graph.get_place_by_tensor_name(tensor), function.inputs[name])
        for name, tensor in saved_model.input_tensors(function).items()
    ]
    outputs = [
        graph.get_place_by_tensor_name(item.tensor)
        for item in function.outputs.values()
        if not item.labels
    ]
    graph.extract_subgraph([place for place, _ in inputs], outputs)
    for place, item in inputs:
        graph.set_partial_shape(place, ov.PartialShape(list(item.shape or ())))
        graph.set_element_type(place, _TYPES[item.datatype])
    return frontend.convert(graph)


def _compile(core: ov.Core, model: ov.Model, source: ModelSource) -> ov.CompiledModel:
    config = {
        # the library's own choice is all cores of the host, whatever the container may use
        "INFERENCE_NUM_THREADS": source.options.get("openvino_threads", 0) or source.threads,
        "PERFORMANCE_HINT": "LATENCY",
        # without it a CPU that can computes in bfloat16, whatever the model says
        "EXECUTION_MODE_HINT": "ACCURACY",
    }
    return core.compile_model(model, "CPU", config)


def _spec(source: ModelSource, kind: str, port: ov.ConstOutput) -> TensorSpec:
    name, type_name = _name(port), port.element_type.get_type_name()
    datatype = _DATATYPES.get(type_name)
    if datatype is None:
        raise InvalidConfig(
            f"{source.path.name}: {kind} '{name}' is of type {type_name}, expected one of "
            f"{', '.join(_DATATYPES)}"
        )
    shape = port.partial_shape
    if shape.rank.is_dynamic:
        raise InvalidConfig(
            f"{source.path.name}: {kind} '{name}' has no known number of dimensions"
        )
    dims = tuple(-1 if size.is_dynamic else size.get_length() for size in shape)
    return TensorSpec(name, datatype, dims)


def _name(port: ov.ConstOutput) -> str:
    """The shortest of a tensor's names, or its node's where it has none."""
    names = port.get_names() or {port.node.friendly_name}
    return min(names, key=lambda name: (len(name), name))


def _node_name(spec: TensorSpec) -> TensorSpec:
    """A frozen graph's tensor under its node's name, without the number of its first output."""
    return msgspec.structs.replace(spec, name=spec.name.removesuffix(":0"))


def _union(parts: Sequence[tuple[TensorSpec, ...]], *, everywhere: bool) -> tuple[TensorSpec, ...]:
    """The tensors of all functions.

    Inputs are optional unless every function takes them; outputs are optional, which is only
    given on request, unless the default function gives them.
    """
    needed = [{spec.name for spec in part} for part in (parts if everywhere else parts[:1])]
    found: dict[str, TensorSpec] = {}
    for spec in (spec for part in parts for spec in part):
        optional = not all(spec.name in names for names in needed)
        found.setdefault(spec.name, msgspec.structs.replace(spec, optional=optional))
    return tuple(found.values())


def _feed(tensor: Tensor) -> ov.Tensor:
    array = tensor.array
    if tensor.datatype is Datatype.BYTES:
        feed = ov.Tensor(ov.Type.string, ov.Shape(array.shape))
        if array.size:
            feed.bytes_data = array.astype(np.bytes_)
        return feed
    if tensor.datatype is Datatype.BF16:
        return ov.Tensor(np.array(array), ov.Shape(array.shape), ov.Type.bf16)
    # the library takes no array that must not be written to: a request's buffer is copied
    return ov.Tensor(array, shared_memory=array.flags.writeable)


def _array(tensor: ov.Tensor, spec: TensorSpec) -> NDArray[Any]:
    """A copy: the library writes the next answer to the same memory."""
    if spec.datatype is Datatype.BYTES:
        return np.array(tensor.bytes_data).astype(np.object_)
    array = np.array(tensor.data)
    return array.view(np.uint16) if spec.datatype is Datatype.BF16 else array


def _not_loadable(source: ModelSource, error: Exception) -> InvalidConfig:
    if isinstance(error, InvalidConfig):
        return error
    text = _text_of(error).replace(str(source.path.parent), "")
    return InvalidConfig(f"{source.path.name} is not a model that OpenVINO can load: {text}")


def _text_of(error: Exception) -> str:
    """What the library says, without where in its source it says so."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line.removeprefix("-- ") for line in lines if line and not line.startswith(_NOISE)]
    return " ".join(told[:2])[:500] or type(error).__name__
