"""Reads the tensors of an ONNX file with the optional package `onnx`, and which files it needs.

moorage lint FILE --model model.onnx --> **onnx_file** --> model_check
moorage deploy model.onnx --> **onnx_file** --> the files to upload
"""

import mmap
import re
from pathlib import Path
from typing import Any

from moorage_cli.manifests.model_check import VARIABLE, ModelTensors, Tensor
from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["external_files", "read_onnx"]

# Source: ONNX, TensorProto.DataType, by the names of the Open Inference Protocol.
DATATYPES = {
    "FLOAT": "FP32", "UINT8": "UINT8", "INT8": "INT8", "UINT16": "UINT16", "INT16": "INT16",
    "INT32": "INT32", "INT64": "INT64", "STRING": "BYTES", "BOOL": "BOOL", "FLOAT16": "FP16",
    "DOUBLE": "FP64", "UINT32": "UINT32", "UINT64": "UINT64", "BFLOAT16": "BF16",
}  # fmt: skip
# Source: ONNX, TensorProto.external_data: an entry with the key "location", and the length of its
# value in one byte or two.
LOCATION = re.compile(rb"\x0a\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x7f])")


def external_files(path: Path) -> list[str]:
    """The files below the folder of an ONNX file that contain its weights.

    The entries are found by their bytes, so this needs no package. One that names no file is
    left out: the metadata of a model can have the same key.

    Args:
        path: The ONNX file.

    Raises:
        Failure: It cannot be read.
    """
    found: dict[str, None] = {}
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for each in LOCATION.finditer(data):
                low, *high = each[1]
                length = (low & 0x7F) + (high[0] << 7 if high else 0)
                found[data[each.end() : each.end() + length].decode(errors="replace")] = None
    except OSError as error:
        raise Failure(f"PATH: {path} cannot be read: {reason_of(error)}") from error
    return [name for name in found if _is_below(path.parent, name)]


def _is_below(folder: Path, name: str) -> bool:
    """Whether it is a file there; ONNX Runtime refuses locations outside of the folder."""
    parts = name.split("/")
    if "\0" in name or not set(parts).isdisjoint({"", ".", ".."}):
        return False
    return (folder / name).is_file()


def read_onnx(path: str, option: str = "--model") -> ModelTensors:
    """The inputs that a client must send, and the outputs.

    Args:
        path: The file.
        option: The option that names it, for messages.

    Raises:
        Failure: The package is missing, or the file is not an ONNX model.
    """
    try:
        import onnx  # noqa: PLC0415 - a large package that nothing else needs
    except ImportError as error:
        fix = f"{option} requires the package onnx: run pip install 'moorage-cli[onnx]'"
        raise Failure(fix) from error
    try:
        graph: Any = onnx.load(path, load_external_data=False).graph
    except OSError as error:
        raise Failure(f"{option}: {path} cannot be read: {reason_of(error)}") from error
    except Exception as error:  # protobuf's exceptions differ by implementation
        raise Failure(f"{option}: {path} is not an ONNX model") from error
    weights = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in weights]
    if not graph.output:
        raise Failure(f"{option}: {path} is not an ONNX model: its graph has no outputs")
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
