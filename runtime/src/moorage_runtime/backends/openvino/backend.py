"""The OpenVINO backend: ONNX, OpenVINO IR, TensorFlow SavedModels and frozen graphs on the CPU.

    path -> functions (one, or one per signature) -> OpenvinoModel -> compiled models

Most files contain one function. A SavedModel contains one per signature; a request selects it by
its inputs and requested outputs. The default function is compiled when the model is loaded. The
others are compiled on their first request, because most clients never use them and they would
double the memory.
"""

import logging
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.openvino import saved_model
from moorage_runtime.backends.openvino._generated import saved_model_pb2
from moorage_runtime.backends.openvino.function import CompileOptions, OpenvinoFunction
from moorage_runtime.backends.openvino.library import FrontEndManager, Port, ov, text_of
from moorage_runtime.backends.openvino.saved_model import Function, GraphTensor
from moorage_runtime.backends.openvino.tensorflow_graph import full_name
from moorage_runtime.backends.openvino.tensorflow_text import check_text
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import NO_SIGNATURES, InferRequest, Signature
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

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


class OpenvinoBackend:
    """Compiles models for the CPU with OpenVINO."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model.

        Raises:
            InvalidConfig: OpenVINO cannot compile the file, or it has a tensor that OIP does not
            support.
        """
        if source.path.name == SAVED_MODEL:
            model = _load_saved_model(source)
        else:
            model = _load_file(source)
        check_declared(source, model.inputs, model.outputs)
        return model


class OpenvinoModel:
    """A model's functions, the default one first."""

    dynamic = False
    inline_rows = 0
    streams = False
    merge_obstacle = "OpenVINO graphs are not analyzed"

    def __init__(
        self,
        platform: str,
        functions: Sequence[OpenvinoFunction],
        signatures: Mapping[str, Signature] = NO_SIGNATURES,
    ) -> None:
        self.platform = platform
        self.inputs = _union([function.inputs for function in functions], everywhere=True)
        self.outputs = _union([function.outputs for function in functions], everywhere=False)
        self.signatures = signatures
        self._functions = functions

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run the function with these inputs and outputs."""
        if len(self._functions) == 1:
            return self._functions[0].run(request)
        chosen = self._chosen(request)
        for function in chosen:
            function.rules.check(msgspec.structs.replace(request, outputs=()))
        return tuple(output for function in chosen for output in function.run(request))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Release the compiled models; they are freed after the last run."""

    def _chosen(self, request: InferRequest) -> list[OpenvinoFunction]:
        """The function of a request; several if its outputs belong to several functions."""
        given = frozenset(tensor.name for tensor in request.inputs)
        wanted = frozenset(output.name for output in request.outputs)
        missing = wanted or self._functions[0].output_names
        chosen: list[OpenvinoFunction] = []
        for function in self._functions:
            if given == function.input_names and missing & function.output_names:
                chosen.append(function)
                missing -= function.output_names
        if not missing:
            return chosen
        known = "; ".join(
            f"{_listed(function.input_names)} to {_listed(function.output_names)}"
            for function in self._functions
        )
        raise InvalidRequest(
            f"no signature of the model has inputs {_listed(given)} and outputs "
            f"{_listed(missing)}: must be one of: {known}"
        )


def _load_file(source: ModelSource) -> OpenvinoModel:
    platform = _PLATFORMS.get(source.path.suffix)
    if platform is None:
        raise InvalidConfig(
            f"{source.path.name} is not an OpenVINO file: must be {SAVED_MODEL} or end with "
            f"{', '.join(_PLATFORMS)}"
        )
    if source.path.suffix == ".pb":
        _check_frozen(source)
    core = ov.Core()
    # A mapped file of weights that is written in place would change answers without a reload, and
    # one that is cut off would end the process.
    core.set_property({"ENABLE_MMAP": False})
    try:
        model = core.read_model(source.path)
    except Exception as error:
        raise _not_loadable(source, error) from error
    inputs = tuple(_spec(source, "input", port, _name(port)) for port in model.inputs)
    outputs = tuple(_spec(source, "output", port, _name(port)) for port in model.outputs)
    if source.path.suffix == ".pb":
        inputs, outputs = tuple(map(_node_name, inputs)), tuple(map(_node_name, outputs))
    function = OpenvinoFunction(model, _options(core, source), inputs, outputs)
    _prepare(source, function)
    return OpenvinoModel(platform, [function])


