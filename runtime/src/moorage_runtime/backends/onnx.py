"""The ONNX Runtime backend: ``*.onnx`` on the CPU.

Metadata comes from the graph itself: names, datatypes, and shapes with -1 for every dimension
that is symbolic or unknown.
"""

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from numpy.typing import NDArray

# ONNX Runtime reports its use to its makers unless this is set before it is imported. A server
# must not talk to third parties, nor try to keep an identifier on its disk.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from moorage_runtime.backends import text
from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.errors import InvalidConfig, ModelFailed
from moorage_runtime.inference import NO_SIGNATURES, InferRequest
from moorage_runtime.tensors import Datatype, Tensor, TensorSpec

import onnxruntime as ort  # isort: skip

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


class OnnxBackend:
    """Loads ONNX files into ONNX Runtime sessions on the CPU."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model.

        Raises:
            InvalidConfig: The file is no ONNX model, or has a tensor that OIP cannot carry.
        """
        session = _session(source)
        inputs = tuple(_spec(source.path, "input", node) for node in session.get_inputs())
        outputs = tuple(_spec(source.path, "output", node) for node in session.get_outputs())
        check_declared(source, inputs, outputs)
        return OnnxModel(session, inputs, outputs)


class OnnxModel:
    """One session; ONNX Runtime allows concurrent runs."""

    platform = "onnx_onnxv1"
    signatures = NO_SIGNATURES
    dynamic = False
    steady = True
    streams = False
    row_wise = True

    def __init__(
        self,
        session: ort.InferenceSession,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        # The public method checks in Python what the rules of the model have checked, which is
        # a fifteenth of all that a small request costs; a release without the part has only that.
        self._run: Callable[..., Any] = getattr(session, "_sess", session).run
        # without options, each run makes some of its own; concurrent runs only read these
        self._options = ort.RunOptions()
        self._datatypes = {spec.name: spec.datatype for spec in outputs}
        self._output_names = [spec.name for spec in outputs]

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run the session on the request's tensors; only the requested outputs are computed."""
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
            raise _fault(error) from error
        return tuple(map(self._tensor, names, arrays))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """One answer."""
        yield self.infer(request)

    def close(self) -> None:
        """Let the session go; it is freed when the last run ends."""

    def _tensor(self, name: str, array: NDArray[Any]) -> Tensor:
        datatype = self._datatypes[name]
        if datatype is Datatype.BYTES:
            return Tensor(name, datatype, text.to_bytes(array))
        return Tensor(name, datatype, array)  # C-contiguous, as ONNX Runtime's own memory is


def _session(source: ModelSource) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # ONNX Runtime's own choice is all cores of the host, whatever the container may use; and
    # threads that spin while idle burn the cores that other requests need.
    options.intra_op_num_threads = source.options.get("threads", 0) or source.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # errors are raised too and reach the log and the client from there
    options.log_severity_level = _LOG_FATAL
    try:
        return ort.InferenceSession(str(source.path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InvalidConfig(
            f"{source.path.name} is not a model that ONNX Runtime can load: "
            f"{_text_of(error, source.path)}"
        ) from error


def _spec(path: pathlib.Path, kind: str, node: Any) -> TensorSpec:
    datatype = _DATATYPES.get(node.type)
    if datatype is None:
        raise InvalidConfig(
            f"{path.name}: {kind} '{node.name}' is of type {node.type}, expected one of "
            f"{', '.join(_DATATYPES)}"
        )
    # symbolic dimensions come as their name, unknown ones as None
    shape = tuple(d if isinstance(d, int) and d >= 0 else -1 for d in node.shape)
    return TensorSpec(node.name, datatype, shape)


def _fault(error: Exception) -> ModelFailed:
    return ModelFailed(f"ONNX Runtime: {_text_of(error)}")


def _text_of(error: Exception, path: pathlib.Path | None = None) -> str:
    """The library's sentence without its codes and without paths of this machine."""
    text_ = str(error)
    if path is not None:
        text_ = text_.replace(str(path), path.name).replace(str(path.parent), "")
    # its form is: marker, number, name and sentence, parted by " : "
    parts = text_.split(" : ", 3)
    if text_.startswith("[ONNXRuntimeError]") and len(parts) == 4:
        text_ = parts[3]
    first = text_.strip().splitlines()[0] if text_.strip() else type(error).__name__
    # where in the library's source it was thrown helps nobody here
    return first if "/onnxruntime/" not in first else first.split("/onnxruntime/", 1)[0].strip()
