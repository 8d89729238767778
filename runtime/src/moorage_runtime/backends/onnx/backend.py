"""The ONNX Runtime backend: ``*.onnx`` on the CPU or on a GPU.

Metadata comes from the graph: names, datatypes, and shapes with -1 for every dimension that is
symbolic or unknown.
"""

import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import onnxruntime as ort
from numpy.typing import NDArray

from moorage_runtime.backends import text
from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.onnx import error_text, providers
from moorage_runtime.backends.onnx.device import Device
from moorage_runtime.backends.onnx.graph import file as onnx_file
from moorage_runtime.backends.onnx.graph import indexes as onnx_indexes
from moorage_runtime.backends.onnx.graph import rows as onnx_rows
from moorage_runtime.backends.onnx.graph.rows import Analysis
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest, ModelFailed
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
_CHECK_GPU: Final = "; check that the container has a GPU that works and has enough free memory"
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
            InvalidConfig: The file is not an ONNX model, OIP does not support a tensor, or the
                GPU has no memory for it or does not work.
        """
        try:
            session = _session(source, self._device)
        except InvalidConfig:
            if self._device is not None:
                self._device.check()
            raise
        inputs = tuple(_spec(source.path, "input", node) for node in session.get_inputs())
        outputs = _outputs(source, session.get_outputs())
        check_declared(source, inputs, outputs)
        served = frozenset(spec.name for spec in outputs)
        analysis, indexes = _analysis(source.path, served, is_on_gpu=self._device is not None)
        if not source.options.get("inline", True) or _has_text((*inputs, *outputs)):
            analysis = msgspec.structs.replace(analysis, inline_rows=0)
        gpu = None if self._device is None else _Gpu(self._device, indexes)
        return OnnxModel(session, inputs, outputs, analysis, gpu)


class _Gpu(msgspec.Struct, frozen=True):
    """What a model on a GPU needs.

    Attributes:
        device: The GPU.
        indexes: Inputs that are indexes, and the size of the dimension that each one indexes.
    """

    device: Device
    indexes: Mapping[str, int]


class OnnxModel:
    """One session; ONNX Runtime allows concurrent runs."""

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
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.inline_rows = analysis.inline_rows
        self.merge_obstacle = analysis.obstacle
        self._gpu = gpu
        # The public method repeats checks of the model's rules in Python, which is 7% of the cost
        # of a small request; a release without the private attribute has only the public method.
        self._run: Callable[..., Any] = getattr(session, "_sess", session).run
        # without options, each run creates its own; concurrent runs only read these
        self._options = ort.RunOptions()
        self._datatypes = {spec.name: spec.datatype for spec in outputs}
        self._output_names = [spec.name for spec in outputs]

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run the session on the request's tensors; only requested outputs are computed.

        Raises:
            InvalidRequest: On a GPU, an input is an index outside of what it indexes.
            ModelFailed: ONNX Runtime failed.
        """
        feeds: dict[str, NDArray[Any]] = {}
        for tensor in request.inputs:
            array = tensor.array
            feeds[tensor.name] = (
                text.to_text(array) if tensor.datatype is Datatype.BYTES else array
            )
        if self._gpu is not None:
            _check_indexes(feeds, self._gpu.indexes)
        names = self._output_names
        if request.outputs:
            names = [output.name for output in request.outputs]
        try:
            arrays: list[NDArray[Any]] = self._run(names, feeds, self._options)
        except Exception as error:
            if self._gpu is not None:
                self._gpu.device.check()
            raise ModelFailed(f"ONNX Runtime: {error_text.text_of(error)}") from error
        return tuple(map(self._tensor, names, arrays))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Release the session; it is freed after the last run."""

    def _tensor(self, name: str, array: NDArray[Any]) -> Tensor:
        datatype = self._datatypes[name]
        if datatype is Datatype.BYTES:
            return Tensor(name, datatype, text.to_bytes(array))
        return Tensor(name, datatype, array)  # C-contiguous, like ONNX Runtime's own memory


def _session(source: ModelSource, device: Device | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # By default, ONNX Runtime uses all cores of the host, regardless of the container; and idle
    # threads that spin use CPU time that other requests need.
    options.intra_op_num_threads = source.options.get("threads", 0) or source.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # errors are also raised, and then logged and sent to the client
    options.log_severity_level = _LOG_FATAL
    provider = providers.CPU if device is None else providers.CUDA
    chosen = providers.choice(provider, tf32=source.options.get("tf32", False))
    if device is not None:
        _begin(device, source.path)
    try:
        session = ort.InferenceSession(
            str(source.path), options, providers=chosen, enable_fallback=False
        )
    except Exception as error:
        problem = error_text.text_of(error, source.path)
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


def _check_indexes(feeds: Mapping[str, NDArray[Any]], indexes: Mapping[str, int]) -> None:
    """Check what a GPU does not check.

    Raises:
        InvalidRequest: An element is outside of the dimension that it indexes.
    """
    for name, size in indexes.items():
        array = feeds.get(name)
        if array is None or not array.size or array.dtype.kind == "O":
            continue
        for element in (array.min(), array.max()):
            if not -size <= element < size:
                raise InvalidRequest(
                    f"input '{name}' has element {element}: must be an index from {-size} to "
                    f"{size - 1}"
                )


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


def _analysis(
    path: pathlib.Path, outputs: frozenset[str], *, is_on_gpu: bool
) -> tuple[Analysis, Mapping[str, int]]:
    """What the graph proves, and the inputs that are indexes."""
    try:
        graph = onnx_file.read(path)
        analysis = onnx_rows.analyze(graph, outputs)
        if not is_on_gpu:
            return analysis, {}
        obstacle = analysis.obstacle or providers.merge_obstacle(graph)
        # its bound on the time of a run holds for the CPU
        return Analysis(obstacle), onnx_indexes.bounds(graph)
    except onnx_file.NotReadable as error:
        return Analysis(str(error)), {}
    except Exception as error:
        # a graph that ONNX Runtime accepts must load even if it cannot be analyzed
        log.warning("%s cannot be analyzed", path.name, exc_info=error)
        return Analysis(f"{path.name} cannot be analyzed: {type(error).__name__}"), {}


def _has_text(specs: Sequence[TensorSpec]) -> bool:
    return any(spec.datatype is Datatype.BYTES for spec in specs)


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
