"""The ONNX Runtime backend: ``*.onnx`` on the CPU or on a GPU.

Metadata comes from the graph: names, datatypes, and shapes with -1 for every dimension that is
symbolic or unknown. A tensor for which the graph has no shape at all has the shape [], because no
protocol can express that; an input of this kind accepts every shape.
"""

import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import onnxruntime as ort
from numpy.typing import NDArray

from moorage_runtime.backends import empty_inputs, text
from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.onnx import error_text, providers, weights
from moorage_runtime.backends.onnx.device import Device
from moorage_runtime.backends.onnx.graph import file as onnx_file
from moorage_runtime.backends.onnx.graph import rows as onnx_rows
from moorage_runtime.backends.onnx.graph.division import NotGuarded, guarded
from moorage_runtime.backends.onnx.graph.emptiness import fatal_operator
from moorage_runtime.backends.onnx.graph.file import Graph
from moorage_runtime.backends.onnx.graph.rows import Analysis
from moorage_runtime.backends.onnx.index_checks import IndexChecks
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import NO_SIGNATURES, InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

log = logging.getLogger(__name__)

_DATATYPES: Final = {
    "tensor(bool)": Datatype.BOOL,
    "tensor(uint8)": Datatype.UINT8,
    "tensor(uint16)": Datatype.UINT16,
    "tensor(uint32)": Datatype.UINT32,
    "tensor(uint64)": Datatype.UINT64,
    "tensor(int8)": Datatype.INT8,
    "tensor(int16)": Datatype.INT16,
    "tensor(int32)": Datatype.INT32,
    "tensor(int64)": Datatype.INT64,
    "tensor(float16)": Datatype.FP16,
    "tensor(float)": Datatype.FP32,
    "tensor(double)": Datatype.FP64,
    "tensor(string)": Datatype.BYTES,
}
_LOG_FATAL: Final = 4
_WEIGHTS: Final = "session.model_external_initializers_file_folder_path"
_CHECK_GPU: Final = "; check that the container has a GPU that works and has enough free memory"
_NO_GRAPH: Final = Graph((), {}, (), {}, {})
# Prefixes of types that no protocol supports.
_COLLECTIONS: Final = ("seq(", "map(", "optional(")


