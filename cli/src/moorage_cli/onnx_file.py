"""The tensors of an ONNX file, read by the package `onnx` where it is installed.

moorage lint FILE --model model.onnx --> **onnx_file** --> model_check
"""

from typing import Any

from .failures import Failure
from .model_check import VARIABLE, ModelTensors, Tensor

__all__ = ["read_onnx"]

# Source: ONNX, TensorProto.DataType, by the names of the Open Inference Protocol.
DATATYPES = {
    "FLOAT": "FP32", "UINT8": "UINT8", "INT8": "INT8", "UINT16": "UINT16", "INT16": "INT16",
    "INT32": "INT32", "INT64": "INT64", "STRING": "BYTES", "BOOL": "BOOL", "FLOAT16": "FP16",
    "DOUBLE": "FP64", "UINT32": "UINT32", "UINT64": "UINT64", "BFLOAT16": "BF16",
}  # fmt: skip


def read_onnx(path: str) -> ModelTensors:
    """The inputs that a client has to send, and the outputs.

    Raises:
        Failure: The package is not there, or the file is no ONNX model.
    """
    try:
        import onnx  # noqa: PLC0415 - a large package that nothing else here needs
    except ImportError as error:
        told = "--model: an ONNX file is read by the package onnx: pip install 'moorage-cli[onnx]'"
        raise Failure(told) from error
    try:
        graph: Any = onnx.load(path, load_external_data=False).graph
    except OSError as error:
        raise Failure(f"--model: {path}: cannot be read: {error}") from error
    except Exception as error:  # protobuf's classes of errors differ by implementation
        raise Failure(f"--model: {path}: is no ONNX model: {error}") from error
    weights = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in weights]
    if not graph.output:
        raise Failure(f"--model: {path}: is no ONNX model: its graph has no outputs")
    return ModelTensors(
        tuple(_tensor(onnx, each) for each in inputs),
        tuple(_tensor(onnx, each) for each in graph.output),
    )


def _tensor(onnx: Any, value: Any) -> Tensor:
    kind = value.type.tensor_type
    name = str(onnx.TensorProto.DataType.Name(kind.elem_type))
    shape = None
    if kind.HasField("shape"):
        shape = tuple(
            each.dim_value if each.HasField("dim_value") else VARIABLE for each in kind.shape.dim
        )
    return Tensor(value.name, DATATYPES.get(name, name), shape)
