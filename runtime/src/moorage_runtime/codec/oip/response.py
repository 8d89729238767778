"""OIP responses and metadata as JSON, with binary parts if the client requests them.

::

    body = json             ; no output is binary
         / json *part       ; parts in the order of the outputs, their sizes in the JSON

Source: OIP "Inference Response", "Server Metadata", "Model Metadata"; binary tensor data
extension, "Binary Tensor Response".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from moorage_runtime.codec.arrays import binary_data, json_data
from moorage_runtime.codec.oip.request import OutputForm
from moorage_runtime.values.inference import (
    InferResponse,
    ModelMetadata,
    ModelStatus,
    ServerMetadata,
)
from moorage_runtime.values.tensors import Datatype, TensorSpec

# Serializing an enum member takes as long as the rest of a small tensor.
_NAMES: Final[Mapping[Datatype, str]] = {datatype: datatype.value for datatype in Datatype}
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
# Placeholder for a long list. JSON never contains this byte, because strings escape it.
_HOLE_BYTE: Final = b"\0"
_HOLE: Final = orjson.Fragment(_HOLE_BYTE)


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """An encoded inference response.

    Attributes:
        text: The JSON object; in pieces if it is long.
        parts: Binary data after it; views share the arrays' memory.
        is_binary: Whether an output is binary, even an empty one; then the response has the header
            Inference-Header-Content-Length.
    """

    text: bytes | tuple[bytes | memoryview, ...]
    parts: tuple[bytes | memoryview, ...]
    is_binary: bool


def encode(response: InferResponse, form: OutputForm, response_id: str) -> Encoded:
    """The body of a successful inference.

    Raises:
        InvalidRequest: An output that was requested as JSON has no JSON form.
    """
    outputs: list[dict[str, Any]] = []
    parts: list[bytes | memoryview] = []
    long_lists: list[Sequence[bytes | memoryview]] = []
    is_binary = False
    overrides = form.overrides
    for tensor in response.outputs:
        output: dict[str, Any] = {
            "name": tensor.name,
            "datatype": _NAMES[tensor.datatype],
            "shape": tensor.array.shape,
        }
        if tensor.parameters:
            output["parameters"] = dict(tensor.parameters)
        if overrides.get(tensor.name, form.binary) if overrides else form.binary:
            is_binary = True
            part = binary_data.encode_array(tensor)
            parts.append(part)
            output["parameters"] = {**tensor.parameters, "binary_data_size": len(part)}
        elif tensor.array.size > json_data.PIECE_ELEMENTS:
            long_lists.append(json_data.encode_pieces(tensor))
            output["data"] = _HOLE
        else:
            output["data"] = json_data.encode_data(tensor)
        outputs.append(output)
    document: dict[str, Any] = {"model_name": response.model_name}
    if response.model_version:
        document["model_version"] = response.model_version
    document["id"] = response_id
    if response.parameters:
        document["parameters"] = dict(response.parameters)
    document["outputs"] = outputs
    text = _dump(document)
    return Encoded(_fill_holes(text, long_lists) if long_lists else text, tuple(parts), is_binary)


def encode_error(message: str) -> bytes:
    """The error object of every endpoint; text that is not valid UTF-8 is escaped."""
    return orjson.dumps({"error": _printable(message)})


def encode_server_metadata(metadata: ServerMetadata) -> bytes:
    """The body of the server metadata endpoint."""
    return orjson.dumps(
        {
            "name": metadata.name,
            "version": metadata.version,
            "extensions": list(metadata.extensions),
        }
    )


def encode_model_metadata(metadata: ModelMetadata, version: str) -> bytes:
    """The body of the model metadata endpoint.

    Args:
        metadata: Metadata of the model.
        version: The version in the URL, which is then the only one in ``versions``; with "",
            ``versions`` lists all available ones.
    """
    document: dict[str, Any] = {"name": metadata.name}
    versions = [version] if version else list(metadata.versions)
    if versions:
        document["versions"] = versions
    document["platform"] = metadata.platform
    document["inputs"] = list(map(_describe_spec, metadata.inputs))
    document["outputs"] = list(map(_describe_spec, metadata.outputs))
    return orjson.dumps(document)


def encode_server_ready(problem: str, *, is_ready: bool) -> bytes:
    """The body of a readiness response that reports a problem of the repository."""
    return orjson.dumps({"live": is_ready, "ready": is_ready, "message": problem})


def encode_model_ready(name: str, status: ModelStatus) -> bytes:
    """The body of the model ready endpoint.

    If the model is not ready, ``state`` distinguishes a load in progress from a failed one, and
    ``error`` gives the reason if it is known.
    """
    document: dict[str, Any] = {"name": name, "ready": status.state == "READY"}
    if status.state != "READY":
        document["state"] = status.state
    if status.message:
        document["error"] = _printable(status.message)
    return orjson.dumps(document)


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _describe_spec(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}


def _dump(document: dict[str, Any]) -> bytes:
    text = orjson.dumps(document, option=_NUMPY)
    # "in" would first try whether the word is a number, and slowly fail
    if text.find(b"null") < 0:
        return text
    # Either a name contains the word, or a number is not finite, which orjson encodes as null.
    for output in document["outputs"]:
        data = output.get("data", _HOLE)
        if data is not _HOLE:  # a long list is already spelled
            output["data"] = json_data.spell_nonfinite(data)
    return orjson.dumps(document, option=_NUMPY)


def _fill_holes(
    text: bytes, long_lists: Sequence[Sequence[bytes | memoryview]]
) -> tuple[bytes | memoryview, ...]:
    before, *rest = text.split(_HOLE_BYTE)
    pieces: list[bytes | memoryview] = [before]
    for long_list, after in zip(long_lists, rest, strict=True):
        pieces += (*long_list, after)
    return tuple(pieces)
