"""The OpenVINO backend: ONNX, OpenVINO IR, TensorFlow SavedModels and frozen graphs on the CPU.

    path -> functions (one, or one a signature) -> OpenvinoModel -> compiled models

Most files hold one function. A SavedModel holds one for each signature; which one a request means
is told by the inputs that it gives and the outputs that it asks for. The default one is compiled
when the model is loaded; the others, which most clients never ask for and which would double the
memory, with their first request.
"""

import logging
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from moorage_runtime._generated import saved_model_pb2
from moorage_runtime.backends import saved_model
from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.openvino_function import CompileOptions, OpenvinoFunction
from moorage_runtime.backends.openvino_library import FrontEndManager, Port, ov, text_of
from moorage_runtime.backends.saved_model import Function, GraphTensor
from moorage_runtime.errors import InvalidConfig, InvalidRequest
from moorage_runtime.inference import NO_SIGNATURES, InferRequest, Signature
from moorage_runtime.tensors import Datatype, Tensor, TensorSpec

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
            InvalidConfig: The file is no model that OpenVINO can compile, or it has a tensor
                that OIP cannot carry.
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
    streams = False
    row_wise = False

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
        # compiling, which a first request may have to wait for, takes time that no size tells
        self.steady = len(functions) == 1 and not functions[0].takes_any_shape
        self._functions = functions

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run what takes these inputs and gives these outputs."""
        if len(self._functions) == 1:
            return self._functions[0].run(request)
        chosen = self._chosen(request)
        for function in chosen:
            function.rules.check(msgspec.structs.replace(request, outputs=()))
        return tuple(output for function in chosen for output in function.run(request))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """One answer."""
        yield self.infer(request)

    def close(self) -> None:
        """Let the compiled models go; they are freed when the last run ends."""

    def _chosen(self, request: InferRequest) -> list[OpenvinoFunction]:
        """As a rule one function; several when the wanted outputs are of several."""
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
            f"no signature of the model takes {_listed(given)} and gives {_listed(missing)}, "
            f"expected one of: {known}"
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
    except Exception as error:
        raise _not_loadable(source, error) from error
    inputs = tuple(_spec(source, "input", port, _name(port)) for port in model.inputs)
    outputs = tuple(_spec(source, "output", port, _name(port)) for port in model.outputs)
    if source.path.suffix == ".pb":
        inputs, outputs = tuple(map(_node_name, inputs)), tuple(map(_node_name, outputs))
    function = OpenvinoFunction(model, _options(core, source), inputs, outputs)
    _prepare(source, function)
    return OpenvinoModel(platform, [function])


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


def _read_any_shape(
    core: ov.Core, meta_graph: saved_model_pb2.MetaGraph, function: Function, source: ModelSource
) -> OpenvinoFunction:
    """Read one function of a SavedModel, for any shape of inputs where TensorFlow takes any."""
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
    except OSError as error:
        raise InvalidConfig(
            f"a SavedModel needs a writable folder for temporary files: {error.strerror}"
        ) from error
    except Exception as error:
        raise _not_loadable(source, error) from error
    inputs = _named_specs(source, "input", model.inputs, function.inputs)
    outputs = _named_specs(source, "output", model.outputs, function.outputs)
    labels = {name: item.labels for name, item in function.outputs.items() if item.labels}
    if (set(inputs), {*outputs, *labels}) != (set(function.inputs), set(function.outputs)):
        raise InvalidConfig(
            f"OpenVINO finds inputs {_listed(inputs)} and outputs {_listed(outputs)}, expected "
            f"{_listed(function.inputs)} and {_listed(function.outputs.keys() - labels.keys())}"
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


def _named_specs(
    source: ModelSource, kind: str, ports: Sequence[Port], expected: Mapping[str, GraphTensor]
) -> dict[str, TensorSpec]:
    """By client's name; a tensor that is passed through has the names of both its ends."""
    specs: dict[str, TensorSpec] = {}
    for port in ports:
        name = next((name for name in expected if name in port.get_names()), _name(port))
        told = expected.get(name)
        spec = _spec(source, kind, port, name, None if told is None else told.shape)
        if told is not None and told.any_shape:
            spec = msgspec.structs.replace(spec, any_shape=True)
        specs[name] = spec
    return specs


def _spec(
    source: ModelSource,
    kind: str,
    port: Port,
    name: str,
    told: tuple[int, ...] | None = None,
) -> TensorSpec:
    """What the port says, and the shape that its file tells where it has none of its own."""
    type_name = port.element_type.get_type_name()
    datatype = _DATATYPES.get(type_name)
    if datatype is None:
        raise InvalidConfig(
            f"{source.path.name}: {kind} '{name}' is of type {type_name}, expected one of "
            f"{', '.join(_DATATYPES)}"
        )
    shape = port.partial_shape
    if shape.rank.is_static:
        told = tuple(-1 if size.is_dynamic else size.get_length() for size in shape)
    if told is None:
        raise InvalidConfig(
            f"{source.path.name}: {kind} '{name}' has no known number of dimensions"
        )
    return TensorSpec(name, datatype, told)


def _name(port: Port) -> str:
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


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _not_loadable(source: ModelSource, error: Exception) -> InvalidConfig:
    if isinstance(error, InvalidConfig):
        return error
    text = text_of(error).replace(str(source.path.parent), "")
    return InvalidConfig(f"{source.path.name} is not a model that OpenVINO can load: {text}")
