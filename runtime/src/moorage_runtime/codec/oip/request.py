"""OIP inference requests: an HTTP body to an :class:`InferRequest`.

::

    body = json [parts]     ; Inference-Header-Content-Length is the size of json
         / raw              ; ... is 0: the body is the single input's data

Every member of the wire format is checked here. The dataplane checks whether names, datatypes and
shapes fit the model. Error messages contain the path in the JSON.

Source: OIP "Inference Request"; binary tensor data extension, "Binary Tensor Request".
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from moorage_runtime.codec.arrays import binary_data, json_data, shapes
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.json.text import Buffer
from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import InferRequest, ModelMetadata, RequestedOutput
from moorage_runtime.values.tensors import (
    INTEGER_MAX,
    INTEGER_MIN,
    NO_PARAMETERS,
    Datatype,
    Parameters,
    Tensor,
)

_HEADER_LIMIT: Final = 2**31 - 1
_PARAMETER_TYPES: Final = frozenset({str, int, float, bool})
_DATATYPES: Final[Mapping[str, Datatype]] = {str(datatype): datatype for datatype in Datatype}
_LONG_LISTS: Final = frozenset({"data"})
_NO_OVERRIDES: Final[Mapping[str, bool]] = {}


class OutputForm(msgspec.Struct, frozen=True):
    """Which outputs the client requests as binary data, and which as JSON.

    Attributes:
        binary: The choice for outputs that are not in ``overrides``.
        overrides: Choice by output name.
    """

    binary: bool = False
    overrides: Mapping[str, bool] = _NO_OVERRIDES


ALL_JSON: Final = OutputForm()
ALL_BINARY: Final = OutputForm(binary=True)


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """A decoded body: the inference, and the form of the response."""

    request: InferRequest
    form: OutputForm


def parse_header_length(value: str, body_bytes: int) -> int:
    """The JSON's size from the header Inference-Header-Content-Length.

    Raises:
        InvalidRequest: It is not an unsigned 31-bit integer, or exceeds the body.
    """
    digits = value.strip()
    # without the length check, int() would parse a number of any length
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 20
    if not is_number or (length := int(digits)) > min(body_bytes, _HEADER_LIMIT):
        raise InvalidRequest(
            f"Inference-Header-Content-Length: {json_text.show(value)} is invalid: must be an "
            f"integer from 0 to {body_bytes}, the size of the body"
        )
    return length


def decode_raw(body: Buffer, version: str, metadata: ModelMetadata) -> Decoded:
    """The inference of a raw request: one input, no id, every output binary.

    Raises:
        InvalidRequest: The model does not allow raw requests, or the size does not match.
    """
    tensor = binary_data.decode_raw(body, metadata)
    return Decoded(InferRequest(metadata.name, version, (tensor,)), ALL_BINARY)


def decode(body: Buffer, json_bytes: int | None, name: str, version: str) -> Decoded:
    """The inference of a body.

    Args:
        body: The whole body; tensors may share its memory.
        json_bytes: Size of the JSON at its start, above 0. None without the header: then the whole
            body is JSON, and no tensor may be binary.
        name: Model name from the URL; one in the JSON is ignored.
        version: Version from the URL; "" lets the server choose.

    Raises:
        InvalidRequest: The body violates the wire format, or has more than 16,384 inputs or
            outputs.
    """
    text, rest = body, None
    if json_bytes is not None:
        text, rest = body[:json_bytes], memoryview(body)[json_bytes:]
    document = json_text.parse_object(text, _LONG_LISTS)
    parts = None if rest is None else _Parts(rest)
    request_id = document.get("id")
    if request_id is not None and type(request_id) is not str:
        raise InvalidRequest(f"id: {json_text.show(request_id)} is invalid: must be a string")
    parameters = _decode_parameters(document, "", text)
    inputs = tuple(
        [
            _decode_input(item, f"inputs[{index}]", parts, text)
            for index, item in enumerate(_array(document, "inputs", required=True))
        ]
    )
    if parts is not None:
        parts.finish()
    outputs = tuple(
        [
            _decode_output(item, f"outputs[{index}]", text)
            for index, item in enumerate(_array(document, "outputs", required=False))
        ]
    )
    form = _output_form(parameters, outputs)
    return Decoded(InferRequest(name, version, inputs, outputs, request_id, parameters), form)


class _Parts:
    """The binary data after the JSON, consumed from the start."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest
        self._start = 0

    def take(self, size: int, path: str) -> memoryview:
        stop = self._start + size
        if stop > len(self._rest):
            raise InvalidRequest(
                f"{path}.parameters.binary_data_size is {size}: the body has only "
                f"{len(self._rest) - self._start} bytes left"
            )
        part = self._rest[self._start : stop]
        self._start = stop
        return part

    def finish(self) -> None:
        left = len(self._rest) - self._start
        if left:
            raise InvalidRequest(
                f"the body has {left} more bytes after the JSON than the inputs' binary_data_size"
            )


