"""OIP's protobuf messages to the runtime's values and back: bytes in, bytes out. Pure.

::

    tensors = *(header contents)        ; typed: each tensor holds its values
            / *header *raw              ; raw: all values in raw_..._contents, in the same order

Whether names, datatypes and shapes fit the model is for the dataplane. Messages for the client
name the field.

Source: OIP, gRPC. What it leaves open: the answer is raw when the request was, or had no inputs,
or when an output has no typed form; a present but empty contents message counts as absent.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from moorage_runtime._generated import oip_pb2 as pb
from moorage_runtime.codec import (
    oip_binary,
    oip_proto_contents,
    oip_proto_raw,
    oip_proto_strings,
    oip_shape,
)
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.inference import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    RequestedOutput,
    ServerMetadata,
)
from moorage_runtime.tensors import (
    NO_PARAMETERS,
    Datatype,
    Parameter,
    Parameters,
    Tensor,
    TensorSpec,
)

_DATATYPES: Final[Mapping[str, Datatype]] = {str(datatype): datatype for datatype in Datatype}
_INT64: Final = range(-(2**63), 2**63)
_SHOWN_CHARACTERS: Final = 60


class Decoded(msgspec.Struct, frozen=True):
    """What a ModelInferRequest holds.

    Attributes:
        request: The inference.
        wants_raw: The answer's tensors shall be raw.
    """

    request: InferRequest
    wants_raw: bool


class ModelName(msgspec.Struct, frozen=True):
    """A model and its version, "" for the server's choice."""

    name: str
    version: str


def check_empty(data: bytes | memoryview) -> None:
    """Accept a request message without fields; all three of them look the same on the wire.

    Raises:
        InvalidRequest: The bytes are no message.
    """
    _parse(pb.ServerLiveRequest, data)


def decode_model_ready(data: bytes | memoryview) -> ModelName:
    """The model that a ModelReadyRequest asks about.

    Raises:
        InvalidRequest: The bytes are no such message, or the name is empty.
    """
    message = _parse(pb.ModelReadyRequest, data)
    _require_name(message.name, "name")
    return ModelName(message.name, message.version)


def decode_model_metadata(data: bytes | memoryview) -> ModelName:
    """The model that a ModelMetadataRequest asks about.

    Raises:
        InvalidRequest: The bytes are no such message, or the name is empty.
    """
    message = _parse(pb.ModelMetadataRequest, data)
    _require_name(message.name, "name")
    return ModelName(message.name, message.version)


def decode_infer(data: bytes | memoryview) -> Decoded:
    """The inference that a ModelInferRequest asks for; raw tensors share the message's memory.

    Raises:
        InvalidRequest: The bytes are no such message, or break the rules of the wire form.
    """
    cut = oip_proto_raw.cut(data)
    rest = data if cut is None else cut.rest
    strings = oip_proto_strings.cut(rest)
    message = _parse(pb.ModelInferRequest, rest if strings is None else strings.rest)
    raw = message.raw_input_contents if cut is None else cut.tensors
    contents = {} if strings is None else strings.contents
    _require_name(message.model_name, "model_name")
    if raw and len(raw) != len(message.inputs):
        raise InvalidRequest(
            f"raw_input_contents: {len(raw)} entries for {len(message.inputs)} inputs; expected "
            "one for each"
        )
    inputs = tuple(
        _decode_input(item, contents.get(index), raw[index] if raw else None, index)
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


def encode_infer(response: InferResponse, *, wants_raw: bool) -> bytes:
    """The ModelInferResponse; raw also when an output has no typed form."""
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
    return oip_proto_raw.append(data, map(oip_binary.encode_array, response.outputs))


def encode_stream_answer(answer: bytes) -> bytes:
    """The ModelStreamInferResponse that carries a ModelInferResponse."""
    return oip_proto_raw.block(pb.ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER, answer)


def encode_stream_fault(message: str, request_id: str | None) -> bytes:
    """The ModelStreamInferResponse that tells of a failure, of the request with this id."""
    text = message.encode(errors="backslashreplace").decode()  # what a string field can hold
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
        metadata: What the model says of itself.
        version: The version asked for, or "": ``versions`` then lists all that may be asked
            for, else only this one.
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
            f"the {len(data)} bytes received are no {message.DESCRIPTOR.full_name} message"
        ) from error


def _parse_strings(contents: memoryview) -> list[pb.InferTensorContents]:
    try:
        return list(oip_proto_strings.parse(contents))
    except DecodeError as error:
        raise InvalidRequest(
            f"the {len(contents)} bytes of an input's contents are no "
            f"{pb.InferTensorContents.DESCRIPTOR.full_name} message"
        ) from error


def _require_name(name: str, field: str) -> None:
    if not name:
        raise InvalidRequest(f"{field}: is empty; expected the name of a model")


def _decode_input(
    item: pb.ModelInferRequest.InferInputTensor,
    strings: memoryview | None,
    raw: bytes | memoryview | None,
    index: int,
) -> Tensor:
    path = f"inputs[{index}]"
    datatype = _DATATYPES.get(item.datatype)
    if datatype is None:
        raise InvalidRequest(
            f"{path}.datatype: {item.datatype[:_SHOWN_CHARACTERS]!r} is none of "
            f"{', '.join(_DATATYPES)}"
        )
    shape = oip_shape.check(item.shape, f"{path}.shape")
    if raw is None:
        contents = [item.contents] if strings is None else _parse_strings(strings)
        array = oip_proto_contents.decode(contents, datatype, shape, path)
    elif strings or (item.HasField("contents") and oip_proto_contents.has_values(item.contents)):
        raise InvalidRequest(
            f"{path}.contents: has values beside raw_input_contents; expected one of the two"
        )
    else:
        array = oip_binary.decode_array(raw, datatype, shape, f"raw_input_contents[{index}]")
    return Tensor(item.name, datatype, array, _decode_parameters(item.parameters))


def _decode_parameters(parameters: Mapping[str, pb.InferParameter]) -> Parameters:
    if not parameters:
        return NO_PARAMETERS
    decoded: dict[str, Parameter] = {}
    for key, value in parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is not None:  # a parameter without a value says nothing
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
