"""The ONNX Runtime backend: ``*.onnx`` on the CPU or on a GPU.

Metadata comes from the graph: names, datatypes, and shapes with -1 for every dimension that is
symbolic or unknown.
"""

import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence
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
from moorage_runtime.backends.onnx.graph import rows as onnx_rows
from moorage_runtime.backends.onnx.graph.rows import Analysis
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
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
# Prefixes of types that no protocol supports.
_COLLECTIONS: Final = ("seq(", "map(", "optional(")


class OnnxBackend:
    """Loads ONNX files into ONNX Runtime sessions.

    Args:
        provider: Where they run, "cpu" or "cuda".
        device: The GPU of the provider "cuda".
    """

    def __init__(self, provider: str = providers.CPU, device: Device | None = None) -> None:
        self._provider = provider
        self._device = device

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model.

        Raises:
            InvalidConfig: The file is not an ONNX model, OIP does not support a tensor, or the
                GPU has no memory for it or does not work.
        """
        try:
            session = _session(source, self._provider, self._device)
        except InvalidConfig:
            if self._device is not None:
                self._device.check()
            raise
        inputs = tuple(_spec(source.path, "input", node) for node in session.get_inputs())
        outputs = _outputs(source, session.get_outputs())
        check_declared(source, inputs, outputs)
        analysis = _analysis(source.path, frozenset(spec.name for spec in outputs), self._provider)
        # the bound on the time of a run holds for the CPU
        is_bounded = self._provider == providers.CPU and source.options.get("inline", True)
        if not is_bounded or _has_text((*inputs, *outputs)):
            analysis = msgspec.structs.replace(analysis, inline_rows=0)
        return OnnxModel(session, inputs, outputs, analysis, self._device)


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
        device: Device | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.inline_rows = analysis.inline_rows
        self.merge_obstacle = analysis.obstacle
        self._device = device
        # The public method repeats checks of the model's rules in Python, which is 7% of the cost
        # of a small request; a release without the private attribute has only the public method.
        self._run: Callable[..., Any] = getattr(session, "_sess", session).run
        # without options, each run creates its own; concurrent runs only read these
        self._options = ort.RunOptions()
        self._datatypes = {spec.name: spec.datatype for spec in outputs}
        self._output_names = [spec.name for spec in outputs]

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run the session on the request's tensors; only requested outputs are computed."""
        feeds: dict[str, NDArray[Any]] = {}
        for tensor in request.inputs:
            array = tensor.array
            feeds[tensor.name] = (
                text.to_text(array) if tensor.datatype is Datatype.BYTES else array
            )
        names = self._output_names
        if request.outputs:
            names = [output.name for output in request.outputs]
        try:
            arrays: list[NDArray[Any]] = self._run(names, feeds, self._options)
        except Exception as error:
            if self._device is not None:
                self._device.check()
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


def _session(source: ModelSource, provider: str, device: Device | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # By default, ONNX Runtime uses all cores of the host, regardless of the container; and idle
    # threads that spin use CPU time that other requests need.
    options.intra_op_num_threads = source.options.get("threads", 0) or source.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # errors are also raised, and then logged and sent to the client
    options.log_severity_level = _LOG_FATAL
    chosen = providers.choice(provider, tf32=source.options.get("tf32", False))
    try:
        if device is not None:
            device.begin()
        session = ort.InferenceSession(
            str(source.path), options, providers=chosen, enable_fallback=False
        )
    except Exception as error:
        raise InvalidConfig(_not_loaded(source.path, provider, error)) from error
    providers.check_used(session, provider)
    return session


def _not_loaded(path: pathlib.Path, provider: str, error: Exception) -> str:
    problem = error_text.text_of(error, path)
    if not error_text.is_about_machine(problem):
        return f"{path.name} is not a valid ONNX model: {problem}"
    if provider == providers.CUDA:
        problem += "; check that the container has a GPU that works and has enough free memory"
    return f"{path.name} cannot be loaded: {problem}"


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


def _analysis(path: pathlib.Path, outputs: frozenset[str], provider: str) -> Analysis:
    try:
        graph = onnx_file.read(path)
        analysis = onnx_rows.analyze(graph, outputs)
        obstacle = analysis.obstacle or providers.merge_obstacle(provider, graph)
        return msgspec.structs.replace(analysis, obstacle=obstacle)
    except onnx_file.NotReadable as error:
        return Analysis(str(error))
    except Exception as error:
        # a graph that ONNX Runtime accepts must load even if it cannot be analyzed
        log.warning("%s cannot be analyzed", path.name, exc_info=error)
        return Analysis(f"{path.name} cannot be analyzed: {type(error).__name__}")


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
