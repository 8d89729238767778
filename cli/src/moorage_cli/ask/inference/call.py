"""Builds an inference request over gRPC and reads the response; pure.

`wire` makes the call. TensorFlow Serving is supported over HTTP only.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import google.protobuf
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError
from google.protobuf.runtime_version import VersionError

from moorage_cli.ask.inference.request import InferenceProtocol, grps_body, tensor_values, tensors
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

try:
    from moorage_cli._generated import grps_pb2, oip_pb2
except VersionError as error:
    raise Failure(
        f"protobuf {google.protobuf.__version__} is too old for moorage; another package, such "
        "as tritonclient, may have replaced it: install moorage in a virtual environment of its "
        "own, such as with pipx"
    ) from error

__all__ = [
    "Call",
    "CallAnswer",
    "answered_call",
    "make_call",
    "make_metadata_call",
    "metadata_of",
]

OIP_METHOD = "/inference.GRPCInferenceService/ModelInfer"
METADATA_METHOD = "/inference.GRPCInferenceService/ModelMetadata"
GRPS_METHOD = "/grps.protos.v1.GrpsService/Predict"

# Open Inference Protocol V2, "Tensor Data Types": the little-endian form of one element.
_ELEMENTS = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
_BYTES = "BYTES"


@dataclass(frozen=True, slots=True)
class Call:
    """A unary call: the method's full name and the request message."""

    method: str
    body: bytes


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The name of the status code, the server's details unless it is OK, and the message."""

    code: str
    details: str
    body: bytes


def make_call(
    protocol: InferenceProtocol, model: str, version: str, document: Mapping[str, Any]
) -> Call:
    """The call to a model; with an empty version, the server chooses one.

    Raises:
        Failure: The document cannot be converted to the protocol, or gRPC is not supported for it.
    """
    match protocol:
        case InferenceProtocol.OPEN_INFERENCE:
            return Call(OIP_METHOD, _oip_message(model, version, document))
        case InferenceProtocol.GRPS:
            chosen = f"{model}-{version}" if version else model
            try:
                message = ParseDict(dict(grps_body(document, chosen)), grps_pb2.GrpsMessage())
            except ParseError as error:
                raise Failure(f"the request is not a valid GRPS message: {error}") from error
            return Call(GRPS_METHOD, message.SerializeToString())
        case InferenceProtocol.TENSORFLOW_SERVING:
            raise Failure("--transport GRPC is not supported with TensorFlowServing: use HTTP")


def make_metadata_call(model: str) -> Call:
    """The call that asks an Open Inference server for the tensors of a model."""
    request = oip_pb2.ModelMetadataRequest(name=model)
    return Call(METADATA_METHOD, request.SerializeToString())


def metadata_of(answer: CallAnswer) -> Mapping[str, Any]:
    """The response to a metadata call in its JSON form.

    Raises:
        Failure: The server refuses the call, or its response is malformed.
    """
    if answer.code != "OK":
        raise Failure(f"{answer.code} from {METADATA_METHOD}: {answer.details or 'no details'}")
    try:
        reply = oip_pb2.ModelMetadataResponse.FromString(answer.body)
    except DecodeError as error:
        raise Failure(f"{METADATA_METHOD}: the response is malformed") from error
    return MessageToDict(reply, preserving_proto_field_name=True)


def answered_call(call: Call, answer: CallAnswer) -> Report:
    """The server's response; ok if the protocol reports success."""
    if answer.code != "OK":
        details = clean(answer.details) or "no details"
        document = {"code": answer.code, "text": details}
        return Report(f"{answer.code} from {call.method}: {details}\n", document, ok=False)
    try:
        if call.method == OIP_METHOD:
            found, ok = _oip_document(answer.body), True
        else:
            found, ok = _grps_document(answer.body)
    except (DecodeError, struct.error, ValueError) as error:
        reason = f": {error}" if type(error) is ValueError else ""
        raise Failure(f"{call.method}: the response is malformed{reason}") from error
    text = json.dumps(clean_document(found), indent=2, ensure_ascii=False)
    return Report(f"{text}\n", found, ok)


def _oip_message(model: str, version: str, document: Mapping[str, Any]) -> bytes:
    request = oip_pb2.ModelInferRequest(model_name=model, model_version=version)
    if isinstance(document.get("id"), str):
        request.id = document["id"]
    for item in tensors(document):
        request.inputs.add(name=item["name"], datatype=item["datatype"], shape=item["shape"])
        request.raw_input_contents.append(_packed(item))
    for output in cast("list[Any]", document.get("outputs") or []):
        if isinstance(output, Mapping) and "name" in output:
            request.outputs.add(name=str(cast("Mapping[str, Any]", output)["name"]))
    return request.SerializeToString()


def _packed(item: Mapping[str, Any]) -> bytes:
    """A tensor's values as raw contents: row-major and little-endian."""
    values, datatype = tensor_values(item), item["datatype"]
    if datatype == _BYTES:
        encoded = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(each)) + each for each in encoded)
    element = _ELEMENTS.get(datatype)
    if element is None:
        expected = ", ".join([*_ELEMENTS, _BYTES])
        raise Failure(
            f"{item['name']}.datatype: {datatype!r} is invalid: must be one of {expected}"
        )
    try:
        return struct.pack(f"<{len(values)}{element}", *values)
    except (struct.error, OverflowError) as error:
        problem = "contains a value that is not a valid"
        raise Failure(f"{item['name']}.data {problem} {datatype}") from error


def _oip_document(body: bytes) -> dict[str, Any]:
    """The response in its JSON form."""
    reply = oip_pb2.ModelInferResponse.FromString(body)
    outputs: list[dict[str, Any]] = []
    for at, output in enumerate(reply.outputs):
        raw = reply.raw_output_contents[at] if at < len(reply.raw_output_contents) else None
        data = _typed(output) if raw is None else _unpacked(raw, output.datatype)
        outputs.append(
            {
                "name": output.name,
                "datatype": output.datatype,
                "shape": list(output.shape),
                "data": data,
            }
        )
    return {
        "model_name": reply.model_name,
        "model_version": reply.model_version,
        "id": reply.id,
        "outputs": outputs,
    }


def _typed(output: Any) -> list[Any]:
    """The values of the typed field that is set."""
    for _, values in output.contents.ListFields():
        found: list[Any] = list(values)
        return [_text(each) if isinstance(each, bytes) else each for each in found]
    return []


def _unpacked(raw: bytes, datatype: str) -> list[Any]:
    if datatype == _BYTES:
        return _split(raw)
    element = f"<{_ELEMENTS.get(datatype, 'B')}"
    return [value for (value,) in struct.iter_unpack(element, raw)]


def _split(raw: bytes) -> list[str]:
    """Length-prefixed elements."""
    found: list[str] = []
    at = 0
    while at < len(raw):
        (size,) = struct.unpack_from("<I", raw, at)
        at += 4 + size
        if at > len(raw):
            raise ValueError("an element exceeds its tensor")
        found.append(_text(raw[at - size : at]))
    return found


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _grps_document(body: bytes) -> tuple[dict[str, Any], bool]:
    """The message as JSON, and whether it reports success."""
    reply = grps_pb2.GrpsMessage.FromString(body)
    ok = reply.status.status != grps_pb2.Status.FAILURE
    return MessageToDict(reply, preserving_proto_field_name=True), ok