def _decode_input(item: Any, path: str, parts: _Parts | None, text: Buffer) -> Tensor:
    _check_object(item, path)
    name = _string(item, "name", path)
    datatype_name = _string(item, "datatype", path)
    datatype = _DATATYPES.get(datatype_name)
    if datatype is None:
        raise InvalidRequest(
            f"{path}.datatype: {json_text.show(datatype_name)} is invalid: must be one of "
            f"{', '.join(_DATATYPES)}"
        )
    shape = _decode_shape(item, path)
    parameters = _decode_parameters(item, f"{path}.", text)
    if "binary_data_size" not in parameters:
        if "data" not in item:
            raise InvalidRequest(
                f"{path} has neither data nor parameters.binary_data_size: set one of them"
            )
        array = json_data.decode_array(item["data"], datatype, shape, f"{path}.data")
        return Tensor(name, datatype, array, parameters)
    size = parameters["binary_data_size"]
    if type(size) is not int or size < 0:
        raise InvalidRequest(
            f"{path}.parameters.binary_data_size: {json_text.show(size)} is invalid: must be an "
            "integer of 0 or more"
        )
    if "data" in item:
        raise InvalidRequest(
            f"{path}: data and parameters.binary_data_size are both set: set only one"
        )
    if parts is None:
        raise InvalidRequest(
            f"{path}.parameters.binary_data_size is {size}: requires the header "
            "Inference-Header-Content-Length"
        )
    array = binary_data.decode_array(parts.take(size, path), datatype, shape, path)
    rest = {key: value for key, value in parameters.items() if key != "binary_data_size"}
    return Tensor(name, datatype, array, rest or NO_PARAMETERS)


def _decode_output(item: Any, path: str, text: Buffer) -> RequestedOutput:
    _check_object(item, path)
    parameters = _decode_parameters(item, f"{path}.", text)
    return RequestedOutput(_string(item, "name", path), parameters)


def _output_form(parameters: Parameters, outputs: tuple[RequestedOutput, ...]) -> OutputForm:
    if not outputs and not parameters:
        return ALL_JSON
    _check_flag(parameters, "binary_data_output", "")
    binary = parameters.get("binary_data_output") is True
    overrides: dict[str, bool] = {}
    for index, output in enumerate(outputs):
        if "binary_data" in output.parameters:
            _check_flag(output.parameters, "binary_data", f"outputs[{index}].")
            overrides[output.name] = output.parameters["binary_data"] is True
    if overrides:
        return OutputForm(binary, overrides)
    return ALL_BINARY if binary else ALL_JSON


def _decode_shape(item: dict[str, Any], path: str) -> tuple[int, ...]:
    if "shape" not in item:
        raise InvalidRequest(f"{path}.shape is missing")
    shape = item["shape"]
    if type(shape) is not list:
        raise InvalidRequest(
            f"{path}.shape: {json_text.show(shape)} is invalid: must be an array of "
            "integers of 0 or more"
        )
    for index, dim in enumerate(shape):
        if type(dim) is not int:
            raise InvalidRequest(
                f"{path}.shape[{index}]: {json_text.show(dim)} is invalid: must be an "
                "integer of 0 or more"
            )
    return shapes.check(shape, f"{path}.shape")


def _decode_parameters(item: dict[str, Any], prefix: str, text: Buffer) -> Parameters:
    # Spec: optional. Peers' clients write null for optional members that are not set. We: null
    # counts as absent, here and for id and outputs.
    parameters = item.get("parameters")
    if parameters is None:
        return NO_PARAMETERS
    path = f"{prefix}parameters"
    _check_object(parameters, path)
    for key, value in parameters.items():
        if type(value) not in _PARAMETER_TYPES:
            raise InvalidRequest(
                f"{path}.{key}: {json_text.show(value)} is invalid: must be a string, "
                "number or boolean"
            )
        written = value
        if type(value) is float and not INTEGER_MIN < value <= INTEGER_MAX:
            # the strict parser rounds integers of more than 64 bits
            written = json_text.written_integer(text, key, value)
        if type(written) is int and not INTEGER_MIN <= written <= INTEGER_MAX:
            raise InvalidRequest(
                f"{path}.{key}: {json_text.show(written)} is invalid: must be an integer from "
                f"{INTEGER_MIN} to {INTEGER_MAX}"
            )
    return parameters


def _check_flag(parameters: Parameters, key: str, prefix: str) -> None:
    if key in parameters and type(parameters[key]) is not bool:
        raise InvalidRequest(
            f"{prefix}parameters.{key}: {json_text.show(parameters[key])} is invalid: "
            "must be a boolean"
        )


def _check_object(item: Any, path: str) -> None:
    if type(item) is not dict:
        raise InvalidRequest(f"{path}: {json_text.show(item)} is invalid: must be an object")


def _string(item: dict[str, Any], key: str, path: str) -> str:
    if key not in item:
        raise InvalidRequest(f"{path}.{key} is missing")
    value = item[key]
    if type(value) is not str:
        raise InvalidRequest(f"{path}.{key}: {json_text.show(value)} is invalid: must be a string")
    return value


def _array(document: dict[str, Any], key: str, *, required: bool) -> list[Any]:
    value = document.get(key)
    if value is None and (not required or key not in document):
        if required:
            raise InvalidRequest(f"{key} is missing: must be an array")
        return []
    if type(value) is not list:
        raise InvalidRequest(f"{key}: {json_text.show(value)} is invalid: must be an array")
    if len(value) > limits.TENSORS:
        raise InvalidRequest(
            f"{key} has {len(value)} entries: must have {limits.TENSORS} or fewer"
        )
    return value