def _check_frozen(source: ModelSource) -> None:
    try:
        graph = saved_model_pb2.Graph.FromString(source.path.read_bytes())
    except (OSError, DecodeError):
        return  # the library's reader says what is wrong
    try:
        check_text(graph)
    except InvalidConfig as fault:
        raise InvalidConfig(f"{source.path.name}: {fault.message}") from fault


def _load_saved_model(source: ModelSource) -> OpenvinoModel:
    try:
        meta_graph = saved_model.parse(source.path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"{SAVED_MODEL} cannot be read: {error.strerror}") from error
    export = saved_model.read(meta_graph)
    problems = dict(export.problems)
    core = ov.Core()
    functions: list[tuple[Function, OpenvinoFunction]] = []
    signatures: dict[str, Signature] = {}
    for name, function in export.functions.items():
        try:
            if not any(function is known for known, _ in functions):
                read = _read_any_shape(core, meta_graph, function, source)
                if not functions:
                    _prepare(source, read)
                functions.append((function, read))
        except InvalidConfig as fault:
            problems[name] = fault.message
        else:
            signatures[name] = export.signatures[name]
    _check_problems(source, signatures, problems)
    return OpenvinoModel("tensorflow_savedmodel", [item for _, item in functions], signatures)


def _check_problems(
    source: ModelSource, signatures: Mapping[str, Signature], problems: Mapping[str, str]
) -> None:
    """Log signatures that cannot be served; the default signature is required."""
    if problems and (not signatures or saved_model.DEFAULT_SIGNATURE in problems):
        listed = "; ".join(f"signature '{name}': {text}" for name, text in problems.items())
        raise InvalidConfig(f"{SAVED_MODEL}: {listed}")
    for name, text in problems.items():
        log.warning(
            "model '%s' version '%s': signature '%s' is not served: %s",
            source.name,
            source.version,
            name,
            text,
        )


def _read_any_shape(
    core: ov.Core, meta_graph: saved_model_pb2.MetaGraph, function: Function, source: ModelSource
) -> OpenvinoFunction:
    """Read one function of a SavedModel, for any shape of an input if TensorFlow accepts any."""
    if any(item.any_shape for item in function.inputs.values()):
        try:
            read = _read_function(core, meta_graph, function, source)
            _prepare(source, read)
        except InvalidConfig:
            function = saved_model.with_exact_shapes(function)
        else:
            return read
    return _read_function(core, meta_graph, function, source)


def _read_function(
    core: ov.Core, meta_graph: saved_model_pb2.MetaGraph, function: Function, source: ModelSource
) -> OpenvinoFunction:
    """Read one function of a SavedModel.

    The library's reader supports only the default signature, and refuses a graph that contains
    serialized examples. Therefore a copy of the graph has the function as its default signature,
    cut out at its inputs. The variables are not copied.
    """
    computed = [item.tensor for item in function.outputs.values() if not item.labels]
    given = {item.tensor for item in function.inputs.values()}
    check_text(meta_graph.graph_def, computed, given)
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-") as name:
            folder = pathlib.Path(name)
            (folder / SAVED_MODEL).write_bytes(saved_model.rewritten(meta_graph, function))
            for entry in ("variables", "assets"):
                (folder / entry).symlink_to(source.path.parent.resolve() / entry)
            model = _cut_out(folder, function)
    except OSError as error:
        raise InvalidConfig(
            f"a SavedModel requires a writable folder for temporary files: {error.strerror}"
        ) from error
    except Exception as error:
        raise _not_loadable(source, error) from error
    inputs = _input_specs(source, model.inputs, function.inputs)
    outputs = _output_specs(source, model.outputs, function)
    labels = {name: item.labels for name, item in function.outputs.items() if item.labels}
    if inputs.keys() != function.inputs.keys():
        raise InvalidConfig(
            f"OpenVINO finds inputs {_listed(inputs)} instead of {_listed(function.inputs)}"
        )
    if lost := function.outputs.keys() - outputs.keys() - labels.keys():
        raise InvalidConfig(
            f"output {_listed(lost)} does not depend on an input, which OpenVINO does not support"
        )
    return OpenvinoFunction(
        model,
        _options(core, source),
        tuple(inputs.values()),
        (
            *outputs.values(),
            *(TensorSpec(n, Datatype.BYTES, (-1, len(texts))) for n, texts in labels.items()),
        ),
        {name: np.array([texts], np.object_) for name, texts in labels.items()},
    )