class OnnxBackend:
    """Loads ONNX files into ONNX Runtime sessions.

    Args:
        device: The GPU on which they run; None for the CPU.
    """

    def __init__(self, device: Device | None = None) -> None:
        self._device = device

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model.

        Raises:
            InvalidConfig: The file is not an ONNX model, OIP does not support a tensor, a division
                of integers may end the process, or the GPU has no memory for it, does not work,
                or would compute wrong answers.
        """
        graph, problem = _graph(source.path)
        replaced = _guarded(source.path, graph)
        gpu = None if self._device is None else _Gpu(self._device, IndexChecks(graph))
        try:
            session = _session(source, gpu, replaced)
        except InvalidConfig:
            if gpu is not None:
                gpu.device.check()
            raise
        added = frozenset[str]() if gpu is None else gpu.checks.added
        offered = [node for node in session.get_outputs() if node.name not in added]
        inputs = tuple(_input(source.path, node, graph) for node in session.get_inputs())
        outputs = _outputs(source, offered)
        check_declared(source, inputs, outputs)
        served = frozenset(spec.name for spec in outputs)
        analysis = Analysis(problem) if problem else _analysis(source.path, graph, served)
        if gpu is not None:
            if wrong := providers.wrong_operator(graph):
                raise InvalidConfig(f"{source.path.name}: {wrong}")
            _warn_of_indexes(source, problem, gpu.checks.unseen)
            # its bound on the time of a run holds for the CPU
            obstacle = analysis.obstacle or providers.merge_obstacle(graph)
            analysis = Analysis(obstacle)
        if not source.options.get("inline", True) or _has_text((*inputs, *outputs)):
            analysis = msgspec.structs.replace(analysis, inline_rows=0)
        return OnnxModel(session, inputs, outputs, analysis, gpu, fatal_operator(graph))


class _Gpu(msgspec.Struct, frozen=True):
    """What a model on a GPU needs.

    Attributes:
        device: The GPU.
        checks: The checks of indexes in each run.
    """

    device: Device
    checks: IndexChecks


class OnnxModel:
    """One session; ONNX Runtime allows concurrent runs.

    Args:
        session: The session.
        inputs: Its inputs.
        outputs: Its outputs.
        analysis: What the graph proves about its rows.
        gpu: What it needs on a GPU; None on the CPU.
        fatal: The operator that ends the process for an empty tensor, or "".
    """

    platform = "onnx_onnxv1"
    signatures = NO_SIGNATURES
    dynamic = False
    streams = False

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        analysis: Analysis,
        gpu: _Gpu | None = None,
        fatal: str = "",
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.inline_rows = analysis.inline_rows
        self.merge_obstacle = analysis.obstacle
        self._gpu = gpu
        self._fatal = fatal
        # The public method repeats checks of the model's rules in Python, which is 7% of the cost
        # of a small request; a release without the private attribute has only the public method.
        self._run: Callable[..., Any] = getattr(session, "_sess", session).run
        # without options, each run creates its own; concurrent runs only read these
        self._options = ort.RunOptions()
        self._datatypes = {spec.name: spec.datatype for spec in outputs}
        self._output_names = [spec.name for spec in outputs]

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run the session on the request's tensors; only requested outputs are returned.

        Raises:
            InvalidRequest: An input is empty, and the model fails on it; or on a GPU, it is an
                index outside of what it indexes.
            ModelFailed: ONNX Runtime failed; or on a GPU, the graph computed such an index.
        """
        if self._fatal:
            why = f"operator {self._fatal} of the model does not support empty tensors"
            if refusal := empty_inputs.refusal(request.inputs, why):
                raise refusal
        feeds: dict[str, NDArray[Any]] = {}
        for tensor in request.inputs:
            array = tensor.array
            feeds[tensor.name] = (
                text.to_text(array) if tensor.datatype is Datatype.BYTES else array
            )
        names = self._output_names
        if request.outputs:
            names = [output.name for output in request.outputs]
        if self._gpu is None:
            arrays = self._outputs(names, feeds, request.inputs)
        else:
            arrays = self._checked(names, feeds, request.inputs, self._gpu)
        return tuple(map(self._tensor, names, arrays))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Release the session; it is freed after the last run."""

    def _outputs(
        self, names: Sequence[str], feeds: Mapping[str, NDArray[Any]], inputs: Sequence[Tensor]
    ) -> list[NDArray[Any]]:
        try:
            arrays: list[NDArray[Any]] = self._run(names, feeds, self._options)
        except Exception as error:
            if self._gpu is not None:
                self._gpu.device.check()
            message = f"ONNX Runtime: {error_text.text_of(error)}"
            raise empty_inputs.failed(message, inputs) from error
        return arrays

    def _checked(
        self,
        names: Sequence[str],
        feeds: Mapping[str, NDArray[Any]],
        inputs: Sequence[Tensor],
        gpu: _Gpu,
    ) -> list[NDArray[Any]]:
        gpu.checks.before(feeds)
        arrays = self._outputs([*names, *gpu.checks.fetched], feeds, inputs)
        gpu.checks.after(feeds, dict(zip(gpu.checks.fetched, arrays[len(names) :], strict=True)))
        return arrays[: len(names)]

    def _tensor(self, name: str, array: NDArray[Any]) -> Tensor:
        datatype = self._datatypes[name]
        if datatype is Datatype.BYTES:
            return Tensor(name, datatype, text.to_bytes(array))
        return Tensor(name, datatype, array)  # C-contiguous, like ONNX Runtime's own memory


def _session(
    source: ModelSource, gpu: _Gpu | None, replaced: bytes | None
) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # By default, ONNX Runtime uses all cores of the host, regardless of the container; and idle
    # threads that spin use CPU time that other requests need.
    options.intra_op_num_threads = source.options.get("threads", 0) or source.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # errors are also raised, and then logged and sent to the client
    options.log_severity_level = _LOG_FATAL
    provider = providers.CPU if gpu is None else providers.CUDA
    chosen = providers.choice(provider, tf32=source.options.get("tf32", False))
    if gpu is not None:
        _begin(gpu.device, source.path)
    # absolute, as in the library's messages, which text_of shortens
    path = source.path.absolute()
    file: str | bytes = str(path)
    appendix = b"" if gpu is None else gpu.checks.appendix
    if replaced is not None or appendix:
        file = (path.read_bytes() if replaced is None else replaced) + appendix
        # weights in files of their own
        options.add_session_config_entry(_WEIGHTS, str(path.parent))
        found = weights.linked(path, memoryview(file))
        options.add_external_initializers_from_files_in_memory(
            list(found), list(found.values()), list(map(len, found.values()))
        )
    try:
        session = ort.InferenceSession(file, options, providers=chosen, enable_fallback=False)
    except Exception as error:
        problem = error_text.text_of(error, path)
        raise InvalidConfig(_not_loaded(source.path.name, problem, provider)) from error
    providers.check_used(session, provider)
    return session


def _not_loaded(file: str, problem: str, provider: str) -> str:
    if not error_text.is_about_machine(problem):
        return f"{file} is not a valid ONNX model: {problem}"
    hint = _CHECK_GPU if provider == providers.CUDA else ""
    return f"{file} cannot be loaded: {problem}{hint}"


def _begin(device: Device, path: pathlib.Path) -> None:
    """Use the GPU for the first time.

    Raises:
        InvalidConfig: The container has none, or it does not work.
    """
    try:
        device.begin()
    except Exception as error:
        problem = error_text.text_of(error, path)
        raise InvalidConfig(f"{path.name} cannot be loaded: {problem}{_CHECK_GPU}") from error


def _outputs(source: ModelSource, nodes: Sequence[Any]) -> tuple[TensorSpec, ...]:
    """The outputs that are tensors; skl2onnx adds a list of dictionaries by default (ZipMap)."""
    served = [node for node in nodes if not node.type.startswith(_COLLECTIONS)]
    left_out = [node for node in nodes if node.type.startswith(_COLLECTIONS)]
    if not served:
        served = list(nodes)
    else:
        for node in left_out:
            log.warning(
                "model '%s': output '%s' has type %s and is not served, because it is not a "
                "tensor; to serve its scores, export the model without ZipMap",
                source.name,
                node.name,
                node.type,
            )
    return tuple(_spec(source.path, "output", node) for node in served)


def _graph(path: pathlib.Path) -> tuple[Graph, str]:
    """The graph of a file; an empty one and the problem if it cannot be read."""
    try:
        return onnx_file.read(path), ""
    except onnx_file.NotReadable as error:
        return _NO_GRAPH, str(error)
    except Exception as error:  # noqa: BLE001 - see _not_analyzed
        return _NO_GRAPH, _not_analyzed(path, error)


def _guarded(path: pathlib.Path, graph: Graph) -> bytes | None:
    """The model without divisions that may end the process; None for the file as it is.

    Raises:
        InvalidConfig: Such a division cannot be replaced.
    """
    try:
        return guarded(onnx_file.content(path), graph) if graph.nodes else None
    except NotGuarded as error:
        raise InvalidConfig(f"{path.name}: {error}") from None
    except Exception as error:  # noqa: BLE001 - see _not_analyzed
        _not_analyzed(path, error)
        return None


def _analysis(path: pathlib.Path, graph: Graph, outputs: frozenset[str]) -> Analysis:
    """What the graph proves about its rows."""
    try:
        return onnx_rows.analyze(graph, outputs)
    except Exception as error:  # noqa: BLE001 - see _not_analyzed
        return Analysis(_not_analyzed(path, error))


def _not_analyzed(path: pathlib.Path, error: Exception) -> str:
    """Log why; a graph that ONNX Runtime accepts must load even if it cannot be analyzed."""
    log.warning("%s cannot be analyzed", path.name, exc_info=error)
    return f"{path.name} cannot be analyzed: {type(error).__name__}"


def _warn_of_indexes(source: ModelSource, problem: str, unseen: Sequence[str]) -> None:
    """Log what is not checked on a GPU."""
    where = f": {problem}" if problem else f" within operator {', '.join(unseen)}"
    if problem or unseen:
        log.warning("model '%s': indexes are not checked on a GPU%s", source.name, where)


def _has_text(specs: Sequence[TensorSpec]) -> bool:
    return any(spec.datatype is Datatype.BYTES for spec in specs)


def _input(path: pathlib.Path, node: Any, graph: Graph) -> TensorSpec:
    spec = _spec(path, "input", node)
    # ONNX Runtime also says () of an input without a shape
    has_shape = graph.inputs.get(node.name, spec.shape) is not None
    return spec if has_shape else msgspec.structs.replace(spec, any_shape=True)


def _spec(path: pathlib.Path, kind: str, node: Any) -> TensorSpec:
    datatype = _DATATYPES.get(node.type)
    if datatype is None:
        raise InvalidConfig(
            f"{path.name}: {kind} '{node.name}' has type {node.type}: must be one of "
            f"{', '.join(_DATATYPES)}"
        )
    # a symbolic dimension is its name, an unknown one is None
    shape = tuple(d if isinstance(d, int) and d >= 0 else -1 for d in node.shape)
    return TensorSpec(node.name, datatype, shape)
