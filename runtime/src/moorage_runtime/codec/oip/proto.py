"""OIP's protobuf messages: bytes to the runtime's values, and values to bytes. Pure.

::

    tensors = *(header contents)        ; typed: each tensor contains its values
            / *header *raw              ; raw: all values in raw_..._contents, in the same order

The dataplane checks whether names, datatypes and shapes fit the model. Messages for the client
name the field.

Source: OIP, gRPC. What it leaves open: the response is raw if the request was or had no inputs, or
if an output has no typed form; a contents message that is present but empty counts as absent.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from moorage_runtime.codec._generated import oip_pb2 as pb
from moorage_runtime.codec.arrays import binary_data, shapes
from moorage_runtime.codec.oip import proto_contents as oip_proto_contents
from moorage_runtime.codec.oip import proto_raw as oip_proto_raw
from moorage_runtime.codec.unpack import protobuf
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    RequestedOutput,
    ServerMetadata,
)
from moorage_runtime.values.tensors import (
    NO_PARAMETERS,
    Datatype,
    Parameter,
    Parameters,
    Tensor,
    TensorSpec,
)

_DATATYPES: Final[Mapping[str, Datatype]] = {str(datatype): datatype for datatype in Datatype}
_ID_TAG: Final = oip_proto_raw.tag_of(pb.ModelInferRequest.ID_FIELD_NUMBER)
_INT64: Final = range(-(2**63), 2**63)
_SHOWN_CHARACTERS: Final = 60


class Decoded(msgspec.Struct, frozen=True):
    """A decoded ModelInferRequest.

    Attributes:
        request: The inference.
        wants_raw: Whether the tensors of the response must be raw.
    """

    request: InferRequest
    wants_raw: bool


class ModelName(msgspec.Struct, frozen=True):
    """A model and its version; "" lets the server choose."""

    name: str
    version: str


def check_empty(data: bytes | memoryview) -> None:
    """Check a request message without fields; all three of these look the same.

    Raises:
        InvalidRequest: The bytes are not a message.
    """
    _parse_small(pb.ServerLiveRequest, data)


def decode_model_ready(data: bytes | memoryview) -> ModelName:
    """The model of a ModelReadyRequest.

    Raises:
        InvalidRequest: The bytes are not such a message, or the name is empty.
    """
    message = _parse_small(pb.ModelReadyRequest, data)
    _require_name(message.name, "name")
    return ModelName(message.name, message.version)


def decode_model_metadata(data: bytes | memoryview) -> ModelName:
    """The model of a ModelMetadataRequest.

    Raises:
        InvalidRequest: The bytes are not such a message, or the name is empty.
    """
    message = _parse_small(pb.ModelMetadataRequest, data)
    _require_name(message.name, "name")
    return ModelName(message.name, message.version)


def decode_infer(data: bytes | memoryview) -> Decoded:
    """The inference of a ModelInferRequest; raw tensors share the message's memory.

    Raises:
        InvalidRequest: The bytes are not such a message, or violate the wire format.
        PayloadTooLarge: The message has too many fields.
    """
    protobuf.check(data, pb.ModelInferRequest)
    cut = oip_proto_raw.cut(data)
    message = _parse(pb.ModelInferRequest, data if cut is None else cut.rest)
    raw = message.raw_input_contents if cut is None else cut.tensors
    _require_name(message.model_name, "model_name")
    if raw and len(raw) != len(message.inputs):
        raise InvalidRequest(
            f"raw_input_contents has {len(raw)} entries for {len(message.inputs)} inputs: must "
            "have one per input"
        )
    inputs = tuple(
        _decode_input(item, raw[index] if raw else None, index)
        for index, item in enumerate(message.inputs)
    )
    outputs = tuple(
        RequestedOutput(item.name, _decode_parameters(item.parameters)) for item in message.outputs
    )
    request = InferRequest(
        message.model_name,
        message.model_version,
        inputs,
        outputs,
        message.id or None,
        _decode_parameters(message.parameters),
    )
    return Decoded(request, wants_raw=bool(raw) or not inputs)


def id_of(data: bytes | memoryview) -> str:
    """The id of a ModelInferRequest that may violate the wire format; "" if it has none."""
    found = oip_proto_raw.split(data, _ID_TAG)
    if found is None or not found.tensors:
        return ""
    try:
        return str(found.tensors[-1], "utf-8")
    except UnicodeDecodeError:
        return ""


def encode_infer(response: InferResponse, *, wants_raw: bool) -> bytes:
    """The ModelInferResponse; also raw if an output has no typed form."""
    message = pb.ModelInferResponse(
        model_name=response.model_name,
        model_version=response.model_version,
        id=response.id or "",
    )
    if response.parameters:
        _encode_parameters(response.parameters, message.parameters)
    is_raw = wants_raw or not all(
        oip_proto_contents.has_field(tensor.datatype) for tensor in response.outputs
    )
    for tensor in response.outputs:
        output = message.outputs.add(
            name=tensor.name, datatype=tensor.datatype, shape=tensor.array.shape
        )
        if tensor.parameters:
            _encode_parameters(tensor.parameters, output.parameters)
        if not is_raw:
            oip_proto_contents.encode(tensor, output.contents)
    data: bytes = message.SerializeToString()
    if not is_raw:
        return data
    return oip_proto_raw.append(data, map(binary_data.encode_array, response.outputs))


def encode_stream_answer(answer: bytes) -> bytes:
    """The ModelStreamInferResponse with a ModelInferResponse."""
    return oip_proto_raw.block(pb.ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER, answer)


def encode_stream_fault(message: str, request_id: str | None) -> bytes:
    """The ModelStreamInferResponse with an error, for the request with this id."""
    text = message.encode(
        errors="backslashreplace"
    ).decode()  # the characters that a string field supports
    answer = pb.ModelStreamInferResponse(error_message=text)
    if request_id:
        answer.infer_response.id = request_id
    return answer.SerializeToString()


def encode_server_live(*, is_live: bool) -> bytes:
    """The ServerLiveResponse."""
    return pb.ServerLiveResponse(live=is_live).SerializeToString()


def encode_server_ready(*, is_ready: bool) -> bytes:
    """The ServerReadyResponse."""
    return pb.ServerReadyResponse(ready=is_ready).SerializeToString()


def encode_model_ready(*, is_ready: bool) -> bytes:
    """The ModelReadyResponse."""
    return pb.ModelReadyResponse(ready=is_ready).SerializeToString()


def encode_server_metadata(metadata: ServerMetadata) -> bytes:
    """The ServerMetadataResponse."""
    return pb.ServerMetadataResponse(
        name=metadata.name, version=metadata.version, extensions=metadata.extensions
    ).SerializeToString()


def encode_model_metadata(metadata: ModelMetadata, version: str) -> bytes:
    """The ModelMetadataResponse.

    Args:
        metadata: Metadata of the model.
        version: The requested version, which is then the only one in ``versions``; with "",
            ``versions`` lists all available ones.
    """
    return pb.ModelMetadataResponse(
        name=metadata.name,
        versions=[version] if version else metadata.versions,
        platform=metadata.platform,
        inputs=map(_describe, metadata.inputs),
        outputs=map(_describe, metadata.outputs),
    ).SerializeToString()


def _describe(spec: TensorSpec) -> pb.ModelMetadataResponse.TensorMetadata:
    return pb.ModelMetadataResponse.TensorMetadata(
        name=spec.name, datatype=spec.datatype, shape=spec.shape
    )


def _parse(message: type[Any], data: bytes | memoryview) -> Any:
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(
            f"the {len(data)} received bytes are not a valid {message.DESCRIPTOR.full_name}"
        ) from error


def _parse_small(message: type[Any], data: bytes | memoryview) -> Any:
    protobuf.check_small(data, message)
    return _parse(message, data)


def is_quick(data: bytes | memoryview) -> bool:
    """Whether decoding a ModelInferRequest takes at most about a millisecond."""
    return protobuf.is_quick(data, pb.ModelInferRequest)


def _require_name(name: str, field: str) -> None:
    if not name:
        raise InvalidRequest(f"{field} is empty: must be the name of a model")


def _decode_input(
    item: pb.ModelInferRequest.InferInputTensor,
    raw: bytes | memoryview | None,
    index: int,
) -> Tensor:
    path = f"inputs[{index}]"
    datatype = _DATATYPES.get(item.datatype)
    if datatype is None:
        raise InvalidRequest(
            f"{path}.datatype: {item.datatype[:_SHOWN_CHARACTERS]!r} is invalid: must be one of "
            f"{', '.join(_DATATYPES)}"
        )
    shape = shapes.check(item.shape, f"{path}.shape")
    if raw is None:
        array = oip_proto_contents.decode(item.contents, datatype, shape, path)
    elif item.HasField("contents") and oip_proto_contents.has_values(item.contents):
        raise InvalidRequest(
            f"{path}.contents has values, and raw_input_contents is set: set only one of them"
        )
    else:
        array = binary_data.decode_array(raw, datatype, shape, f"raw_input_contents[{index}]")
    return Tensor(item.name, datatype, array, _decode_parameters(item.parameters))


def _decode_parameters(parameters: Mapping[str, pb.InferParameter]) -> Parameters:
    if not parameters:
        return NO_PARAMETERS
    decoded: dict[str, Parameter] = {}
    for key, value in parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is not None:  # a parameter without a value is ignored
            decoded[key] = getattr(value, choice)
    return decoded or NO_PARAMETERS


def _encode_parameters(parameters: Parameters, target: Any) -> None:
    for key, value in parameters.items():
        parameter = target[key]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, str):
            parameter.string_param = value
        elif isinstance(value, float):
            parameter.double_param = value
        elif value in _INT64:
            parameter.int64_param = value
        else:
            parameter.uint64_param = value
