"""OIP answers: responses and metadata to JSON, with binary parts where the client asked for them.

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

from moorage_runtime.codec import oip_binary, oip_json
from moorage_runtime.codec.oip_request import OutputForm
from moorage_runtime.inference import (
    InferResponse,
    ModelMetadata,
    ModelStatus,
    ServerMetadata,
)
from moorage_runtime.tensors import Datatype, TensorSpec

# An enum's member takes the serializer as long as all the rest of a small tensor.
_NAMES: Final[Mapping[Datatype, str]] = {datatype: datatype.value for datatype in Datatype}
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
# Where a long list belongs. JSON never holds this byte, which strings escape.
_HOLE_BYTE: Final = b"\0"
_HOLE: Final = orjson.Fragment(_HOLE_BYTE)


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """An inference answer on the wire.

    Attributes:
        text: The JSON object; in pieces where it is long.
        parts: Binary data that follows it; views share the arrays' memory.
        is_binary: Whether an output is binary, even one of no bytes; then the answer carries
            Inference-Header-Content-Length.
    """

    text: bytes | tuple[bytes | memoryview, ...]
    parts: tuple[bytes | memoryview, ...]
    is_binary: bool


def encode(response: InferResponse, form: OutputForm, response_id: str) -> Encoded:
    """The body of a successful inference.

    Raises:
        InvalidRequest: An output that was asked for as JSON has no JSON form.
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
            part = oip_binary.encode_array(tensor)
            parts.append(part)
            output["parameters"] = {**tensor.parameters, "binary_data_size": len(part)}
        elif tensor.array.size > oip_json.PIECE_ELEMENTS:
            long_lists.append(oip_json.encode_pieces(tensor))
            output["data"] = _HOLE
        else:
            output["data"] = oip_json.encode_data(tensor)
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
    """The error object of every endpoint; what UTF-8 cannot carry is escaped."""
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
        metadata: What the model says of itself.
        version: The version in the URL, or "": ``versions`` then lists all that may be asked
            for, else only this one.
    """
    document: dict[str, Any] = {"name": metadata.name}
    versions = [version] if version else list(metadata.versions)
    if versions:
        document["versions"] = versions
    document["platform"] = metadata.platform
    document["inputs"] = list(map(_describe_spec, metadata.inputs))
    document["outputs"] = list(map(_describe_spec, metadata.outputs))
    return orjson.dumps(document)


def encode_model_ready(name: str, status: ModelStatus) -> bytes:
    """The body of the model ready endpoint.

    Where the model is not ready, ``state`` tells a load that goes on from one that failed, and
    ``error`` says why, where that is known.
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
    # "in" would first try whether the word is a number, and fail at length
    if text.find(b"null") < 0:
        return text
    # Either a name holds the word or a number is not finite, which orjson writes as null.
    for output in document["outputs"]:
        if "data" in output:
            output["data"] = oip_json.spell_nonfinite(output["data"])
    return orjson.dumps(document, option=_NUMPY)


def _fill_holes(
    text: bytes, long_lists: Sequence[Sequence[bytes | memoryview]]
) -> tuple[bytes | memoryview, ...]:
    before, *rest = text.split(_HOLE_BYTE)
    pieces: list[bytes | memoryview] = [before]
    for long_list, after in zip(long_lists, rest, strict=True):
        pieces += (*long_list, after)
    return tuple(pieces)