def _cut_out(folder: pathlib.Path, function: Function) -> ov.Model:
    frontend = FrontEndManager().load_by_framework("tf")
    graph = frontend.load(str(folder), enable_mmap=False)  # as in _load_file
    inputs = [
        (graph.get_place_by_tensor_name(tensor), function.inputs[name])
        for name, tensor in saved_model.input_tensors(function).items()
    ]
    outputs = [
        graph.get_place_by_tensor_name(full_name(node))
        for node in saved_model.output_nodes(function).values()
    ]
    graph.extract_subgraph([place for place, _ in inputs], outputs)
    for place, item in inputs:
        shape = ov.PartialShape.dynamic() if item.any_shape else list(item.shape or ())
        graph.set_partial_shape(place, ov.PartialShape(shape))
        graph.set_element_type(place, _TYPES[item.datatype])
    return frontend.convert(graph)


def _options(core: ov.Core, source: ModelSource) -> CompileOptions:
    return CompileOptions(core, source.options.get("openvino_threads", 0) or source.threads)


def _prepare(source: ModelSource, function: OpenvinoFunction) -> None:
    try:
        function.prepare()
    except Exception as error:
        raise _not_loadable(source, error) from error


def _input_specs(
    source: ModelSource, ports: Sequence[Port], expected: Mapping[str, GraphTensor]
) -> dict[str, TensorSpec]:
    """Inputs by their names for clients, in the order of the model."""
    specs: dict[str, TensorSpec] = {}
    for port in ports:
        name = next((name for name in expected if name in port.get_names()), _name(port))
        told = expected.get(name)
        spec = _spec(source, "input", port, name, None if told is None else told.shape)
        if told is not None and told.any_shape:
            spec = msgspec.structs.replace(spec, any_shape=True)
        specs[name] = spec
    return specs


def _output_specs(
    source: ModelSource, ports: Sequence[Port], function: Function
) -> dict[str, TensorSpec]:
    """Outputs by their names for clients, in the order of the model.

    The library's tensors can have several names, but each output has a node.
    """
    names = {node: name for name, node in saved_model.output_nodes(function).items()}
    specs: dict[str, TensorSpec] = {}
    for port in ports:
        name = names[port.node.friendly_name.removesuffix(":0")]
        specs[name] = _spec(source, "output", port, name, function.outputs[name].shape)
    return specs


def _spec(
    source: ModelSource,
    kind: str,
    port: Port,
    name: str,
    told: tuple[int, ...] | None = None,
) -> TensorSpec:
    """The port's tensor; the shape comes from the file if the port has none."""
    type_name = port.element_type.get_type_name()
    datatype = _DATATYPES.get(type_name)
    if datatype is None:
        raise InvalidConfig(
            f"{source.path.name}: {kind} '{name}' has type {type_name}: must be one of "
            f"{', '.join(_DATATYPES)}"
        )
    shape = port.partial_shape
    if shape.rank.is_static:
        told = tuple(-1 if size.is_dynamic else size.get_length() for size in shape)
    if told is None:
        raise InvalidConfig(
            f"{source.path.name}: {kind} '{name}' has an unknown number of dimensions"
        )
    return TensorSpec(name, datatype, told)


def _name(port: Port) -> str:
    """The shortest of a tensor's names, or its node's name if it has none."""
    names = port.get_names() or {port.node.friendly_name}
    return min(names, key=lambda name: (len(name), name))


def _node_name(spec: TensorSpec) -> TensorSpec:
    """A frozen graph's tensor has its node's name, without the number of its first output."""
    return msgspec.structs.replace(spec, name=spec.name.removesuffix(":0"))


def _union(parts: Sequence[tuple[TensorSpec, ...]], *, everywhere: bool) -> tuple[TensorSpec, ...]:
    """The tensors of all functions.

    Inputs are optional unless every function requires them. Outputs are optional, which means only
    on request, unless the default function returns them.
    """
    needed = [{spec.name for spec in part} for part in (parts if everywhere else parts[:1])]
    found: dict[str, TensorSpec] = {}
    for spec in (spec for part in parts for spec in part):
        optional = not all(spec.name in names for names in needed)
        found.setdefault(spec.name, msgspec.structs.replace(spec, optional=optional))
    return tuple(found.values())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _not_loadable(source: ModelSource, error: Exception) -> InvalidConfig:
    if isinstance(error, InvalidConfig):
        return error
    text = text_of(error).replace(str(source.path.parent), "")
    return InvalidConfig(f"{source.path.name} is not a model that OpenVINO can load: {text}")
